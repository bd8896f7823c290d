"""Whom a claim takes from in a tree without fair sharing: rules F21 to F24.

A claim is tried in up to two ways: one in which its queue may borrow, and one in which it may not
and more work gives way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from kaisched import Amounts, Claim, FloatVec, IntVec, RowVec, Session, Units
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import (
    Rules,
    allowed,
    claim_work,
    contested,
    most_named,
    victim_columns,
)
from kaisched_plugins.fair_sharing.classical.reach import Reach, Way, borrowing_of
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import Work


class Order(NamedTuple):
    """Units in the order in which they would go."""

    rows: RowVec
    code: int
    """Why the others would not go."""
    is_borrowing: bool = True
    """False where the claim's queue must not borrow."""


def in_order(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    rules: Rules,
) -> Order:
    """Return the units of a pass: of the first way that makes room by quota, then of the next.

    ``holdings`` stay as they are.
    """
    incoming = claim_work(session, table, rules, claim)
    reach = Reach(holdings, incoming, borrowing_of(session, claim.queue))
    search = _Search(holdings, incoming, reach)
    candidates = search.candidates(session, table, claim, units, rules)
    orders = search.orders(candidates)
    found = next(islice(orders, claim.pass_number, None), None)
    if found is None:
        code = int(refusals.BY_QUOTA if len(candidates.rows) else refusals.NOT_BORROWING)
        return Order(np.empty(0, np.int64), code)
    rows, is_borrowing, is_cut = found
    code = int(refusals.BY_QUOTA) if len(rows) < len(units) else 0
    if is_cut or next(orders, None) is not None:
        code = int(refusals.NEXT_WAY)
    return Order(np.array(rows, np.int64), code, is_borrowing)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Units that may go, the first to go first. Columns ``(K,)``."""

    rows: RowVec
    queue: RowVec
    ways: IntVec
    """A :class:`Way` each."""
    amounts: Amounts
    """``(F, K)``."""


class _Search:
    """The search for one claim, with what is held before anything goes."""

    def __init__(self, holdings: Holdings, incoming: Work, reach: Reach) -> None:
        self._holdings = holdings
        self._incoming = incoming
        self._reach = reach
        self._lacks = contested(holdings, incoming)

    def candidates(
        self, session: Session, table: Table, claim: Claim, units: Units, rules: Rules
    ) -> _Candidates:
        """Return the units that may go (F21) in their order (F23)."""
        rows = allowed(session, table, self._holdings, self._incoming, units, self._lacks, rules)
        rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
        queue = units.queue[rows]
        closed = [it for it in np.unique(queue).tolist() if not self._borrows(self._holdings, it)]
        rows = rows[~np.isin(queue, closed)]
        queue = units.queue[rows]
        ways = self._reach.ways(queue, session.jobs.priority[units.job[rows]])
        group = np.where(ways == Way.QUOTA, Way.BORROWING, ways)
        by_queue = replace(rules, usage=None)
        columns = victim_columns(session, table, units, rows, by_queue)
        order = np.lexsort([queue, *columns, group])
        if rules.usage is not None:
            used = rules.usage[session.jobs.queue_of_job[units.job[rows]]]
            _put_usage_first(order, group * len(rules.usage) + queue, used)
        rows = rows[order]
        amounts = units.amounts[:, rows]
        return _Candidates(rows, queue[order], ways[order], amounts)

    def orders(self, candidates: _Candidates) -> Iterator[tuple[list[int], bool, bool]]:
        """Yield what would go in each way, whether the queue may borrow, and whether more could go.

        Nodes may need more victims than quotas do, so that a second order has all.
        """
        for is_borrowing in self._ways(candidates):
            rows, is_cut = self._taken(candidates, is_borrowing=is_borrowing, is_short=True)
            if rows:
                yield rows, is_borrowing, is_cut
            if is_cut:
                rows, _ = self._taken(candidates, is_borrowing=is_borrowing, is_short=False)
                yield rows, is_borrowing, False

    def _ways(self, candidates: _Candidates) -> tuple[bool, ...]:
        """Return whether the claim's queue may borrow, for each attempt in turn (F24)."""
        queue = self._incoming.queue
        used, quota = self._holdings.used[queue], self._holdings.rows.subtree[queue]
        is_below = all(used[at] < quota[at] for at in self._lacks)
        may_borrow = self._reach.may_borrow
        if (candidates.ways == Way.OWN).all() or not (may_borrow or is_below):
            return (True,)
        has_closer = bool((candidates.ways == Way.CLOSER).any())
        return (True, False) if may_borrow or has_closer else (False, True)

    def _taken(
        self, candidates: _Candidates, *, is_borrowing: bool, is_short: bool
    ) -> tuple[list[int], bool]:
        """Return who would go, none if quotas leave no room; and whether the list was cut short."""
        now, incoming = self._holdings.copy(), self._incoming
        taken: list[int] = []
        enough = 0
        some = np.arange(len(candidates.rows))
        if is_borrowing:
            some = some[candidates.ways != Way.QUOTA]
        for at in some.tolist():
            if is_short and enough and len(taken) >= most_named(enough):
                return taken, True
            queue = int(candidates.queue[at])
            if queue != incoming.queue and not self._borrows(now, queue):
                continue
            ask = candidates.amounts[:, at].tolist()
            now.take(queue, [(row, amount) for row, amount in enumerate(ask) if amount > 0])
            taken.append(int(candidates.rows[at]))
            is_within = is_borrowing or now.stays_within(incoming.queue, incoming.ask)
            if not enough and is_within and now.fits(incoming.queue, incoming.ask):
                enough = len(taken)
        return (taken if enough else []), False

    def _borrows(self, holdings: Holdings, queue: int) -> bool:
        """Tell whether a queue and those above it hold more than their quota of what is lacked."""
        return all(holdings.is_over(node, self._lacks) for node in self._reach.below(queue))


def _put_usage_first(order: RowVec, block: RowVec, used: FloatVec) -> None:
    """Reorder the victims of each block among their places, the highest past usage first (F33).

    A block is the victims of one queue in one group. Those of other queues keep their places.
    """
    for each in np.unique(block).tolist():
        places = np.flatnonzero(block[order] == each)
        rows = order[places]
        order[places] = rows[np.argsort(-used[rows], kind="stable")]
