"""Why claims may take from nobody, found before any search: F11, F14, F21 and F22.

In a full cluster at rest no claim is entitled to anything, in every cycle anew. What is necessary
is found without looking at victims: work of its own queue that a claim may take; or, with fair
sharing, a queue beside its path that borrows and whose share is no lower than what it would come to
itself; without, one that holds more than its quota of what the claim lacks.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import pairwise

import numpy as np

from kaisched import Amounts, BoolVec, CodeVec, IntVec, RowVec, Session
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Share
from kaisched_plugins.fair_sharing.tables import Now, Table
from kaisched_plugins.fair_sharing.victims import (
    PREEMPT,
    Reach,
    Rules,
    borrowing_of,
    contested,
    lacked_by,
)
from kaisched_plugins.fair_sharing.work import (
    LOWER,
    LOWER_OR_NEWER,
    NEVER,
    Work,
    could_pass,
    level_at,
)

_NOBODY = int(np.iinfo(np.int64).max)
_ENOUGH = 2
"""So many children that borrow are looked for: one may be on the claim's own path."""


def claim_codes(
    session: Session,
    table: Table,
    now: Now,
    choices: Choices,
    rules: Rules,
    action: str,
    job: RowVec,
    ask: Amounts,
) -> CodeVec:
    """Return why claims may take from nobody, ``(K,)``; 0 where they might."""
    gate, sharing = _Gate(session, table, now.copy(session)), session.queues.sharing
    codes = np.zeros(len(job), np.int16)
    known: dict[tuple[object, ...], int] = {}
    queues = table.home[session.jobs.queue_of_job[job]].tolist()
    own = may_take_own(session, table, job).tolist()
    for at, (queue, is_own) in enumerate(zip(queues, own, strict=True)):
        every = [tuple(asked) for asked in choices.possible(queue, ask[:, at])]
        key = queue, is_own, *every
        if key not in known:
            across = action != PREEMPT and sharing[queue].across != NEVER
            found = [gate.code(queue, asked, is_own=is_own, across=across) for asked in every]
            known[key] = 0 if 0 in found else found[0]
        codes[at] = known[key]
    if rules.high_from is not None:  # neither shares nor levels matter to them
        is_high = session.jobs.priority[job] >= rules.high_from
        codes[is_high & ((action != PREEMPT) | (codes == refusals.BORROWS))] = 0
    return codes


class _Gate:
    """What could be had at one moment of a cycle."""

    def __init__(self, session: Session, table: Table, holdings: Holdings) -> None:
        self._session = session
        self._table = table
        self._holdings = holdings
        self._best: dict[int, tuple[tuple[Share, int], ...]] = {}
        self._over: dict[tuple[int, int], list[int]] = {}

    def code(self, queue: int, ask: Ask, *, is_own: bool, across: bool) -> int:
        """Return why a claim could take nothing; 0 if it might.

        From its own queue (``is_own``), or from others if these may give way at all (``across``).
        """
        if not (is_own or across):
            return int(refusals.POLICY)
        if self._table.is_on[queue]:
            return 0 if is_own else self._by_share(queue, ask)
        if not self._may_borrow_for(queue, ask):
            return int(refusals.BORROWS)
        return 0 if is_own else self._by_level(queue, ask)

    def _by_share(self, queue: int, ask: Ask) -> int:
        """Return why no queue beside a path could give way, or 0."""
        holdings = self._holdings
        path = holdings.rows.path(queue)
        lacks = lacked_by(holdings, queue, ask)
        holdings.add(queue, ask)
        is_reclaim = holdings.is_within(queue, lacks)  # then shares are not compared (F13)
        holdings.take(queue, ask)
        anybody = False
        for node, terms in zip(path, holdings.terms_with(queue, ask), strict=True):
            above = holdings.rows.parent[node]
            if above < 0:
                break
            found = [share for share, child in self._highest(above) if child != node]
            anybody = anybody or bool(found)
            if found and (is_reclaim or could_pass(holdings, terms, found[0])):
                return 0
        return int(refusals.HIGHER_SHARE if anybody else refusals.NOT_BORROWING)

    def _highest(self, parent: int) -> tuple[tuple[Share, int], ...]:
        """Return the two children that borrow the most by their share, with their rows."""
        known = self._best.get(parent)
        if known is None:
            some = self._holdings.borrowers(self._holdings.rows.children[parent])
            known = self._best[parent] = tuple(nlargest(2, some, key=lambda it: it[0]))
        return known

    def _may_borrow_for(self, queue: int, ask: Ask) -> bool:
        """Tell whether what a claim borrows leaves it entitled to anything (F22)."""
        if borrowing_of(self._session, queue).is_allowed:
            return True
        holdings, quota = self._holdings, self._holdings.rows.subtree[queue]
        return all(
            amount <= quota[at]
            or amount <= holdings.available(queue, at)
            or level_at(holdings, queue, at, amount).is_below_root
            for at, amount in ask
        )

    def _by_level(self, queue: int, ask: Ask) -> int:
        """Return why no other queue could give way, or 0."""
        holdings = self._holdings
        incoming = Work(-1, queue, ask)
        lacks = contested(holdings, incoming)
        reach = Reach(holdings, incoming, borrowing_of(self._session, queue))
        is_within = holdings.stays_within(queue, ask)
        is_any = False
        for node, above in pairwise(holdings.rows.path(queue)):
            if any(child != node for at in lacks for child in self._children_over(above, at)):
                if is_within or reach.may_borrow or reach.is_closer(above):
                    return 0
                is_any = True
        return int(refusals.BY_QUOTA if is_any else refusals.NOT_BORROWING)

    def _children_over(self, parent: int, at: int) -> list[int]:
        """Return the first children of a queue that hold more than their quota of a row."""
        known = self._over.get((parent, at))
        if known is None:
            known = self._over[parent, at] = []
            for child in self._holdings.rows.children[parent]:
                if self._holdings.is_over(child, (at,)):
                    known.append(child)
                    if len(known) == _ENOUGH:
                        break
        return known


# Why claims may take from nobody, found before any search: F11, F14 and F22.


def may_take_own(session: Session, table: Table, job: RowVec) -> BoolVec:
    """Tell, ``(K,)``, which claims might find work in their own queue that gives way to them."""
    jobs, sharing = session.jobs, session.queues.sharing
    runs = (jobs.active > 0) & jobs.is_preemptible & (jobs.queue_of_job >= 0)
    rows = runs.nonzero()[0]
    lowest: IntVec = np.full(len(session.queues), _NOBODY)
    np.minimum.at(lowest, table.home[jobs.queue_of_job[rows]], jobs.priority[rows])
    queue, priority = table.home[jobs.queue_of_job[job]], jobs.priority[job]
    policy = [sharing[row].within for row in queue.tolist()]
    least = lowest[queue]
    may = [
        said != NEVER
        and low != _NOBODY
        and (low < own or said not in (LOWER, LOWER_OR_NEWER) or (said != LOWER and low == own))
        for said, low, own in zip(policy, least.tolist(), priority.tolist(), strict=True)
    ]
    return np.array(may, np.bool_)
