"""Who may take back from whom: rules R18 to R22 of docs/explanation/fairness.md.

Questions about thousands of jobs or queues are array operations. The units of one claim are few,
and each is judged after those before it: there, plain lists of numbers are several times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, sub

import numpy as np

from kaisched import (
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    Refusal,
    RowVec,
    Session,
    Units,
    shares,
)
from kaisched_plugins.proportion.rules import (
    PER_MILLE,
    Floors,
    Row,
    floors_of,
    is_as_saturated,
    is_fair_share_victim,
    is_over_in_contest,
    is_quota_victim,
    is_within,
    undershoots,
)
from kaisched_plugins.proportion.standing import Standing

NOT_OVER_SHARE = int(Refusal.NOT_OVER_SHARE)
UNDERSHOOTS = int(Refusal.UNDERSHOOTS)
SATURATION_ORDER = int(Refusal.SATURATION_ORDER)
_OVER_FAIR_SHARE = np.int16(Refusal.OVER_FAIR_SHARE)
_OVER_QUOTA = np.int16(Refusal.NON_PREEMPTIBLE_OVER_QUOTA)
_MOST_MEETINGS = 10_000
_MANY = 24
"""From so many units on arrays beat plain lists."""


# -- what stays the same in a cycle --------------------------------------------------------------


class Bounds:
    """What every queue is judged by, and where two queues meet. Pod slots never decide."""

    __slots__ = (
        "_meetings",
        "_rows",
        "deserved",
        "enough",
        "multiplier",
        "per_mille",
        "share",
        "standing",
    )

    def __init__(self, standing: Standing, multiplier: float) -> None:
        """Take the columns ``(R, Q)``; the multiplier counts in thousandths."""
        resources = len(standing.allocatable)
        self.standing = standing
        self.multiplier = multiplier
        self.per_mille = round(multiplier * PER_MILLE)
        self.deserved: Amounts = standing.bounds[:resources]
        self.share: Amounts = standing.bounds[2 * resources : 3 * resources]
        self.enough = _times(standing.allocatable, self.per_mille)
        self.enough[PODS] = UNLIMITED
        self._rows: dict[int, tuple[Row, Row, Row, Floors]] = {}
        self._meetings: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}

    def is_of(self, standing: Standing, multiplier: float) -> bool:
        """Tell whether they still hold."""
        return self.standing is standing and self.multiplier == multiplier

    def row(self, queue: int) -> tuple[Row, Row, Row, Floors]:
        """Return quota, fair share, the most that others must leave, and the quotas that bind."""
        row = self._rows.get(queue)
        if row is None:
            columns = (self.deserved, self.share, self.enough)
            deserved, share, enough = (column[:, queue].tolist() for column in columns)
            quotas = [(at, quota) for at, quota in enumerate(deserved) if 0 < quota < UNLIMITED]
            row = self._rows[queue] = (deserved, share, enough, quotas)
        return row

    def meeting(self, session: Session, claim: int, leaf: int) -> tuple[int, tuple[int, ...]]:
        """Return where two leaf queues are compared: at the level where their paths first differ.

        That is the claim's queue there, and the other's path from the leaf up to its own there;
        an empty path means the claim's own queue.
        """
        met = self._meetings.get((claim, leaf))
        if met is None:
            if len(self._meetings) >= _MOST_MEETINGS:
                self._meetings.clear()
            tree = session.queues.tree
            mine, theirs = tree.path(claim).tolist(), tree.path(leaf).tolist()
            while len(mine) > 1 and theirs and mine[-1] == theirs[-1]:
                del mine[-1], theirs[-1]
            met = (mine[-1], () if claim == leaf else tuple(theirs))
            self._meetings[claim, leaf] = met
        return met


def _times(amounts: Amounts, per_mille: int) -> Amounts:
    """Return ``amounts * per_mille / 1000`` rounded down, without overflow; unlimited stays so.

    Whole amounts exceed the product exactly where they exceed what it is rounded down to.
    """
    if per_mille == PER_MILLE:
        return amounts.copy()
    thousands, rest = np.divmod(amounts, PER_MILLE)
    product: Amounts = thousands * per_mille + rest * per_mille // PER_MILLE
    return np.where(amounts == UNLIMITED, UNLIMITED, product)


# -- may it claim at all -------------------------------------------------------------------------


def share_codes(session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
    """Return OVER_FAIR_SHARE ``(K,)`` where a leaf queue would pass its fair share (R18), or None.

    KAI tests every resource, asked for or not.
    """
    held = session.ledger.held if session.has_moved else session.held
    over = _passes(session.fair_share - held, session.jobs.queue_of_job.take(job), ask)
    return over * _OVER_FAIR_SHARE if np.count_nonzero(over) else None


def non_preemptible_codes(session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
    """Return NON_PREEMPTIBLE_OVER_QUOTA ``(K,)`` where a job passes a quota on its path, or None.

    Answered once for each queue: what the quotas of its path leave.
    """
    is_strict = ~session.jobs.is_preemptible.take(job)
    if not np.count_nonzero(is_strict):  # a third of the time of any()
        return None
    held = (
        session.ledger.held_non_preemptible if session.has_moved else session.held_non_preemptible
    )
    tree = session.queues.tree
    room = session.queues.deserved - held
    for rows in tree.levels[1:]:
        above = room.take(tree.parent_of_queue.take(rows), axis=1)
        room[:, rows] = np.minimum(room.take(rows, axis=1), above)
    over = is_strict & _passes(room, session.jobs.queue_of_job.take(job), ask)
    return over * _OVER_QUOTA if np.count_nonzero(over) else None


def _passes(room: Amounts, queue: RowVec, ask: Amounts) -> BoolVec:
    # At least 0: a resource not asked for never counts, even where its bound is passed already.
    np.maximum(room, 0, out=room)
    room[PODS] = UNLIMITED
    over: BoolVec = np.logical_or.reduce(ask > room.take(queue, axis=1), axis=0)
    return over


# -- from whom it may ----------------------------------------------------------------------------


def victim_codes(session: Session, bounds: Bounds, claim: Claim, job: RowVec) -> CodeVec | None:
    """Return NOT_OVER_SHARE ``(K,)`` for jobs of queues that need not give way (R19), or None."""
    held = session.ledger.held if session.has_moved else session.held
    tree = session.queues.tree
    gives = np.zeros(len(tree), np.bool_)
    above, begin, end = -1, 0, len(tree)
    for level, mine in zip(tree.levels, tree.path(claim.queue)[::-1].tolist(), strict=False):
        low, high = level.searchsorted((above + 1, end)).tolist()
        siblings = level[low:high]
        says = _give_way(bounds, held, claim, mine, siblings)
        # In preorder the subtrees of siblings fill all that is below their parent.
        gives[begin:end] = np.repeat(says, tree.end_of_queue.take(siblings) - siblings)
        above, begin, end = mine, mine + 1, int(tree.end_of_queue[mine])
    gives[claim.queue] = False
    refused = ~gives.take(session.jobs.queue_of_job.take(job))
    return refused * np.int16(NOT_OVER_SHARE) if refused.any() else None


def _give_way(bounds: Bounds, held: Amounts, claim: Claim, mine: int, siblings: RowVec) -> BoolVec:
    """Tell, ``(K,)``, which siblings may have to give room to ``mine``, which asks for more."""
    theirs = held.take(siblings, axis=1)
    if not bool((held[:, mine] + claim.ask <= bounds.deserved[:, mine]).all()):
        return shares.exceeds_any(theirs, bounds.enough.take(siblings, axis=1))
    asked = claim.ask > 0
    asked[PODS] = False
    theirs, quota = theirs[asked], bounds.deserved.take(siblings, axis=1)[asked]
    # Exactly at its quota everywhere: not ruled out here, as in KAI, but it loses nothing by R20.
    below = np.logical_or.reduce((theirs < quota) & (quota != UNLIMITED), axis=0)
    return np.asarray(shares.exceeds_any(theirs, quota) | ~below)


# -- what may be taken together ------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Taker:
    """The claim's queue at one level, as if it had what it asks for."""

    after: Row
    share: Row
    over: list[int]
    """Resources of which it would have more than its fair share."""
    is_within_quota: bool


