"""Which claims could take anything at all: what is necessary, found without looking at victims.

In a full cluster at rest nobody is entitled to anything, in every cycle anew. A claim needs a queue
beside its path that borrows and whose share is no lower than what it would come to itself, or work
of its own queue that it may take.
"""

from __future__ import annotations

import numpy as np

from kaisched import Amounts, BoolVec, CodeVec, IntVec, RowVec, Session
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.share import Share
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.targets import could_pass
from kaisched_plugins.fair_sharing.work import LOWER, LOWER_OR_NEWER, NEVER

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
