"""Whether a victim would take its place back from the claim, once more has started (F16).

In the room that a plan leaves beside the claim other jobs start: victims that the plan needs gone
in order to be fair, and jobs that wait in the claim's queue. With them the queue of the
claim may borrow so much that a victim is entitled to the place of the claim again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, Claim, Session, Units, asked_of
from kaisched_plugins.fair_sharing.allowed import Rules, contested
from kaisched_plugins.fair_sharing.guard import turn
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.targets import targets
from kaisched_plugins.fair_sharing.waiting import free_on_nodes, waiting_of, waiting_work
from kaisched_plugins.fair_sharing.work import Work, may_take, victim_key

_FEW: Final = 8
"""So many jobs of a queue that ask for the same are looked at."""
Sized = tuple[Work, Amounts]
"""Work, and all that it asks for, ``(R,)``."""


def returning(
    session: Session,
    table: Table,
    rules: Rules,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    victims: Sequence[Work],
    units: Units,
) -> Work | None:
    """Return a victim that would take the place of a claim back; ``holdings`` lost the victims."""
    if all(work.queue == incoming.queue for work in victims):
        return None
    after = holdings.copy()
    after.add(incoming.queue, incoming.ask)
    free = free_on_nodes(session) - claim.ask
    back = [(work, units.amounts[:, work.row]) for work in reversed(victims)]
    mates = [each for each in back if each[0].queue == incoming.queue]
    mates += _mates(session, table, rules, claim, free)
    mates.sort(key=lambda each: turn(each[0]))
    line, left = [(incoming, claim.ask)], []
    foreign = [each for each in back if each[0].queue != incoming.queue]
    for each in (*mates, *foreign):
        work, amounts = each
        is_mate = work.queue == incoming.queue
        if (amounts <= free).all() and after.fits(work.queue, work.ask):
            after.add(work.queue, work.ask)
            free = free - amounts
            if is_mate:
                line.append(each)
        elif not is_mate:
            left.append(each)
    if len(line) == 1:  # without more in the queue of the claim nothing has changed for them
        return None
    taking = _Taking(session, rules, after, free)
    return next((each[0] for each in left if taking.takes(each, line)), None)


def _mates(
    session: Session, table: Table, rules: Rules, claim: Claim, free: Amounts
) -> Iterator[Sized]:
    """Yield jobs that wait in the queue of a claim and might start beside it, a few of each."""
    for each in waiting_of(session, table).get(claim.queue, ()):
        waits = (job for job in each.jobs if job != claim.job and session.pending_count(job))
        for job in islice(waits, _FEW):
            amounts = asked_of(session, job)
            if (amounts > free).any():
                break
            yield waiting_work(session, rules, table, job, amounts), amounts


class _Taking(NamedTuple):
    """What is held and free once all that starts has started."""

    session: Session
    rules: Rules
    holdings: Holdings
    free: Amounts

    def takes(self, sized: Sized, line: Sequence[Sized]) -> bool:
        """Tell whether work would take the first of a line of one queue."""
        work, _ = sized
        now, rules, wanted = self.holdings.copy(), self.rules, line[0][0]
        lacks = contested(now, work)
        open_ = self._open(work, line, lacks)
        now.add(work.queue, work.ask)
        free, taken = self.free, list[Sized]()
        lines = {wanted.queue: [each for each, _ in open_]}
        size_of = {id(each): size for each, size in open_}
        for each in targets(now, work, lines, lacks, rules.strategies, by_size=rules.by_size):
            taken.append((each, size_of[id(each)]))
            free = free + size_of[id(each)]
            now.take(work.queue, work.ask)
            if _fits(now, sized, free):
                return any(it is wanted for it, _ in _needed(now, sized, taken, free))
            now.add(work.queue, work.ask)
        return False

    def _open(self, work: Work, line: Sequence[Sized], lacks: Sequence[int]) -> list[Sized]:
        """Return what work may take of a line, the first to go first (F11, F12)."""
        policy = self.session.queues.sharing[work.queue].across
        priority = np.array([each.priority for each, _ in line])
        created_s = np.array([each.created_s for each, _ in line])
        may = may_take(policy, work, priority, created_s).tolist()
        some = [
            each
            for each, is_open in zip(line, may, strict=True)
            if is_open and any(at in lacks for at, _ in each[0].ask)
        ]
        rows, by_size = self.holdings.rows, self.rules.by_size
        return sorted(
            some,
            key=lambda it: (-it[0].usage, victim_key(rows, work.queue, it[0], by_size=by_size)),
        )


def _fits(holdings: Holdings, sized: Sized, free: Amounts) -> bool:
    work, amounts = sized
    return bool((amounts <= free).all()) and holdings.fits(work.queue, work.ask)


def _needed(holdings: Holdings, sized: Sized, taken: Sequence[Sized], free: Amounts) -> list[Sized]:
    """Return the victims without which work would not fit, the last one put back first."""
    needed = list(taken)
    for each in reversed(taken[:-1]):
        work, amounts = each
        holdings.add(work.queue, work.ask)
        if _fits(holdings, sized, free - amounts):
            needed = [it for it in needed if it is not each]
            free = free - amounts
        else:
            holdings.take(work.queue, work.ask)
    return needed
