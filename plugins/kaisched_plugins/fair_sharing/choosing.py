"""Whose work goes for a claim of a cycle: the units that may, and the order in which they would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, overload

import numpy as np

from kaisched import Claim, RowVec, Session, Units
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import (
    Rules,
    allowed,
    claim_work,
    contested,
    most_named,
    victim_columns,
)
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.starting import with_started
from kaisched_plugins.fair_sharing.tables import Table, some_of
from kaisched_plugins.fair_sharing.targets import targets
from kaisched_plugins.fair_sharing.work import Work

PREEMPT: Final = "preempt"


def standing(session: Session, job: int) -> int:
    """Tell how a job stands to its minimum as of now: 0 below it, 1 at it, 2 above it."""
    first, count = int(session.jobs.first_podset[job]), int(session.jobs.podset_count[job])
    rows = slice(first, first + count)
    surplus = session.podset_active_now[rows] - session.podsets.minimum[rows]
    if (surplus < 0).any():
        return 0
    return 2 if surplus.any() else 1


def in_order(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    rules: Rules,
) -> tuple[RowVec, int]:
    """Return the units of :meth:`victim_order`, and why the others would not go.

    ``holdings`` are used up.
    """
    incoming = claim_work(session, table, rules, claim)
    lacks = contested(holdings, incoming)
    running = len(units)
    units = with_started(session, table, units, incoming.queue, rules)
    lines = _lines(session, table, holdings, claim, incoming, units, lacks, rules, running)
    if not lines:
        return np.empty(0, np.int64), int(refusals.NOT_BORROWING)
    count = sum(map(len, lines.values()))
    is_last = claim.pass_number > 0
    holdings.add(incoming.queue, incoming.ask)
    strategies = rules.strategies if is_last else rules.strategies[:1]
    found = targets(holdings, incoming, lines, lacks, strategies, by_size=rules.by_size)
    order: list[int] = []
    enough = 0
    for work in (it for it in found if it.row < running):
        order.append(work.row)
        if is_last:
            continue
        if not enough:
            holdings.take(incoming.queue, incoming.ask)
            if holdings.fits(incoming.queue, incoming.ask):
                enough = len(order)
            holdings.add(incoming.queue, incoming.ask)
        if enough and len(order) >= most_named(enough):
            break
    code = 0
    if len(order) < count:
        code = int(refusals.HIGHER_SHARE if is_last else refusals.LATER)
        if not table.is_on[claim.queue]:  # its priority overruled that
            code = int(refusals.BY_QUOTA)
    return np.array(order, np.int64), code


def _lines(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    units: Units,
    lacks: Sequence[int],
    rules: Rules,
    running: int,
) -> dict[int, _Line]:
    """Return the units that may go for a claim, by queue, the first to go first.

    Those beyond the first ``running`` have just been started: for the shortest time of all.
    """
    rows = allowed(session, table, holdings, incoming, units, lacks, rules)
    rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
    if not rows.size:
        return {}
    columns = [*victim_columns(session, table, units, rows, rules), units.queue[rows]]
    columns[0] = np.where(rows < running, columns[0], -np.inf)
    order = rows[np.lexsort(columns)]
    at = units.queue[order]
    cuts = np.flatnonzero(at[1:] != at[:-1]) + 1
    return {
        int(units.queue[part[0]]): _Line(session, rules, units, part, running)
        for part in np.split(order, cuts)
    }


class _Line(Sequence[Work]):
    """Units of one queue as work, made for those that are looked at."""

    __slots__ = ("_rows", "_rules", "_running", "_session", "_units")

    def __init__(
        self, session: Session, rules: Rules, units: Units, rows: RowVec, running: int
    ) -> None:
        self._session = session
        self._rules = rules
        self._units = units
        self._rows = rows
        self._running = running

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Work: ...
    @overload
    def __getitem__(self, at: slice) -> list[Work]: ...
    def __getitem__(self, at: int | slice) -> Work | list[Work]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = int(self._rows[at])
        work = work_of(self._session, self._rules, self._units, row)
        return work if row < self._running else work._replace(since_s=np.inf)

    def __iter__(self) -> Iterator[Work]:
        return (self[at] for at in range(len(self)))


def work_of(session: Session, rules: Rules, units: Units, row: int) -> Work:
    """Return a unit as work that holds."""
    jobs, job = session.jobs, int(units.job[row])
    since, priority = float(jobs.last_start_s[job]), int(jobs.priority[job])
    return Work(
        row,
        int(units.queue[row]),
        some_of(units.amounts[:, row]),
        priority,
        float(jobs.created_s[job]),
        since if since == since else -np.inf,  # noqa: PLR0124 - NaN is not itself
        jobs.name[job],
        rules.used_by(int(jobs.queue_of_job[job])),
        is_high=rules.is_high(priority),
    )
