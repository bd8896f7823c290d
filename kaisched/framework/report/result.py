"""The parts of a cycle's result that are made when they are read: intents, records, queue shares.

A simulator runs thousands of cycles and reads none of these parts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import numpy as np

from kaisched.core.axis import PODS, TaskState, record
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.framework.report.node_reasons import never_fits
from kaisched.framework.report.reasons import codes_of, counted, record_of
from kaisched.framework.report.records import DecisionRecord, LeftOut, QueueShare
from kaisched.framework.session.unschedulable import BEYOND_BOUNDS
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaisched.core.axis import Amounts, CodeVec, FloatVec, RowVec
    from kaisched.core.claims.model import Identity
    from kaisched.core.devices import PromisedCards
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import QueueTable
    from kaisched.framework.report.records import CycleStats, PluginFailure, Problem, Step
    from kaisched.framework.session.devices import Devices, Heir
    from kaisched.framework.session.session import Session

_T = TypeVar("_T")
_GONE = int(TaskState.GONE)
_PENDING = int(TaskState.PENDING)
_WAITING = frozenset({_PENDING, int(TaskState.GATED)})
_ON_HOLD = int(Refusal.QUEUE_ON_HOLD)


class Lazy(Sequence[_T], Generic[_T]):
    """A sequence that is made on first read."""

    def __init__(self, make: Callable[[], Iterable[_T]]) -> None:
        """Keep what makes the contents, once."""
        self._make = make

    @cached_property
    def _list(self) -> list[_T]:
        return list(self._make())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._list)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        """Return one, or a part of the list."""
        return self._list[index]

    def __eq__(self, other: object) -> bool:
        """Compare the contents with any sequence."""
        return isinstance(other, Sequence) and self._list == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._list)


# -- records and shares --------------------------------------------------------------------------


class Records(Lazy[DecisionRecord]):
    """The records of the jobs that stay pending, by name; each is made when it is read.

    A record costs a hundred times as much as its reason: who needs only reasons reads ``codes``.
    """

    def __init__(self, session: Session, abandoned: str) -> None:
        """Keep the session: its ledger no longer changes."""
        self.session, self._abandoned = session, abandoned

    @cached_property
    def rows(self) -> RowVec:
        """The rows of the jobs that stay pending, ascending."""
        session = self.session
        pending = session.ledger.job_pending if session.has_moved else session.jobs.pending
        waits = pending > 0
        for job in np.flatnonzero((session.jobs.refusal != 0) & ~waits).tolist():
            waits[job] = self._is_told(job)
        if session.outcome.nominations:
            promised = np.array([task for task, _ in session.outcome.nominations])
            # A moving pod has its new place in the plan: it is not pending.
            promised = promised[session.tasks.state[promised] == _PENDING]
            waits[session.tasks.job_of_task[promised]] = True
        return np.flatnonzero(waits)

    @cached_property
    def codes(self) -> CodeVec:
        """The code of the dominant reason of each pending job."""
        return codes_of(self.session, self.rows, self._abandoned)

    def counts(self) -> dict[str, int]:
        """Return how many jobs are pending, by reason."""
        return counted(self.codes)

    @cached_property
    def _code_of(self) -> dict[int, int]:
        return dict(zip(self.rows.tolist(), self.codes.tolist(), strict=True))

    def record(self, job: int) -> DecisionRecord:
        """Return the record of the pending job of a row."""
        return record_of(self.session, job, self._code_of[job], self._abandoned)

    @cached_property
    def _list(self) -> list[DecisionRecord]:
        rows = sorted(self.rows.tolist(), key=lambda row: self.session.jobs.name[row])
        return [self.record(row) for row in rows]

    def __len__(self) -> int:
        """Return how many there are, without making them."""
        return len(self.rows)

    def _is_told(self, job: int) -> bool:
        """Tell whether a refused job without pending tasks has a record.

        So it is while tasks of it are left: gated ones, or running ones that nothing can be done
        about, their queue being gone. A hold does not touch what runs: then gated ones only.
        """
        states = (self.session.tasks.state[task] for task in self.session.jobs.tasks[job])
        if self.session.jobs.refusal[job] == _ON_HOLD:
            return any(state in _WAITING for state in states)
        return any(state != _GONE for state in states)


class Shares(Lazy[QueueShare]):
    """Every queue's fair share and what it holds after the cycle, in preorder."""

    def __init__(self, session: Session, abandoned: str) -> None:
        """Keep the session."""
        self._session, self._abandoned = session, abandoned

    @cached_property
    def table(self) -> ShareTable:
        """The shares as arrays, without the session."""
        session = self._session
        quotas = None if self._abandoned else session.ask.quotas(session)
        return ShareTable(
            session.axis.names,
            session.queues,
            self._fair_share(),
            session.ledger.held if session.has_moved else session.held,
            session.requested,
            session.queues.deserved if quotas is None else quotas,
            {} if self._abandoned else session.ask.queue_problems(session) or {},
            {} if self._abandoned else session.ask.queue_figures(session) or {},
            {} if self._abandoned else _left_out(session),
        )

    @cached_property
    def _list(self) -> list[QueueShare]:
        return list(self.table)

    def fair_share_of(self, resource: str) -> list[int]:
        """Return every queue's fair share of one resource, in preorder; -1 for unlimited.

        The simulator samples only this: rows of all queues would cost more than the division.
        """
        row = self._fair_share()[self._session.axis.position[resource]]
        return [-1 if amount >= UNLIMITED else amount for amount in row.tolist()]

    def _fair_share(self) -> Amounts:
        """Return the fair shares; zero if the division failed."""
        session = self._session
        return np.zeros_like(session.held) if self._abandoned else session.fair_share


