"""The values of a cycle's result: decisions, why jobs wait, what queues have, why pods go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.core.axis import record
from kaisched.core.titles import TopOwner, title_of
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.framework.advice.advice import Advice


class Reason(NamedTuple):
    """Why a plugin refuses a job."""

    sentence: str
    numbers: Mapping[str, Any] = {}
    """Numbers for programs: names in camelCase, amounts in base units."""


class EvictionReason(NamedTuple):
    """Why the pods of a plan are evicted."""

    sentence: str
    kinds: Mapping[int, str] = {}
    """What entitles the claim, by the row of each queue that loses: one of the plugin's
    ``eviction_kinds``. A queue that is left out gets the name of the action."""


class Problem(NamedTuple):
    """Why a queue cannot be used."""

    name: str
    """The reason of the queue's condition, in CamelCase."""
    message: str
    """The problem and its cure."""


class LeftOut(NamedTuple):
    """Demand of a queue that could not be met if nothing else ran, and counts for no share."""

    amounts: Mapping[str, int]
    """By resource name in base units."""
    reason: str
    """Name of the refusal of most of its jobs."""
    message: str


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """The number of nodes that were out for one reason."""

    reason: str
    nodes: int
    detail: str
    """For example ``gpu short by at least 2``."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """Why a job is pending: one dominant reason of a closed list, with its numbers."""

    pod_group: str
    queue: str
    reason: str
    """Name of a refusal, of the host or a plugin, as users see it."""
    message: str
    """One sentence with the numbers."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    node_misses: tuple[NodeRefusal, ...] = ()
    plugin: str = ""
    """The plugin that refused; empty if none did."""
    eviction_refusals: Mapping[str, str] = field(default_factory=dict)
    """By evicting action: why the action evicted nothing for the job."""
    advice: tuple[Advice, ...] = ()
    """Changes that were tried for the job; empty unless advice was asked for."""
    top_owner: TopOwner | None = field(compare=False, default=None)
    """What the job comes from."""

    @property
    def title(self) -> str:
        """What the job is called where people read."""
        return title_of(self.pod_group, self.top_owner)


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue's row of the result. Amounts by resource name in base units; -1 for unlimited."""

    name: str
    parent: str | None
    fair_share: Mapping[str, int]
    allocated: Mapping[str, int]
    requested: Mapping[str, int]
    deserved: Mapping[str, int]
    problem: Problem | None = None
    """Why the queue cannot be used under the policy of the shard, if it cannot."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the policy tells of it besides, by name."""
    unschedulable: LeftOut | None = None
    """What its jobs ask for and could not have if nothing else ran, which is not in ``requested``;
    None for nothing."""

    @property
    def pending(self) -> Mapping[str, int]:
        """What is asked for and not held, by resource name in base units."""
        held = self.allocated
        return {name: max(0, asked - held.get(name, 0)) for name, asked in self.requested.items()}

    @property
    def saturation(self) -> float | None:
        """The largest part of its fair share that it holds, of any resource but pod slots."""
        parts = [
            self.allocated[name] / fair
            for name, fair in self.fair_share.items()
            if fair > 0 and name != "pods"
        ]
        return max(parts) if parts else None


RUN: Final = "run"
"""The question under which a failed action is listed."""


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin raised or answered nonsense, or an action raised: its question is :data:`RUN`."""

    plugin: str
    question: str
    error: str


def who_failed(name: str, question: str) -> str:
    """Name the action that failed, or the plugin and its question."""
    return f"action {name}" if question == RUN else f"plugin {name} at {question}"


class Step(NamedTuple):
    """The moves of one claim of an evicting action, as places in the result's row vectors.

    Each pair is the start and the end of a range. The vectors are in the order of decisions: rows
    before a step were decided before it.
    """

    action: str
    beneficiary: str
    binds: tuple[int, int]
    nominations: tuple[int, int]
    evictions: tuple[int, int]


@record
class CycleStats:
    """Counts of one cycle."""

    jobs_pending: int
    """Jobs with pending tasks when the cycle began."""
    jobs_placed: int
    tasks_bound: int
    tasks_nominated: int
    tasks_evicted: int
    abandoned: str = ""
    """Why the cycle was abandoned without intents; empty otherwise."""


_IN_WORDS: Final = {
    "creation": "{} was created later",
    "age": "{} was created later, or requeued later, when its time was over",
    "name": "the name of {} comes later",
    "place": "{} was created later, or its name comes later",
}


class Because(NamedTuple):
    """The first key in which two neighbours in an order differ."""

    plugin: str
    """The plugin that answered it; empty for the last rules of the host."""
    key: str
    own: float | str | None
    other: float | str | None
    words: str = ""
    """The sentence of the plugin, if it has one: see :meth:`Plugin.key_words`."""

    def text(self, whose: str) -> str:
        """Return for example ``job a has the lower priority``; ``whose`` is who is behind."""
        if not self.plugin:
            return _IN_WORDS[self.key].format(whose)
        own, other = _told_apart(self.own, self.other)
        if not self.words:
            return f"{self.key} {own} against {other} ({self.plugin})"
        said = self.words.replace("{own}", own).replace("{other}", other)
        return said.replace("{whose}", whose)


_DIGITS: Final = range(3, 17)


def _told_apart(own: float | str | None, other: float | str | None) -> tuple[str, str]:
    """Return two values with as few digits as show which is which."""
    told = ("", "")
    for digits in _DIGITS:
        told = (_told(own, digits), _told(other, digits))
        if told[0] != told[1]:
            break
    return told


def _told(value: float | str | None, digits: int) -> str:
    number = plain_number(value)
    if number is None:
        return "none"
    return f"{number:.{digits}g}" if isinstance(number, float) else str(number)


def plain_number(value: float | str | None) -> float | str | None:
    """Return a value for JSON, None for one that stands for none or infinite."""
    if value is None or isinstance(value, str):
        return value
    return value if abs(value) < UNLIMITED else None
