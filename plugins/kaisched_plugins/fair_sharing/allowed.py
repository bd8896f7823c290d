"""Which running work a claim may take at all, and what that work is ordered by.

Rules F10 to F12 of docs/explanation/fair-sharing.md, in trees with fair sharing and without.
Units have what they hold by row of the quotas, as :meth:`Table.by_row` returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kaisched import Claim, FloatVec, IntVec, RowVec, Session, Units
from kaisched_plugins.fair_sharing.by_flavor import flavors_of
from kaisched_plugins.fair_sharing.columns import by_resource
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import NEVER, Work, line_columns, may_take

_MORE: Final = 2
"""In the first pass so many times as many units are named as quotas need, for nodes' sake ..."""
_SOME: Final = 16
"""... and so many more."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments of the policy, as the search needs them."""

    strategies: Sequence[str]
    is_compatible: bool
    high_from: int | None
    usage: FloatVec | None = None
    """``(Q,)`` what queues used lately, where there are pools (F31)."""

    @property
    def by_size(self) -> bool:
        """Whether the smaller of equal priorities goes first (F12)."""
        return not self.is_compatible

    def used_by(self, queue: int) -> float:
        """Return what a queue used lately; 0 without pools."""
        return 0.0 if self.usage is None else float(self.usage[queue])

    def is_high(self, priority: int) -> bool:
        """Tell whether a priority overrules fair sharing."""
        return self.high_from is not None and priority >= self.high_from


def claim_work(session: Session, table: Table, rules: Rules, claim: Claim) -> Work:
    """Return a claim as work that asks."""
    jobs, job = session.jobs, claim.job
    priority = int(jobs.priority[job])
    return Work(
        -1,
        claim.queue,
        table.ask_of(claim.queue, claim.ask, flavors_of(claim.within)),
        priority,
        float(jobs.created_s[job]),
        name=jobs.name[job],
        usage=rules.used_by(int(jobs.queue_of_job[job])),
        is_high=rules.is_high(priority),
    )


def contested(holdings: Holdings, incoming: Work) -> list[int]:
    """Return the rows that a claim lacks: by quota, or where that suffices all it asks for."""
    ask, queue = incoming.ask, incoming.queue
    lacks = [at for at, amount in ask if amount > holdings.available(queue, at)]
    return lacks or [at for at, _ in ask]


def most_named(enough: int) -> int:
    """Return how many units are named first if so many are enough by quota."""
    return _MORE * enough + _SOME


def victim_columns(
    session: Session, table: Table, units: Units, rows: RowVec, rules: Rules
) -> list[Any]:
    """Return the key columns of F12 and F33 for ``numpy.lexsort``, the most important last."""
    jobs, job = session.jobs, units.job[rows]
    since = jobs.last_start_s[job]
    since = np.where(np.isnan(since), -np.inf, since)
    size = _sizes(table, units, rows) if rules.by_size else None
    usage = None if rules.usage is None else rules.usage[jobs.queue_of_job[job]]
    return line_columns(since, jobs.priority[job], size, usage)


def allowed(
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
    is_own = units.queue == own
    priority, created_s = session.jobs.priority[units.job], session.jobs.created_s[units.job]
    is_open = np.zeros(len(table.is_leaf), np.bool_)
    for queue in np.unique(units.queue).tolist():
        is_open[queue] = table.root[queue] == table.root[own] and holdings.is_over(queue, lacks)
    may = np.where(
        is_own,
        may_take(sharing.within, incoming, priority, created_s),
        is_open[units.queue] & may_take(sharing.across, incoming, priority, created_s),
    )
    if rules.high_from is not None:
        is_safe = priority >= rules.high_from
        may &= ~is_safe | (is_own & (priority < incoming.priority))
        if incoming.is_high and sharing.across != NEVER:
            is_less = ~is_safe & (priority < incoming.priority)
            may |= ~is_own & is_less & is_open[units.queue]
    if len(lacks):
        may &= (units.amounts[list(lacks)] > 0).any(axis=0)
    else:
        may[:] = False
    rows: RowVec = np.flatnonzero(may)
    return rows


def _sizes(table: Table, units: Units, rows: RowVec) -> IntVec:
    """``(K,)`` ranks by the part of its dominant resource; a core is no smaller than its pods."""
    amounts = by_resource(table.quotas, units.amounts[:, rows])
    whole = np.maximum(table.quotas.lendable[:, units.queue[rows]], 1)
    part = (amounts / whole).max(axis=0, initial=0.0)
    cores: dict[int, float] = {}
    if not units.is_core[rows].all():
        for at, (job, size) in enumerate(zip(units.job[rows].tolist(), part.tolist(), strict=True)):
            cores[job] = max(cores.get(job, 0.0), size)
            if units.is_core[rows[at]]:
                part[at] = cores[job]
    _, ranks = np.unique(part, return_inverse=True)
    return ranks
