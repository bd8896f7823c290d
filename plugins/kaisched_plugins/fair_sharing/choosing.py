"""Whose work goes for a claim of a cycle: the units that may, and the order in which they would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from kaisched import Claim, FloatVec, IntVec, RowVec, Session, Units
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.targets import targets
from kaisched_plugins.fair_sharing.work import NEVER, Work, line_order, may_take

PREEMPT: Final = "preempt"
_MORE: Final = 2
"""In the first pass so many times as many units are named as quotas need, for nodes' sake ..."""
_SOME: Final = 16
"""... and so many more."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments of the policy, as the search needs them."""

    strategies: Sequence[str]
    by_size: bool
    high_from: int | None

    def is_high(self, priority: int) -> bool:
        """Tell whether a priority overrules fair sharing."""
        return self.high_from is not None and priority >= self.high_from


def claim_work(
    session: Session, table: Table, rules: Rules, claim: Claim, usage: FloatVec | None = None
) -> Work:
    """Return a claim as work that asks; ``usage`` is that of the queues in pools."""
    jobs, job = session.jobs, claim.job
    priority = int(jobs.priority[job])
    return Work(
        -1,
        int(table.home[claim.queue]),
        table.ask(claim.ask),
        priority,
        float(jobs.created_s[job]),
        name=jobs.name[job],
        usage=0.0 if usage is None else float(usage[claim.queue]),
        is_high=rules.is_high(priority),
    )


def standing(session: Session, job: int) -> int:
    """Tell how a job stands to its minimum as of now: 0 below it, 1 at it, 2 above it."""
    first, count = int(session.jobs.first_podset[job]), int(session.jobs.podset_count[job])
    rows = slice(first, first + count)
    surplus = session.podset_active_now[rows] - session.podsets.minimum[rows]
    if (surplus < 0).any():
        return 0
    return 2 if surplus.any() else 1


def contested(holdings: Holdings, incoming: Work) -> list[int]:
    """Return the rows that a claim lacks: by quota, or where that suffices all it asks for."""
    ask, queue = incoming.ask, incoming.queue
    lacks = [at for at, amount in ask if amount > holdings.available(queue, at)]
    return lacks or [at for at, _ in ask]


def in_order(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    rules: Rules,
    usage: FloatVec | None = None,
) -> tuple[RowVec, int]:
    """Return the units of :meth:`victim_order`, and why the others would not go.

    ``holdings`` are used up; ``usage`` is that of the queues in pools.
    """
    incoming = claim_work(session, table, rules, claim)
    lacks = contested(holdings, incoming)
    lines = _lines(session, table, holdings, claim, incoming, units, lacks, rules, usage)
    if not lines:
        return np.empty(0, np.int64), int(refusals.NOT_BORROWING)
    count = sum(map(len, lines.values()))
    strategies = rules.strategies if table.is_on[claim.queue] else ()
    is_last = claim.pass_number > 0
    holdings.add(incoming.queue, incoming.ask)
    found = targets(
        holdings,
        incoming,
        lines,
        lacks,
        strategies if is_last else strategies[:1],
        by_size=rules.by_size,
    )
    order: list[int] = []
    enough = 0
    for work in found:
        order.append(work.row)
        if is_last:
            continue
        if not enough:
            holdings.take(incoming.queue, incoming.ask)
            if holdings.fits(incoming.queue, incoming.ask):
                enough = len(order)
            holdings.add(incoming.queue, incoming.ask)
        if enough and len(order) >= _MORE * enough + _SOME:
            break
    code = 0
    if len(order) < count:
        code = int(refusals.HIGHER_SHARE if is_last else refusals.LATER)
        if not strategies:
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
    usage: FloatVec | None,
) -> dict[int, _Line]:
    """Return the units that may go for a claim, by queue, the first to go first."""
    rows = _allowed(session, table, holdings, incoming, units, lacks, rules)
    rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
    if not rows.size:
        return {}
    jobs, job, queue = session.jobs, units.job[rows], table.home[units.queue[rows]]
    since = jobs.last_start_s[job]
    since = np.where(np.isnan(since), -np.inf, since)
    order = rows[
        line_order(
            queue,
            jobs.priority[job],
            since,
            size=_sizes(table, units, rows) if rules.by_size else None,
            usage=None if usage is None else usage[units.queue[rows]],
        )
    ]
    at = table.home[units.queue[order]]
    cuts = np.flatnonzero(at[1:] != at[:-1]) + 1
    return {
        int(table.home[units.queue[part[0]]]): _Line(session, table, rules, units, part, usage)
        for part in np.split(order, cuts)
    }


