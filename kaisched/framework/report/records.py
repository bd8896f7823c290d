"""The values of a cycle's result, and the decision records of pending jobs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kaisched.core.axis import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.core.devices import PromisedCards
    from kaisched.framework.advice.advice import Advice
    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.report.reason import LeftOut, Problem

_LEFT_OUT: Final = frozenset({"task", "node_row", "queue", "beneficiary_queue", "kind"})
"""Row numbers are the store's own business: two stores of the same objects may differ in them.
Queues and the kind follow from the rest, and recordings of earlier versions do not have them."""


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


class Records(Protocol):
    """The records of the jobs that stay pending, by name; each is made when it is read.

    A record costs a hundred times as much as its reason. A caller that needs only reasons should
    read ``codes``.
    """

    @property
    def session(self) -> Any:
        """The session that they are made of; its type rests on ours."""
        ...

    @property
    def rows(self) -> RowVec:
        """The snapshot rows of the pending jobs, ascending."""
        ...

    @property
    def codes(self) -> CodeVec:
        """The :class:`~kaisched.core.refusals.Refusal` of each pending job."""
        ...

    def counts(self) -> dict[str, int]:
        """Return how many jobs are pending, by reason."""
        ...

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one job row."""
        ...

    def __len__(self) -> int:
        """Return how many jobs are pending."""
        ...

    def __iter__(self) -> Iterator[DecisionRecord]:
        """Make all records and iterate over them."""
        ...


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


@record
class CycleResult:
    """All decisions of a cycle. ``records`` and ``shares`` are computed on first read.

    The row vectors have the same content as the intents, for a source with the same row numbers.
    """

    binds: Sequence[Bind]
    evictions: Sequence[Evict]
    nominations: Sequence[Nominate]
    records: Records
    shares: Sequence[QueueShare]
    stats: CycleStats
    failures: tuple[PluginFailure, ...]
    bind_tasks: RowVec
    bind_nodes: RowVec
    evict_tasks: RowVec
    nominate_tasks: RowVec
    nominate_nodes: RowVec
    steps: tuple[Step, ...] = ()
    """The claims of reclaim, preempt and consolidate that were met, in order."""
    put_off: Mapping[str, int] = field(default_factory=dict)
    """Jobs that were put off, by leaf queue."""
    is_cut_short: bool = False
    """Whether it has evicted as many pods as one cycle may: the next should go on at once."""
    bind_cards: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The cards of bound pods with a share, as slots of their nodes, by task row."""
    nominate_cards: Mapping[int, PromisedCards] = field(default_factory=dict)
    """The cards of promised pods with a share, by task row."""

    def encode(self) -> bytes:
        """Return the canonical bytes of the decision: equal input gives equal bytes."""
        return _encoded(self)


def _encoded(result: CycleResult) -> bytes:
    """Return compact JSON with sorted keys."""
    document = {
        "binds": [_intent(intent) for intent in result.binds],
        "evictions": [_intent(intent) for intent in result.evictions],
        "nominations": [_intent(intent) for intent in result.nominations],
        "records": [asdict(record) for record in result.records],
        "shares": [_share(share) for share in result.shares],
        "stats": asdict(result.stats),
        "failures": [asdict(failure) for failure in result.failures],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _share(share: QueueShare) -> dict[str, Any]:
    """Return a share; figures only where the policy tells any."""
    told = asdict(share)
    if not share.figures:
        del told["figures"]
    return told


def _intent(intent: Any) -> dict[str, Any]:
    told = {
        field.name: getattr(intent, field.name)
        for field in fields(intent)
        if field.name not in _LEFT_OUT and (field.name != "cards" or intent.cards)
    }
    if claims := told.pop("claims", ()):
        told["claims"] = {
            key: [list(it.device.identity) for it in allocation.results]
            for key, allocation in claims
        }
    return told