def without_session(shares: Sequence[QueueShare]) -> Sequence[QueueShare]:
    """Return shares that may be kept: they do not keep the session of their cycle."""
    return shares.table if isinstance(shares, Shares) else tuple(shares)


@dataclass(frozen=True, slots=True, eq=False)
class ShareTable(Sequence[QueueShare]):
    """The shares of all queues in one cycle, as arrays that do not refer to the session.

    A queue's row is made when it is read: thousands of queues in every cycle would cost more than
    the division. Amounts are ``(R, Q)``, in base units.
    """

    resources: tuple[str, ...]
    queues: QueueTable
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    deserved: Amounts
    problems: Mapping[int, Problem]
    figures: Mapping[str, FloatVec]
    unschedulable: Mapping[int, LeftOut]

    def __len__(self) -> int:
        """Return Q."""
        return len(self.queues)

    @overload
    def __getitem__(self, index: int) -> QueueShare: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueShare]: ...
    def __getitem__(self, index: int | slice) -> QueueShare | list[QueueShare]:
        """Return the row of one queue, or those of a part of the queues, in preorder."""
        if isinstance(index, slice):
            return [self._row(row) for row in range(len(self))[index]]
        return self._row(range(len(self))[index])

    def _row(self, row: int) -> QueueShare:
        queues = self.queues
        parent = int(queues.tree.parent_of_queue[row])
        return QueueShare(
            queues.name[row],
            queues.name[parent] if parent >= 0 else None,
            self._amounts(self.fair_share, row),
            self._amounts(self.allocated, row),
            self._amounts(self.requested, row),
            self._amounts(self.deserved, row),
            self.problems.get(row),
            {figure: float(numbers[row]) for figure, numbers in self.figures.items()},
            self.unschedulable.get(row),
        )

    def _amounts(self, amounts: Amounts, row: int) -> dict[str, int]:
        return {
            name: -1 if amount >= UNLIMITED else amount
            for name, amount in zip(self.resources, amounts[:, row].tolist(), strict=True)
        }