@dataclass(slots=True, eq=False)
class _Giver:
    """The queues that lose with one leaf, from it up to where it meets the claim's queue."""

    path: list[Row]
    """What each still has: changed as units go."""
    floors: list[tuple[Row, Floors]]
    """What each still has that must keep something of it, and what it must keep."""
    deserved: Row
    enough: Row
    share: Row
    taker: _Taker


class Scenario:
    """Takes units one after the other from the queues that hold them."""

    __slots__ = ("_ask", "_bounds", "_claim", "_givers", "_held", "_left", "_session", "_takers")

    def __init__(self, session: Session, bounds: Bounds, claim: Claim) -> None:
        """Start from what queues hold now."""
        self._session = session
        self._bounds = bounds
        self._claim = claim
        self._ask: Row = claim.ask.tolist()
        self._held = session.ledger.held if session.has_moved else session.held
        self._left: dict[int, tuple[Row, Floors]] = {}
        self._takers: dict[int, _Taker] = {}
        self._givers: dict[int, _Giver | None] = {}

    def judge(self, queue: int, amounts: Row) -> int:
        """Return a code; a unit without objection is gone from its queues from now on."""
        giver = self._givers[queue] if queue in self._givers else self._meet(queue)
        if giver is None:
            return NOT_OVER_SHARE
        left, taker = giver.path[-1], giver.taker
        if taker.over:
            is_over = is_over_in_contest(left, giver.enough, self._ask, amounts)
        else:
            is_over = is_fair_share_victim(left, giver.enough)
        if not (is_over or is_quota_victim(taker.is_within_quota, left, giver.deserved, self._ask)):
            return NOT_OVER_SHARE
        for has, floors in giver.floors:
            if undershoots(has, floors, amounts):
                return UNDERSHOOTS
        if taker.over and self._breaks_order(giver, amounts):
            return SATURATION_ORDER
        for has in giver.path:
            has[:] = map(sub, has, amounts)
        return 0

    def is_simple(self, queue: RowVec) -> bool:
        """Tell whether what a queue has more than its due decides alone, for all these leaves."""
        for leaf in np.unique(queue).tolist():
            giver = self._givers[leaf] if leaf in self._givers else self._meet(leaf)
            if giver is not None and (giver.taker.over or any(f for _, f in giver.floors)):
                return False
        return True

    def codes(self, units: Units, taken: BoolVec) -> CodeVec | None:
        """Judge all units at once, where :meth:`is_simple`.

        A queue that has no more than its due has none later either, so that what is refused never
        matters for what comes after it.
        """
        session, bounds = self._session, self._bounds
        top = np.full(len(session.queues), -1, np.int64)
        is_quota = np.zeros(len(session.queues), np.bool_)
        for leaf, giver in self._givers.items():
            if giver is not None:
                path = bounds.meeting(session, self._claim.queue, leaf)[1]
                top[leaf] = path[-1]
                is_quota[path[-1]] = giver.taker.is_within_quota
        loser = top.take(units.queue)
        group = loser if units.alternative is None else units.alternative * len(top) + loser
        order = np.argsort(group, kind="stable")
        group, loser = group[order], loser[order]
        lost = (units.amounts * taken).take(order, axis=1)
        before = lost.cumsum(axis=1) - lost
        starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
        before -= before.take(starts, axis=1).repeat(np.diff(starts, append=len(group)), axis=1)
        left = self._held.take(loser, axis=1) - before
        over = np.logical_or.reduce(left > bounds.enough.take(loser, axis=1), axis=0)
        if is_quota.any():
            over |= is_quota[loser] & self._is_over_quota(left, loser)
        refused = np.empty(len(units), np.bool_)
        refused[order] = ~over | (loser < 0)
        refused &= taken
        return refused * np.int16(NOT_OVER_SHARE) if refused.any() else None

    def _is_over_quota(self, left: Amounts, queue: RowVec) -> BoolVec:
        """Tell the same as :func:`is_quota_victim` of columns ``(R, V)``."""
        asked = self._claim.ask > 0
        has, quota = left[asked], self._bounds.deserved.take(queue, axis=1)[asked]
        below = np.logical_or.reduce((has < quota) & (quota != UNLIMITED), axis=0)
        over: BoolVec = np.logical_or.reduce(has > quota, axis=0) & ~below
        return over

    def _breaks_order(self, giver: _Giver, amounts: Row) -> bool:
        taker, left = giver.taker, giver.path[-1]
        per_mille = self._bounds.per_mille
        for at in taker.over:
            if (self._ask[at] > 0 or amounts[at] > 0) and is_as_saturated(
                taker.after[at], taker.share[at], left[at] - amounts[at], giver.share[at], per_mille
            ):
                return True
        return False

    def _meet(self, queue: int) -> _Giver | None:
        mine, path = self._bounds.meeting(self._session, self._claim.queue, queue)
        giver: _Giver | None = None
        if path:
            lose = [self._left.get(row) or self._start(row) for row in path]
            deserved, share, enough, _ = self._bounds.row(path[-1])
            giver = _Giver(
                [left for left, _ in lose],
                [each for each in lose if each[1]],
                deserved,
                enough,
                share,
                self._takers.get(mine) or self._take(mine),
            )
        self._givers[queue] = giver
        return giver

    def _start(self, queue: int) -> tuple[Row, Floors]:
        """Return what a queue holds before anything is taken, and what it must keep."""
        left: Row = self._held[:, queue].tolist()
        quotas = [] if self._claim.is_last_resort else self._bounds.row(queue)[3]
        start = self._left[queue] = (left, floors_of(left, quotas))
        return start

    def _take(self, mine: int) -> _Taker:
        # What others on its side of the tree lose is no gain to it: a unit that is allowed must
        # stay so without the ones before it.
        deserved, share, _, _ = self._bounds.row(mine)
        after = list(map(add, self._held[:, mine].tolist(), self._ask))
        over = [at for at, (has, bound) in enumerate(zip(after, share, strict=True)) if has > bound]
        taker = self._takers[mine] = _Taker(after, share, over, is_within(after, deserved))
        return taker


def scenario_codes(
    session: Session, bounds: Bounds, claim: Claim, units: Units, taken: BoolVec
) -> CodeVec | None:
    """Return codes ``(V,)`` of units taken one after the other (R20 to R22), or None for none."""
    scenario = Scenario(session, bounds, claim)
    if len(units) >= _MANY and scenario.is_simple(units.queue):
        return scenario.codes(units, taken)
    codes: list[int] = []
    entries = zip(
        _sets_of(units), units.queue.tolist(), units.amounts.T.tolist(), taken.tolist(), strict=True
    )
    last = None
    for of_set, queue, amounts, is_taken in entries:
        if of_set != last:
            scenario, last = Scenario(session, bounds, claim), of_set
        codes.append(scenario.judge(queue, amounts) if is_taken else 0)
    return np.array(codes, np.int16) if any(codes) else None


def _sets_of(units: Units) -> list[int]:
    return [0] * len(units) if units.alternative is None else units.alternative.tolist()
