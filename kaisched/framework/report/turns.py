"""The order of waiting jobs: the position of each in its queue, and of the queues on its path.

The order is that of allocate, as of the end of the cycle: inside a queue the jobs by the plugins'
keys, at each level the queues by theirs, each with the job that it would offer. It is made when it
is read, under any policy: plugins name their keys (``Plugin.key_names``).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, TaskState
from kaisched.core.titles import workload_document
from kaisched.framework.report.records import Because, plain_number
from kaisched.framework.session.batches import asks_of, measure
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.plugins.asking import NamedKey
    from kaisched.framework.report.result import CycleResult
    from kaisched.framework.session.session import Session

_ALLOCATE: Final = "allocate"
LAST_OF_JOBS: Final = ("creation", "name")
LAST_OF_REQUEUED: Final = ("age", "name")
"""The same where the time of some job was over."""
_LAST_OF_QUEUES: Final = ("place",)
"""Siblings are in order of creation, then name."""
_Columns: TypeAlias = list[list[Any]]


class Ahead(NamedTuple):
    """The job that comes directly before another."""

    job: int
    queue: int
    """The queue with which the job competes: its own or one above it."""
    behind: int
    """The queue that is behind that one; of jobs of one queue, this queue."""
    because: Because


class Level(NamedTuple):
    """The place of a queue among its siblings that have waiting jobs."""

    queue: int
    position: int
    of: int
    head: int
    """The job that the queue offers."""
    ahead: Ahead | None


class Turn(NamedTuple):
    """The place of a job in the order."""

    position: int
    """In its queue, from 1."""
    of: int
    """So many jobs wait in the queue and take part in the order."""
    ahead: Ahead | None
    """The job before it in its queue; of the first job, the head of the queue before its own, at
    the lowest level at which there is one; None if it is the next of all."""
    levels: tuple[Level, ...]
    """Its queue, the queue above it, and so on up to a root."""


class _Line:
    """Rows in order, with the columns of keys that decide it."""

    def __init__(
        self,
        keys: Sequence[NamedKey],
        last: Sequence[str],
        columns: _Columns,
        at: list[int],
        rows: list[int],
    ) -> None:
        """Take the rows in order; ``at`` says where each is in the columns.

        The columns are those of the keys, then those that ``last`` names.
        """
        self.rows = rows
        self._keys, self._last, self._columns, self._at = keys, last, columns, at

    @cached_property
    def place(self) -> dict[int, int]:
        """The place of each row, from 0."""
        return {row: at for at, row in enumerate(self.rows)}

    def because(self, at: int) -> Because:
        """Return what puts a row behind the one before it."""
        return because_of(self._keys, self._last, self._columns, self._at[at], self._at[at - 1])


def because_of(
    keys: Sequence[NamedKey],
    last: Sequence[str],
    columns: Sequence[Sequence[Any]],
    here: int,
    before: int,
) -> Because:
    """Return the first column in which two rows differ, as what puts one behind the other.

    The columns are those of the keys, then those that ``last`` names.
    """
    place, own, other = next(
        (place, column[here], column[before])
        for place, column in enumerate(columns)
        if column[here] != column[before]
    )
    if place >= len(keys):
        return Because("", last[place - len(keys)], own, other)
    key = keys[place]
    return Because(key.plugin, key.name, key.shown(own), key.shown(other), key.words)


class _Order(NamedTuple):
    """The order of everything that waits."""

    jobs: Mapping[int, _Line]
    """The waiting jobs of each leaf queue."""
    queues: Mapping[int, _Line]
    """The queues with waiting jobs below each inner queue; below -1 the roots."""
    head: Mapping[int, int]
    """The job that each of these queues offers."""


class Turns:
    """The order of the jobs that stay pending after a cycle."""

    def __init__(self, result: CycleResult) -> None:
        """Keep the result: nothing is computed yet."""
        self._result = result
        self._session: Session = result.records.session

    def turn(self, job: int) -> Turn | None:
        """Return the place of a job row; None if it takes no part in the order.

        A job takes none if its queue does not exist, a gate refuses it as it is, or all of its pods
        are promised room.
        """
        queue = int(self._session.jobs.queue_of_job[job])
        line = self._order.jobs.get(queue)
        if line is None or job not in line.place:
            return None
        at = line.place[job]
        levels = tuple(map(self._level, self._session.fair_tree.path(queue).tolist()))
        if at:
            ahead: Ahead | None = Ahead(line.rows[at - 1], queue, queue, line.because(at))
        else:
            ahead = next((level.ahead for level in levels if level.ahead is not None), None)
        return Turn(at + 1, len(line.rows), ahead, levels)

    def because(self, job: int, ahead: Ahead) -> str:
        """Return what puts a job behind the one ahead of it, for people."""
        names = self._session.queues.name
        is_within = ahead.behind == ahead.queue
        whose = self._session.jobs.title[job] if is_within else f"queue {names[ahead.behind]}"
        return ahead.because.text(whose)

    def ahead_of(self, job: int) -> str:
        """Return the jobs or queues ahead of a job in words; empty without any.

        Jobs of other queues are not named: not everybody who reads it may see them.
        """
        turn, session = self.turn(job), self._session
        if turn is None or turn.ahead is None:
            return ""
        before, name = turn.ahead, session.jobs.title[turn.ahead.job]
        queue = session.queues.name[int(session.jobs.queue_of_job[before.job])]
        milli, count = self._gpus_ahead(turn), turn.position - 1
        asked = f" for {format_amount('gpu', milli)} GPUs" if milli else ""
        if count > 1:
            return f"{count} jobs of queue {queue}{asked and f' that ask{asked}'}, the next {name}"
        who = name if count else "a job"
        return f"{who} of queue {queue}{asked and f', which asks{asked}'}"

    def _gpus_ahead(self, turn: Turn) -> int:
        """Return the thousandths of GPUs that the jobs ahead of one in its queue ask for.

        Of the first job those of the job ahead of its queue.
        """
        if turn.ahead is None:
            return 0
        if turn.position == 1:
            return int(self._gpus[turn.ahead.job])
        line = self._order.jobs[turn.ahead.queue].rows[: turn.position - 1]
        return int(self._gpus[line].sum())

    @cached_property
    def _gpus(self) -> IntVec:
        """``(J,)`` thousandths of GPUs that the waiting pods of each job ask for."""
        session = self._session
        waits = (session.state_now == TaskState.PENDING) & (session.tasks.job_of_task >= 0)
        tasks = waits.nonzero()[0]
        asked = session.shapes.charge[GPU, session.tasks.shape_of_task[tasks]]
        found = np.zeros(len(session.jobs.name), np.int64)
        np.add.at(found, session.tasks.job_of_task[tasks], asked)
        return found

    def document(self, job: int) -> dict[str, Any] | None:
        """Return the place of a job row as docs/reference/plan-json.md describes it."""
        turn, names = self.turn(job), self._session.queues.name
        if turn is None:
            return None
        return {
            "position": turn.position,
            "of": turn.of,
            "gpusAhead": self._gpus_ahead(turn) / GPU_UNIT,
            "ahead": self._ahead(job, turn.ahead),
            "levels": [
                {
                    "queue": names[level.queue],
                    "position": level.position,
                    "of": level.of,
                    "head": self._session.jobs.name[level.head],
                    "ahead": self._ahead(job, level.ahead),
                    "figures": {
                        name: plain_number(figure)
                        for name, figure in self._result.shares[level.queue].figures.items()
                    },
                }
                for level in turn.levels
            ],
        }

    def _ahead(self, job: int, ahead: Ahead | None) -> dict[str, Any] | None:
        if ahead is None:
            return None
        because = ahead.because
        return {
            "podGroup": self._session.jobs.name[ahead.job],
            "workload": workload_document(self._session.jobs.owner_of(ahead.job)),
            "queue": self._session.queues.name[ahead.queue],
            "plugin": because.plugin or None,
            "key": because.key,
            "own": plain_number(because.own),
            "other": plain_number(because.other),
            "because": self.because(job, ahead),
        }

    def _level(self, queue: int) -> Level:
        order = self._order
        line = order.queues[int(self._session.fair_tree.parent_of_queue[queue])]
        at = line.place[queue]
        ahead = None
        if at:
            before = line.rows[at - 1]
            ahead = Ahead(order.head[before], before, queue, line.because(at))
        return Level(queue, at + 1, len(line.rows), order.head[queue], ahead)

    @cached_property
    def _order(self) -> _Order:
        """The order; empty if the division that it needs failed."""
        return _Order({}, {}, {}) if self._result.stats.abandoned else self._compared()

    def _compared(self) -> _Order:
        tree = self._session.fair_tree
        jobs = dict(self._jobs())
        head = {queue: line.rows[0] for queue, line in jobs.items()}
        queues: dict[int, _Line] = {}
        for level in reversed(tree.levels):
            rows = np.array([row for row in level.tolist() if row in head], np.int64)
            if not rows.size:
                continue
            heads = np.array([head[row] for row in rows.tolist()], np.int64)
            keys = self._contest(rows, heads)
            columns = [*(key.column for key in keys), rows]
            parents = tree.parent_of_queue[rows].astype(np.int64)
            lines = _lines(parents, columns, rows, keys, _LAST_OF_QUEUES)
            for above, line in lines:
                queues[above] = line
                if above >= 0:
                    head[above] = head[line.rows[0]]
        return _Order(jobs, queues, head)

    def _jobs(self) -> Iterable[tuple[int, _Line]]:
        """Return the jobs that take part, in order, by queue."""
        session, jobs = self._session, self._session.jobs
        rows = self._result.records.rows
        pending = session.ledger.job_pending if session.has_moved else jobs.pending
        takes_part = (jobs.queue_of_job >= 0) & (jobs.refusal == 0) & (pending > 0)
        rows = rows[takes_part[rows]]
        if rows.size and (codes := session.ask.job_gate(session, _ALLOCATE, rows)) is not None:
            rows = rows[codes == 0]
        if not rows.size:
            return ()
        keys = session.ask.named_keys("job_order", session, rows)
        columns = [*(key.column for key in keys), jobs.created_s[rows]]
        names = [jobs.name[row] for row in rows.tolist()]
        is_age = jobs is not session.snapshot.jobs
        last = LAST_OF_REQUEUED if is_age else LAST_OF_JOBS
        return _lines(jobs.queue_of_job[rows], columns, rows, keys, last, names)

    def _contest(self, rows: RowVec, heads: RowVec) -> list[NamedKey]:
        """Return the keys of queues, each with the job that it offers."""
        session = self._session
        held = (session.ledger.held if session.has_moved else session.held)[:, rows]
        ask = asks_of(session, heads, *measure(session, heads))
        return [
            *session.ask.named_keys("queue_order", session, rows, held, ask),
            *session.ask.named_keys("head_order", session, rows, heads, held, ask),
        ]


def _lines(
    group: RowVec,
    columns: Sequence[NDArray[Any]],
    rows: RowVec,
    keys: Sequence[NamedKey],
    last: Sequence[str],
    names: list[str] | None = None,
) -> Iterator[tuple[int, _Line]]:
    """Yield the rows of each group, ordered by the columns and then by name."""
    order = in_order(group, columns, names)
    told: _Columns = [column.tolist() for column in columns]
    if names is not None:
        told.append(names)
    ordered = group[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    of_group, at, of_row = ordered.tolist(), order.tolist(), rows[order].tolist()
    for start, end in pairwise(starts):
        line = _Line(keys, last, told, at[start:end], of_row[start:end])
        yield of_group[start], line


def in_order(
    group: RowVec, columns: Sequence[NDArray[Any]], names: Sequence[str] | None = None
) -> RowVec:
    """Return places ordered by group, then by the columns, then by name."""
    order: RowVec = np.lexsort([*reversed(columns), group])
    if names is not None:
        _resolve(order, [group, *columns], names)
    return order


def _resolve(order: RowVec, columns: Sequence[NDArray[Any]], names: Sequence[str]) -> None:
    """Sort what is equal in every column by name, in place."""
    is_same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in columns:
        ordered = column[order]
        is_same &= ordered[1:] == ordered[:-1]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_same, [False]])))
    for start, end in edges.reshape(-1, 2).tolist():
        order[start : end + 1] = sorted(order[start : end + 1].tolist(), key=names.__getitem__)
