"""The base of plugins: a name, arguments, refusals, and promises about answers.

The questions that a plugin may answer are in :mod:`~kaisched.framework.plugins.questions`; those
whose answers people read are in :mod:`~kaisched.framework.plugins.words`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from kaisched.framework.plugins.questions import Decisions
from kaisched.framework.plugins.words import Words

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
    """Promise that ``node_score`` never falls as ``extra`` grows while the pods fit.

    Identical pods may then fill one node before the next without new scores. Binpacking promises
    this, spreading cannot. The conformance kit checks it.
    """

    is_job_bound: bool = False
    """Promise that ``job_order``, ``job_gate`` and ``batch_size`` read nothing but the job's own
    row (its counts, pod sets, priority, creation, labels, annotations) and the arguments.

    Answers may then be kept from cycle to cycle for jobs that have not changed.
    """

    is_class_bound: bool = False
    """Promise that ``job_gate`` answers every action alike, and that ``claim_gate`` reads no more
    of a job than its queue, request, priority and preemptibility.

    One answer about a job of a class then holds for all jobs of the class.
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

    def has_gates(self, session: Session, action: str) -> bool:
        """Promise with False that ``queue_gate`` has no objection to the action in this cycle.

        The gate is then not asked: without limits, thousands of positions need not be computed.
        Asked once for each cycle and action, when the first gate is needed.
        """
        del session, action
        return True

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

    def judges_in_runs(self, session: Session, action: str) -> bool:
        """Promise that equal claims of one queue may be judged by what they ask for together.

        With no objection to a claim for the sum of K requests and to K units in order,
        ``claim_gate`` and ``scenario_gate`` have none to the n-th request and the n-th unit either,
        once those before them have been carried out. ``eviction_reason`` reads of all that moves
        only ``session.held_now``. Without the promise every claim is judged by itself.
        """
        del session, action
        return False

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise with True that a question has no answer from this plugin in this cycle.

        Asked about ``over_quota_weights`` and ``head_start`` before the division. If no plugin has
        an answer, the division is quick, and its result is kept between cycles. Asked about
        ``node_sets`` and ``subgroup_sets`` when the first job is tried, and about ``on_moves``
        before the first move: a plugin that is silent about them hears of none.
        """
        del session, question
        return False
