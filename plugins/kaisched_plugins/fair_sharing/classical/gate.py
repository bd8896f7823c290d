"""Which claims could take anything in a tree without fair sharing: what is necessary (F21, F22).

In a full cluster at rest no claim is entitled to anything, in every cycle anew.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kaisched import Amounts, BoolVec, CodeVec, RowVec, Session
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import contested
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.classical.levels import level_at
from kaisched_plugins.fair_sharing.classical.reach import Reach, borrowing_of
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.work import NEVER, Work

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
