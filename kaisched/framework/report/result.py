"""The lazily built parts of a cycle's result: intents as objects, records, queue shares.

A simulator runs thousands of cycles and reads none of these parts; they are made on first read.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.framework.report.codes import codes_of, counted
from kaisched.framework.report.explain import record_of
from kaisched.framework.report.left_out import left_out
from kaisched.framework.report.reason import EvictionReason
from kaisched.framework.report.records import DecisionRecord, QueueShare
from kaisched.framework.report.share_table import ShareTable
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.core.axis import Amounts, CodeVec, RowVec
    from kaisched.framework.session.cards import Cards
    from kaisched.framework.session.outcome import Eviction
    from kaisched.framework.session.session import Session

_T = TypeVar("_T")
_P = TypeVar("_P", Bind, Nominate)
_GONE = int(TaskState.GONE)
_PENDING = int(TaskState.PENDING)
_WAITING = frozenset({_PENDING, int(TaskState.GATED)})
_ON_HOLD = int(Refusal.QUEUE_ON_HOLD)


class Lazy(Sequence[_T], Generic[_T]):
    """A sequence that is made on first read."""

    @abstractmethod
    def _make(self) -> Iterable[_T]:
        """Make the contents, once."""

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


def _group(session: Session, task: int) -> str:
    job = int(session.tasks.job_of_task[task])
    return session.jobs.name[job] if job >= 0 else ""


class _Placed(Lazy[_P]):
    """Intents that pair a pod with a node, in the order they were decided."""

    _kind: type[_P]

    def __init__(self, session: Session, tasks: RowVec, nodes: RowVec) -> None:
        """Keep the rows."""
        self._session, self._tasks, self._nodes = session, tasks, nodes

    def _make(self) -> Iterable[_P]:
        session = self._session
        for task, node in zip(self._tasks.tolist(), self._nodes.tolist(), strict=True):
            yield self._kind(
                session.tasks.name[task],
                session.tasks.uid[task],
                session.nodes.name[node],
                _group(session, task),
                task,
                node,
            )


class Binds(_Placed[Bind]):
    """Bind intents."""

    _kind = Bind

    def _make(self) -> Iterable[Bind]:
        made: Iterable[Bind] = super()._make()
        if (cards := self._session.capacity.cards) is not None:
            made = _with_cards(made, cards)
        if (devices := self._session.devices) is not None:
            granted = devices.granted
            made = (replace(it, claims=tuple(granted.get(it.task, ()))) for it in made)
        return made


def _with_cards(binds: Iterable[Bind], cards: Cards) -> Iterator[Bind]:
    """Yield binds with the cards of shares."""
    groups = dict(cards.table.group_of_slot)
    names = set(groups.values())
    for bind in binds:
        slots = [(bind.node_row, slot) for slot in cards.slots_of(bind.task)]
        for slot in slots:
            if slot not in groups:
                groups[slot] = _new_name(bind.uid, names)
        yield replace(bind, cards=tuple(groups[slot] for slot in slots))


def _new_name(uid: str, names: set[str]) -> str:
    """Return a name for a card that is opened for a pod: an earlier try may have left others."""
    name = next(it for number in itertools.count() if (it := f"{uid}-{number}") not in names)
    names.add(name)
    return name


class Nominations(_Placed[Nominate]):
    """Nominations."""

    _kind = Nominate

    def _make(self) -> Iterable[Nominate]:
        cards = self._session.capacity.cards
        for each in super()._make():
            told = cards.promised.get(each.task) if cards is not None else None
            if cards is None or told is None:
                yield each
                continue
            groups = [cards.table.group_of_slot.get((each.node_row, it)) for it in told.opened]
            yield replace(each, cards=tuple(filter(None, groups)))


class Evictions(Lazy[Evict]):
    """Evictions, in the order they were decided."""

    def __init__(self, session: Session, evictions: list[Eviction]) -> None:
        """Keep the moves."""
        self._session, self._evictions = session, evictions

    def _make(self) -> Iterable[Evict]:
        session = self._session
        tasks, jobs, names = session.tasks, session.jobs, session.queues.name
        made: tuple[object, EvictionReason] = None, EvictionReason("")
        for move in self._evictions:
            if move.reason is not made[0]:  # all evictions of one claim have one reason
                told = move.reason
                made = told, EvictionReason(told) if isinstance(told, str) else told(session)
            job = int(tasks.job_of_task[move.task])
            queue = int(jobs.queue_of_job[job])
            whose = move.beneficiary
            claimant = int(jobs.queue_of_job[whose]) if whose >= 0 else -1
            yield Evict(
                tasks.name[move.task],
                tasks.uid[move.task],
                session.nodes.name[move.node],
                jobs.name[job],
                move.action,
                jobs.name[whose] if whose >= 0 else "",
                made[1].sentence,
                move.task,
                move.node,
                names[queue] if queue >= 0 else jobs.queue_name[job],
                names[claimant] if claimant >= 0 else "",
                made[1].kinds.get(queue, move.action),
            )


class Records(Lazy[DecisionRecord]):
    """One record for each job that stays pending, by name; their codes without the records."""

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

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one pending job."""
        return record_of(self.session, job, self._abandoned)

    def _make(self) -> Iterable[DecisionRecord]:
        rows = sorted(self.rows.tolist(), key=lambda row: self.session.jobs.name[row])
        return (self.record(row) for row in rows)

    def __len__(self) -> int:
        """Return how many there are, without making them."""
        return len(self.rows)

    def _is_told(self, job: int) -> bool:
        """Tell whether a refused job without pending tasks is told of.

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
            {} if self._abandoned else session.ask.queue_problems(session),
            {} if self._abandoned else session.ask.queue_figures(session) or {},
            {} if self._abandoned else left_out(session),
        )

    def _make(self) -> Iterable[QueueShare]:
        return self.table

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
