"""Whom a claim takes from in a tree without fair sharing: rules F21 to F24.

A claim is tried in up to two ways: one in which its queue may borrow, and one in which it may not
and more work gives way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from kaisched import Claim, FloatVec, RowVec, Session, Units
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import (
    Rules,
    allowed,
    claim_work,
    contested,
    most_named,
    victim_columns,
)
from kaisched_plugins.fair_sharing.classical.levels import level_at
from kaisched_plugins.fair_sharing.classical.reach import Reach, Way
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import Borrowing, Work

_GROUP: Final = {Way.CLOSER: 0, Way.BORROWING: 1, Way.QUOTA: 1, Way.OWN: 2}


class Candidate(NamedTuple):
    """Work that may go, and what entitles the claim to it."""

    row: int
    queue: int
    ask: Ask
    way: Way


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
    lacks = contested(holdings, incoming)
    borrowing = borrowing_of(session, claim.queue)
    reach = Reach(holdings, incoming, borrowing)
    candidates = _candidates(session, table, holdings, claim, incoming, units, rules, reach)
    number = claim.pass_number
    found = list(
        islice(_orders(holdings, incoming, lacks, candidates, reach, borrowing), number, number + 2)
    )
    if not found:
        code = int(refusals.BY_QUOTA if candidates else refusals.NOT_BORROWING)
        return Order(np.empty(0, np.int64), code)
    rows, is_borrowing = found[0]
    code = int(refusals.BY_QUOTA) if len(rows) < len(units) else 0
    if len(found) > 1:
        code = int(refusals.NEXT_WAY)
    return Order(np.array(rows, np.int64), code, is_borrowing)


def borrowing_of(session: Session, queue: int) -> Borrowing:
    """Return whose work the claims of a queue may take while it borrows."""
    sharing = session.queues.sharing[queue]
    return Borrowing(sharing.borrowing, sharing.borrowing_up_to)


def may_claim(holdings: Holdings, queue: int, ask: Ask, borrowing: Borrowing) -> bool:
    """Tell whether what a claim borrows entitles it to take anything (F22)."""
    if borrowing.is_allowed:
        return True
    quota = holdings.rows.subtree[queue]
    return all(
        amount <= quota[at]
        or amount <= holdings.available(queue, at)
        or level_at(holdings, queue, at, amount).is_below_root
        for at, amount in ask
    )


def _candidates(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    units: Units,
    rules: Rules,
    reach: Reach,
) -> list[Candidate]:
    """Return the units that may go, the first to go first (F23)."""
    lacks = contested(holdings, incoming)
    rows = allowed(session, table, holdings, incoming, units, lacks, rules)
    rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
    queues, priorities = units.queue[rows].tolist(), session.jobs.priority[units.job[rows]].tolist()
    is_open = {
        queue: all(holdings.is_over(node, lacks) for node in reach.below(queue))
        for queue in set(queues)
    }
    keep = np.array([is_open[queue] for queue in queues], np.bool_)
    rows = rows[keep]
    ways = [
        reach.way(queue, priority)
        for queue, priority in zip(queues, priorities, strict=True)
        if is_open[queue]
    ]
    groups = np.array([_GROUP[way] for way in ways], np.int64)
    queue, by_queue = units.queue[rows], replace(rules, usage=None)
    columns = victim_columns(session, table, units, rows, by_queue)
    order = np.lexsort([queue, *columns, groups])
    if rules.usage is not None:
        used = rules.usage[session.jobs.queue_of_job[units.job[rows]]]
        _put_usage_first(order, groups * len(rules.usage) + queue, used)
    asks = units.amounts[table.rows][:, rows].T.tolist()
    return [
        Candidate(
            int(rows[at]),
            int(units.queue[rows[at]]),
            [(row, amount) for row, amount in enumerate(asks[at]) if amount > 0],
            ways[at],
        )
        for at in order.tolist()
    ]


def _put_usage_first(order: RowVec, block: RowVec, used: FloatVec) -> None:
    """Reorder the victims of each block among their places, the highest past usage first (F28).

    A block is the victims of one queue in one group. Those of other queues keep their places.
    """
    for each in np.unique(block).tolist():
        places = np.flatnonzero(block[order] == each)
        rows = order[places]
        order[places] = rows[np.argsort(-used[rows], kind="stable")]


def _orders(
    holdings: Holdings,
    incoming: Work,
    lacks: Sequence[int],
    candidates: Sequence[Candidate],
    reach: Reach,
    borrowing: Borrowing,
) -> Iterator[tuple[list[int], bool]]:
    """Yield what would go in each way, and whether the queue may borrow in it.

    Nodes may need more victims than quotas do, so that a second order has all.
    """
    for is_borrowing in _ways(holdings, incoming, lacks, candidates, borrowing):
        rows, enough = _taken(holdings, incoming, lacks, candidates, reach, is_borrowing)
        if not enough:
            continue
        some = most_named(enough)
        if some < len(rows):
            yield rows[:some], is_borrowing
        yield rows, is_borrowing


def _ways(
    holdings: Holdings,
    incoming: Work,
    lacks: Sequence[int],
    candidates: Sequence[Candidate],
    borrowing: Borrowing,
) -> tuple[bool, ...]:
    """Return whether the claim's queue may borrow, for each attempt in turn (F24)."""
    ways = {candidate.way for candidate in candidates}
    used, quota = holdings.used[incoming.queue], holdings.rows.subtree[incoming.queue]
    is_below = all(used[at] < quota[at] for at in lacks)
    is_bound = not borrowing.is_allowed
    if not ways - {Way.OWN} or (is_bound and not is_below):
        return (True,)
    return (False, True) if is_bound and Way.CLOSER not in ways else (True, False)


def _taken(
    holdings: Holdings,
    incoming: Work,
    lacks: Sequence[int],
    candidates: Sequence[Candidate],
    reach: Reach,
    is_borrowing: bool,
) -> tuple[list[int], int]:
    """Return who would go one after the other, and how many make room by quota; 0 for never."""
    now = holdings.copy()
    quota = now.rows.subtree[incoming.queue]
    rows: list[int] = []
    enough = 0
    for candidate in candidates:
        queue, way = candidate.queue, candidate.way
        if way is not Way.OWN:
            if is_borrowing and way is Way.QUOTA:
                continue
            if not all(now.is_over(node, lacks) for node in reach.below(queue)):
                continue
        now.take(queue, candidate.ask)
        rows.append(candidate.row)
        if not enough and now.fits(incoming.queue, incoming.ask):
            used = now.used[incoming.queue]
            if is_borrowing or all(used[at] + more <= quota[at] for at, more in incoming.ask):
                enough = len(rows)
    return rows, enough
