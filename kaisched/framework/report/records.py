"""What a cycle leaves behind: its result, and why each job that stays pending does."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kaisched.core.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import CodeVec, RowVec
    from kaisched.framework.advice.advice import Advice
    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.report.reason import Problem

_ROWS: Final = frozenset({"task", "node_row"})
"""Row numbers are the store's own business: two stores of the same objects may differ in them."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """So many nodes were out for one reason."""

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
    """Name of a refusal, the host's or a plugin's, as users see it."""
    message: str
    """One sentence with the numbers."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    node_misses: tuple[NodeRefusal, ...] = ()
    plugin: str = ""
    """The plugin that refused, where one did."""
    eviction_refusals: Mapping[str, str] = field(default_factory=dict)
    """By evicting action, why it took nothing from others for the job."""
    advice: tuple[Advice, ...] = ()
    """Changes that were tried for it; none where nobody asked for that."""


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
    """What hinders it under the policy of the shard, if anything does."""


class Records(Protocol):
    """The records of the jobs that stay pending, by name; each is made when it is read.

    A record costs a hundred times as much as its reason, so whoever needs no more than that reads
    ``codes``, and makes the records of few.
    """

    @property
    def session(self) -> Any:
        """The session that they are made of; its type rests on ours."""
        ...

    @property
    def rows(self) -> RowVec:
        """The rows of these jobs in the snapshot, ascending."""
        ...

    @property
    def codes(self) -> CodeVec:
        """The :class:`~kaisched.core.refusals.Refusal` of each of them."""
        ...

    def counts(self) -> dict[str, int]:
        """Return how many there are, by reason."""
        ...

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one row alone."""
        ...

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[DecisionRecord]:
        """Make and go through all of them."""
        ...


RUN: Final = "run"
"""What an action fails at."""


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin raised or answered nonsense, or an action raised: its question is :data:`RUN`."""

    plugin: str
    question: str
    error: str


def who_failed(name: str, question: str) -> str:
    """Say what failed, and a plugin at what."""
    return f"action {name}" if question == RUN else f"plugin {name} at {question}"


class Step(NamedTuple):
    """What one claim of an evicting action came to, as places in the result's row vectors.

    Each pair says where its part begins and where it ends. The vectors are in the order in which
    things were decided, so what stands before a step was decided before it.
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
    """Why the cycle was abandoned without intents; empty when it was not."""


@record
class CycleResult:
    """Everything a cycle decided. ``records`` and ``shares`` are worked out when first read.

    The row vectors say the same as the intents, for a source that shares the row numbers.
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
        "shares": [asdict(share) for share in result.shares],
        "stats": asdict(result.stats),
        "failures": [asdict(failure) for failure in result.failures],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _intent(intent: Any) -> dict[str, Any]:
    return {
        field.name: getattr(intent, field.name)
        for field in fields(intent)
        if field.name not in _ROWS
    }
