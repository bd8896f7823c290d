"""The base of plugins: a name, arguments, refusals, and promises about answers.

The questions that a plugin may answer are in :mod:`~kaisched.framework.plugins.questions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from kaisched.framework.plugins.questions import Decisions, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts
    from kaisched.core.refusals import PluginRefusal
    from kaisched.framework.session.session import Session


class Arguments(BaseModel):
    """Base of a plugin's typed arguments: camelCase in the shard, unknown keys refused, frozen.

    Values may be numbers, booleans or their text (KAI's arguments are strings).
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", frozen=True
    )


_Arguments: TypeAlias = Arguments
"""Inside :class:`Plugin` the name means the plugin's own model."""


class Plugin(Decisions, Words):
    """Base of every plugin: one instance for each shard, which holds only its arguments.

    The state of a cycle is the value that ``session_open`` returns, read back as
    ``session.state[self.name]``. An instance is never written to after construction.
    """

    name: ClassVar[str]
    """The name in shard files and of the entry point."""
    default_weight: ClassVar[float] = 1.0
    """Factor of its node scores unless the shard says otherwise."""

    is_score_rising: bool = False
    """Promise that ``node_score`` does not fall as ``extra`` grows while the pods fit.

    Identical pods then fill one node before the next without new scores, also a node whose room is
    still being released. The conformance kit checks it.
    """

    takes_from_own_queue: bool = False
    """Declare that reclaim may also take from the claim's own queue; otherwise only preempt does.

    Such victims need not have a lower priority: ``victim_order`` decides which of them go.
    """

    bounds_non_preemptible: bool = False
    """Declare that ``queue_gate`` keeps what non-preemptible jobs hold within ``deserved`` of every
    queue on their path: a job that needs more than that asks for nothing in the division.
    """

    lends: bool = False
    """Declare that the policy divides by what queues borrow and lend, as Kueue does.

    Manifests of Kueue's objects bring a warning if no plugin of the shard declares it.
    """

    honors_topology: bool = False
    """Declare that the plugin places jobs as their topology constraints require.

    If no plugin of the shard declares it, jobs with a required level are not placed.
    """

    refusals: ClassVar[tuple[PluginRefusal, ...]] = ()
    """The plugin's own reasons to refuse; gates may also answer a host's ``Refusal``."""

    eviction_kinds: ClassVar[tuple[str, ...]] = ()
    """The words with which ``eviction_reason`` says what entitles a claim, in snake_case.

    Values of the label ``reason`` of the metric ``kaisched_queue_evictions_total``.
    """

    Arguments: ClassVar[type[_Arguments]] = _Arguments

    def __init_subclass__(cls, **options: Any) -> None:
        """Set the owner of the refusals that a class lists."""
        super().__init_subclass__(**options)
        for refusal in vars(cls).get("refusals", ()) if "name" in vars(cls) else ():
            refusal.claim(cls.name)

    def __init__(self, arguments: _Arguments) -> None:
        """Keep the typed arguments of this shard."""
        self.arguments: Any = arguments

    def key_names(self, question: str) -> Sequence[str]:
        """Name the key columns that this plugin answers to a question about order, for people.

        Of ``job_order``, ``queue_order`` and ``head_order``, in the order of the columns. A name
        that begins with ``-`` is that of a number whose sign the key turns, such as ``-priority``.
        """
        del question
        return ()

    def key_words(self, question: str) -> Sequence[str]:
        """Say in a sentence what each of these keys puts behind, in the order of the columns.

        ``{whose}`` is who is behind, ``{own}`` its number and ``{other}`` that of who is ahead, as
        in ``{whose} has the lower priority, {own} against {other}``. Where there is no sentence,
        the name of the key and the two numbers are told.
        """
        del question
        return ()

    def quotas(self, session: Session) -> Amounts | None:
        """Return ``(R, Q)`` what queues have by quota; None where it is as written.

        Asked of the plugin that answers ``fair_share``.
        """
        del session
        return None

    def rests_on_sums(self, session: Session) -> bool:
        """Promise that answers about an inner queue depend only on the sum of what it holds.

        ``queue_order``, ``head_order`` and ``queue_gate`` are then asked about assumed positions,
        many jobs ahead. With False they are asked for one job at a time, and may read what each
        queue holds now from ``session.held_now``.
        """
        del session
        return True

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise with True that a question has no answer from this plugin in this cycle.

        Asked about ``over_quota_weights`` and ``head_start`` before the division. If no plugin has
        an answer, the division is quick, and its result is kept between cycles. Asked about
        ``node_sets`` and ``subgroup_sets`` when the first job is tried, about ``node_score`` when
        scores are first needed, and about ``on_moves`` before the first move: a plugin that is
        silent about them hears of none.
        """
        del session, question
        return False


@dataclass(frozen=True, slots=True)
class PluginSetting:
    """An enabled plugin, the factor of its scores and where it came from."""

    plugin: Plugin
    weight: float = 1.0
    distribution: str = ""
    version: str = ""

    @property
    def source(self) -> str:
        """The distribution that the plugin came with, and its version."""
        return f"{self.distribution} {self.version}".strip()