def _left_out(session: Session) -> dict[int, LeftOut]:
    """Return, by leaf queue, the demand that could not be met if nothing else ran."""
    found = session.unschedulable
    if found is None:
        return {}
    names, job = session.axis.names, session.tasks.job_of_task[found.tasks]
    reasons = [
        text_of(code).name
        for code in _unschedulable_codes(session, found.tasks, found.code).tolist()
    ]
    queue = session.jobs.queue_of_job[job]
    told: dict[int, LeftOut] = {}
    for row in np.unique(queue).tolist():
        amounts = {
            name: int(amount)
            for at, (name, amount) in enumerate(zip(names, found.amounts[:, row], strict=True))
            if amount and at != PODS
        }
        reason_of_job: dict[int, str] = {}
        for at in (queue == row).nonzero()[0].tolist():  # of several the first by name
            reason_of_job[int(job[at])] = min(reasons[at], reason_of_job.get(int(job[at]), "~"))
        told[row] = _told(session, amounts, reason_of_job)
    return told


def _unschedulable_codes(session: Session, tasks: RowVec, code: CodeVec) -> CodeVec:
    """Return why pods cannot start; those without a reason yet find no node."""
    codes, shape = code.copy(), session.tasks.shape_of_task[tasks]
    if (at := (code == BEYOND_BOUNDS).nonzero()[0]).size:
        jobs, place = np.unique(session.tasks.job_of_task[tasks[at]], return_inverse=True)
        codes[at] = codes_of(session, jobs)[place]
    for each in np.unique(shape[code == 0]).tolist():
        never = never_fits(session, each) or Refusal.NO_NODE_ALLOWED
        codes[(code == 0) & (shape == each)] = int(never)
    return codes


def _told(session: Session, amounts: dict[str, int], reason_of_job: dict[int, str]) -> LeftOut:
    counts = Counter(reason_of_job.values())
    reasons = sorted(counts, key=lambda name: (-counts[name], name))
    first = min(session.jobs.title[job] for job, it in reason_of_job.items() if it == reasons[0])
    asked = " and ".join(f"{name} {format_amount(name, it)}" for name, it in amounts.items())
    why = ", ".join(f"{counts[name]} {name}" for name in reasons)
    message = (
        f"{asked or 'nothing'} that its jobs ask for counts for no share: {why}, such as {first};"
        " they could not start if nothing else ran"
    )
    return LeftOut(amounts, reasons[0], message)


def device_name(identity: Identity) -> str:
    """Return a device as Kubernetes writes it: ``driver/pool/device``."""
    return "/".join(identity)


def granted_to(devices: Devices, task: int) -> tuple[str, ...]:
    """Return the devices that the claims of a task get with it."""
    return tuple(
        device_name(it.device.identity)
        for grant in devices.granted.get(task, ())
        for it in grant.allocation.results
    )


def devices_for(result: CycleResult, task: int) -> tuple[str, ...]:
    """Return the devices that a bind or a promise names; nothing where no pod has claims."""
    devices = result.records.session.devices
    return () if devices is None else granted_to(devices, task)


_LEFT_OUT: Final = frozenset({"task", "node_row", "queue", "beneficiary_queue", "kind", "step"})
"""Row numbers are the store's own business: two stores of the same objects may differ in them.
The others follow from the rest, and recordings of earlier versions do not have them."""


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
    heirs: Sequence[Heir] = ()
    """The pods with which claims of evicted pods count, since they use them too."""
    counted: Snapshot | None = None
    """The snapshot with what pods count at last, where claims count with other pods than as the
    cycle began."""

    def encode(self) -> bytes:
        """Return the canonical bytes of the decision: equal input gives equal bytes."""
        document = {
            "binds": [_intent(intent) for intent in self.binds],
            "evictions": [_intent(intent) for intent in self.evictions],
            "nominations": [_intent(intent) for intent in self.nominations],
            "records": [asdict(record) for record in self.records],
            "shares": [_share(share) for share in self.shares],
            "stats": asdict(self.stats),
            "failures": [asdict(failure) for failure in self.failures],
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class ShardCycle:
    """One cycle of one shard."""

    shard: str
    pool: str
    """Name of its node pool."""
    result: CycleResult
    passed_on: dict[str, str]
    """Jobs that went on to another node pool after it, with the name of that pool."""


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