def _allowed(
    session: Session,
    table: Table,
    holdings: Holdings,
    incoming: Work,
    units: Units,
    lacks: Sequence[int],
    rules: Rules,
) -> RowVec:
    """Return the rows of units that policies let a claim take, of what it lacks."""
    own = incoming.queue
    sharing = session.queues.sharing[own]
    queues = table.home[units.queue]
    is_own = queues == own
    priority, created_s = session.jobs.priority[units.job], session.jobs.created_s[units.job]
    is_open = np.zeros(len(table.is_leaf), np.bool_)
    for queue in np.unique(queues).tolist():
        is_open[queue] = table.root[queue] == table.root[own] and holdings.is_over(queue, lacks)
    may = np.where(
        is_own,
        may_take(sharing.within, incoming, priority, created_s),
        is_open[queues] & may_take(sharing.across, incoming, priority, created_s),
    )
    if rules.high_from is not None:
        is_safe = priority >= rules.high_from
        may &= ~is_safe | (is_own & (priority < incoming.priority))
        if incoming.is_high and sharing.across != NEVER:
            is_less = ~is_safe & (priority < incoming.priority)
            may |= ~is_own & is_less & is_open[queues]
    if len(lacks):
        may &= (units.amounts[table.rows[list(lacks)]] > 0).any(axis=0)
    else:
        may[:] = False
    rows: RowVec = np.flatnonzero(may)
    return rows


def _sizes(table: Table, units: Units, rows: RowVec) -> IntVec:
    """``(K,)`` ranks by the part of its dominant resource; a core is no smaller than its pods."""
    amounts = units.amounts[:, rows][table.rows]
    whole = np.maximum(table.quotas.lendable[:, table.home[units.queue[rows]]], 1)
    part = (amounts / whole).max(axis=0, initial=0.0)
    cores: dict[int, float] = {}
    if not units.is_core[rows].all():
        for at, (job, size) in enumerate(zip(units.job[rows].tolist(), part.tolist(), strict=True)):
            cores[job] = max(cores.get(job, 0.0), size)
            if units.is_core[rows[at]]:
                part[at] = cores[job]
    _, ranks = np.unique(part, return_inverse=True)
    return ranks


class _Line(Sequence[Work]):
    """Units of one queue as work, made for those that are looked at."""

    __slots__ = ("_rows", "_rules", "_session", "_table", "_units", "_usage")

    def __init__(
        self,
        session: Session,
        table: Table,
        rules: Rules,
        units: Units,
        rows: RowVec,
        usage: FloatVec | None,
    ) -> None:
        self._session = session
        self._table = table
        self._rules = rules
        self._units = units
        self._rows = rows
        self._usage = usage

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
        return work_of(self._session, self._table, self._rules, self._units, row, self._usage)

    def __iter__(self) -> Iterator[Work]:
        return (self[at] for at in range(len(self)))


def work_of(
    session: Session,
    table: Table,
    rules: Rules,
    units: Units,
    row: int,
    usage: FloatVec | None = None,
) -> Work:
    """Return a unit as work that holds; ``usage`` is that of the queues in pools."""
    jobs, job = session.jobs, int(units.job[row])
    since, priority = float(jobs.last_start_s[job]), int(jobs.priority[job])
    return Work(
        row,
        int(table.home[units.queue[row]]),
        table.ask(units.amounts[:, row]),
        priority,
        float(jobs.created_s[job]),
        since if since == since else -np.inf,  # noqa: PLR0124 - NaN is not itself
        jobs.name[job],
        usage=0.0 if usage is None else float(usage[units.queue[row]]),
        is_high=rules.is_high(priority),
    )
