"""Why claims may take from nobody, found before any search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kaisched import Amounts, BoolVec, CodeVec, IntVec, RowVec, Session
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Share
from kaisched_plugins.fair_sharing.tables import Now, Table
from kaisched_plugins.fair_sharing.victims import PREEMPT, Reach, Rules, borrowing_of, contested
from kaisched_plugins.fair_sharing.work import (
    LOWER,
    LOWER_OR_NEWER,
    NEVER,
    Work,
    could_pass,
    level_at,
)

# Which claims could take anything at all: what is necessary, found without looking at victims.
#
# In a full cluster at rest nobody is entitled to anything, in every cycle anew. A claim needs a
# queue beside its path that borrows and whose share is no lower than what it would come to itself,
# or work of its own queue that it may take.


_NOBODY = int(np.iinfo(np.int64).max)


class Hope:
    """What could be had at one moment of a cycle."""

    def __init__(
        self, session: Session, table: Table, holdings: Holdings, choices: Choices
    ) -> None:
        """Look at nothing yet; ``holdings`` stay as they are."""
        self._choices = choices
        self._session = session
        self._table = table
        self._holdings = holdings
        self._best: dict[int, tuple[tuple[Share, int], ...]] = {}

    def codes(self, job: RowVec, ask: Amounts) -> CodeVec:
        """Return why claims could take nothing from other queues, ``(K,)``; 0 where they might."""
        session = self._session
        queue = self._table.home[session.jobs.queue_of_job[job]].tolist()
        some = self._asks(queue, ask)
        sharing = session.queues.sharing
        codes = np.zeros(len(queue), np.int16)
        known: dict[tuple[object, ...], int] = {}
        for at, row in enumerate(queue):
            if sharing[row].across == NEVER:
                codes[at] = refusals.POLICY
                continue
            key = (row, *(tuple(asked) for asked in some[at]))
            code = known.get(key)
            if code is None:
                found = [self._code(row, asked) for asked in some[at]]
                code = known[key] = 0 if 0 in found else next(iter(found), 0)
            codes[at] = code
        return codes

    def _asks(self, queue: list[int], ask: Amounts) -> list[list[Ask]]:
        """Return what each request comes to, in each combination of flavors."""
        if self._table.flavors is None:
            return [[self._table.ask(amounts)] for amounts in ask.T]
        return [list(self._choices.possible(row, ask[:, at])) for at, row in enumerate(queue)]

    def _code(self, queue: int, ask: Ask) -> int:
        """Return why no queue beside a path could give way, or 0."""
        holdings = self._holdings
        path = holdings.rows.path(queue)
        anybody = False
        for node, terms in zip(path, holdings.terms_with(queue, ask), strict=True):
            above = holdings.rows.parent[node]
            if above < 0:
                break
            found = [share for share, child in self._highest(above) if child != node]
            anybody = anybody or bool(found)
            if found and (not self._table.is_on[queue] or could_pass(holdings, terms, found[0])):
                return 0
        return int(refusals.HIGHER_SHARE if anybody else refusals.NOT_BORROWING)

    def _highest(self, parent: int) -> tuple[tuple[Share, int], ...]:
        """Return the two children that borrow the most by their share, with their rows."""
        known = self._best.get(parent)
        if known is None:
            terms = [(child, self._holdings.terms(child)) for child in self._children(parent)]
            shares = [(it.share, child) for child, it in terms if it.is_borrowing]
            shares.sort(key=lambda it: it[0], reverse=True)
            known = self._best[parent] = tuple(shares[:2])
        return known

    def _children(self, parent: int) -> list[int]:
        return self._holdings.rows.children[parent]


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


# Which claims could take anything in a tree without fair sharing: what is necessary (F21, F22).
#
# In a full cluster at rest no claim is entitled to anything, in every cycle anew.


_ENOUGH = 2
"""So many children that borrow are looked for: one may be on the claim's own path."""


class Gate:
    """Answers about claims at one moment of a cycle."""

    def __init__(
        self, session: Session, table: Table, holdings: Holdings, choices: Choices
    ) -> None:
        """Keep ``holdings``, which must not change."""
        self._session = session
        self._table = table
        self._choices = choices
        self._holdings = holdings
        self._over: dict[tuple[int, int], list[int]] = {}

    def codes(self, job: RowVec, ask: Amounts, own: BoolVec, *, across: bool) -> CodeVec:
        """Return why claims could take nothing, ``(K,)``; 0 where they might.

        ``own`` tells which might take from their own queue, and ``across`` whether other queues
        may give way at all.
        """
        session = self._session
        queue = self._table.home[session.jobs.queue_of_job[job]].tolist()
        codes = np.zeros(len(queue), np.int16)
        known: dict[tuple[object, ...], int] = {}
        for at, row in enumerate(queue):
            every = [tuple(asked) for asked in self._choices.possible(row, ask[:, at])]
            key = (row, bool(own[at]), *every)
            code = known.get(key)
            if code is None:
                found = [
                    self._code(row, asked, is_own=bool(own[at]), across=across) for asked in every
                ]
                code = known[key] = 0 if 0 in found else next(iter(found), 0)
            codes[at] = code
        return codes

    def _code(self, queue: int, ask: Ask, *, is_own: bool, across: bool) -> int:
        sharing = self._session.queues.sharing[queue]
        across = across and sharing.across != NEVER
        if not (is_own or across):
            return int(refusals.POLICY)
        if not self._may_borrow_for(queue, ask):
            return int(refusals.BORROWS)
        return 0 if is_own else self._others(queue, ask)

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

    def _others(self, queue: int, ask: Ask) -> int:
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
    own = may_take_own(session, table, job)
    is_on = table.is_on[session.jobs.queue_of_job[job]]
    codes = np.zeros(len(job), np.int16)
    off = np.flatnonzero(~is_on)
    if off.size:
        gate = Gate(session, table, now.holdings(session), choices)
        across = action != PREEMPT
        codes[off] = gate.codes(job[off], ask[:, off], own[off], across=across)
    on = np.flatnonzero(is_on)
    if action == PREEMPT:
        codes[on] = ~own[on] * np.int16(refusals.POLICY)
    elif on.size:
        hope = Hope(session, table, now.copy(session), choices)
        codes[on] = np.where(own[on], 0, hope.codes(job[on], ask[:, on]))
    if rules.high_from is not None:  # neither shares nor levels matter to them
        is_high = session.jobs.priority[job] >= rules.high_from
        codes[is_high & ((action != PREEMPT) | (codes == refusals.BORROWS))] = 0
    return codes
