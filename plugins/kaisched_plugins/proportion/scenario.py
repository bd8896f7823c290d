"""Judges which units may be taken together for a claim: R20 to R22, R32 and R34 of fairness.md.

Each unit is judged after the units before it. For the few units of one claim, plain lists of
numbers are several times faster than arrays. Of many units, arrays judge those that are decided
only by what their queues still have.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, sub

import numpy as np

from kaisched import (
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    RowVec,
    Session,
    Units,
)
from kaisched_plugins.proportion import refusals
from kaisched_plugins.proportion.in_quota import in_quota
from kaisched_plugins.proportion.reclaim import Bounds
from kaisched_plugins.proportion.rules import (
    Floors,
    Row,
    floors_of,
    is_as_saturated,
    is_fair_share_victim,
    is_quota_victim,
    is_within,
    undershoots,
)

_NOT_OVER_SHARE = int(refusals.NOT_OVER_SHARE)
_UNDERSHOOTS = int(refusals.UNDERSHOOTS)
_SATURATION_ORDER = int(refusals.SATURATION_ORDER)
_MANY = 24
"""From so many units on, arrays are faster than plain lists."""


@dataclass(slots=True, eq=False)
class _Taker:
    """The claim's queue at one level, with the request of the claim added."""

    after: Row
    share: Row
    over: list[int]
    """Resources of which the queue would have more than its fair share."""
    is_within_quota: bool


@dataclass(slots=True, eq=False)
class _Giver:
    """The queues that lose with one leaf, from the leaf up to where it meets the claim's queue."""

    path: list[Row]
    """What each queue still has: changed as units go."""
    floors: list[tuple[Row, Floors]]
    """For each queue that must keep amounts: what it still has, and what it must keep."""
    deserved: Row
    enough: Row
    share: Row
    taker: _Taker
    quotas: list[tuple[int, Row, Floors]]
    """The queues with a quota, what each still has, and the quotas."""


class Scenario:
    """Takes units one after the other from the queues that hold them."""

    __slots__ = ("_ask", "_bounds", "_claim", "_givers", "_held", "_left", "_session", "_takers")

    def __init__(self, session: Session, bounds: Bounds, claim: Claim) -> None:
        """Start from what queues hold now."""
        self._session = session
        self._bounds = bounds
        self._claim = claim
        self._ask: Row = claim.ask.tolist()
        self._held = session.held_now
        self._left: dict[int, tuple[Row, Floors]] = {}
        self._takers: dict[int, _Taker] = {}
        self._givers: dict[int, _Giver | None] = {}

    def judge(self, queue: int, amounts: Row) -> int:
        """Return a code; a unit without objection is gone from its queues from now on."""
        giver = self._givers[queue] if queue in self._givers else self._meet(queue)
        if giver is None:
            return _NOT_OVER_SHARE
        left, taker = giver.path[-1], giver.taker
        is_over = is_fair_share_victim(
            left, giver.enough, self._ask, amounts, is_taker_over=bool(taker.over)
        )
        if not (is_over or is_quota_victim(taker.is_within_quota, left, giver.deserved, self._ask)):
            return _NOT_OVER_SHARE
        for has, floors in giver.floors:
            if undershoots(has, floors, amounts):
                return _UNDERSHOOTS
        for row, has, quotas in giver.quotas:
            if undershoots(has, quotas, amounts) and self._is_covered(queue, row, has, amounts):
                return _UNDERSHOOTS
        if taker.over and self._breaks_order(giver, amounts):
            return _SATURATION_ORDER
        for has in giver.path:
            has[:] = map(sub, has, amounts)
        return 0

    def is_simple(self, queue: RowVec) -> bool:
        """Tell whether only the excess over shares decides, for all these leaves."""
        for leaf in np.unique(queue).tolist():
            giver = self._givers[leaf] if leaf in self._givers else self._meet(leaf)
            if giver is not None and (giver.taker.over or any(f for _, f in giver.floors)):
                return False
        return True

    def keeps_quotas(self, units: Units, gone: BoolVec) -> bool:
        """Tell whether no quota is undershot, whatever it covers, by units of met leaves (R32)."""
        lost: dict[int, Amounts] = {}
        for leaf, giver in self._givers.items():
            if giver is None or not giver.quotas:
                continue
            of_leaf = units.amounts.compress(gone & (units.queue == leaf), axis=1).sum(axis=1)
            for row, has, quotas in giver.quotas:
                lost[row] = lost.get(row, 0) + of_leaf
                if undershoots(has, quotas, lost[row].tolist()):
                    return False
        return True

    def _top(self, leaf: int) -> int:
        """Return the queue, at or above a leaf that loses, that is compared with the claim's."""
        return self._bounds.meeting(self._session, self._claim.queue, leaf)[1][-1]

    def codes(self, units: Units, taken: BoolVec) -> CodeVec | None:
        """Judge all units at once, where :meth:`is_simple`.

        A queue that has no excess of a resource has none later either, so a refused unit never
        matters for the units after it.
        """
        session, bounds = self._session, self._bounds
        top = np.full(len(session.queues), -1, np.int64)
        is_quota = np.zeros(len(session.queues), np.bool_)
        for leaf, giver in self._givers.items():
            if giver is not None:
                top[leaf] = self._top(leaf)
                is_quota[top[leaf]] = giver.taker.is_within_quota
        loser = top.take(units.queue)
        group = loser if units.alternative is None else units.alternative * len(top) + loser
        order = np.argsort(group, kind="stable")
        group, loser = group[order], loser[order]
        lost = (units.amounts * taken).take(order, axis=1)
        before = lost.cumsum(axis=1) - lost
        starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
        before -= before.take(starts, axis=1).repeat(np.diff(starts, append=len(group)), axis=1)
        left = self._held.take(loser, axis=1) - before
        counts = (self._claim.ask == 0)[:, None] | (units.amounts.take(order, axis=1) > 0)
        exceeds = (left > bounds.enough.take(loser, axis=1)) & counts
        over = np.logical_or.reduce(exceeds, axis=0)
        if is_quota.any():
            over |= is_quota[loser] & self._is_over_quota(left, loser)
        refused = np.empty(len(units), np.bool_)
        refused[order] = ~over | (loser < 0)
        refused &= taken
        return refused * np.int16(_NOT_OVER_SHARE) if refused.any() else None

    def _is_over_quota(self, left: Amounts, queue: RowVec) -> BoolVec:
        """Compute :func:`is_quota_victim` for columns ``(R, V)``."""
        asked = self._claim.ask > 0
        has, quota = left[asked], self._bounds.deserved.take(queue, axis=1)[asked]
        below = np.logical_or.reduce((has < quota) & (quota != UNLIMITED), axis=0)
        over: BoolVec = np.logical_or.reduce(has > quota, axis=0) & ~below
        return over

    def _is_covered(self, leaf: int, queue: int, has: Row, amounts: Row) -> bool:
        """Tell whether the queue would be left with less than quotas cover of it (R32)."""
        covered = in_quota(self._session, self._bounds, self._top(leaf))[queue]
        return any(
            amounts[at] > 0 and has[at] - amounts[at] < covered[at]
            for at, _ in self._bounds.row(queue)[3]
        )

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
            bound = [(row, self._bounds.row(row)[3]) for row in path]
            giver = _Giver(
                [left for left, _ in lose],
                [each for each in lose if each[1]],
                deserved,
                enough,
                share,
                self._takers.get(mine) or self._take(mine),
                [(row, self._left[row][0], quotas) for row, quotas in bound if quotas],
            )
        self._givers[queue] = giver
        return giver

    def _start(self, queue: int) -> tuple[Row, Floors]:
        """Return what a queue holds before units are taken, and what it must keep."""
        left: Row = self._held[:, queue].tolist()
        quotas = [] if self._claim.pass_number else self._bounds.row(queue)[3]
        start = self._left[queue] = (left, floors_of(left, quotas))
        return start

    def _take(self, mine: int) -> _Taker:
        # Losses of other queues in its subtree do not lower its amounts: an allowed unit must stay
        # allowed without the units before it.
        deserved, share, _, _ = self._bounds.row(mine)
        after = list(map(add, self._held[:, mine].tolist(), self._ask))
        over = [at for at, (has, bound) in enumerate(zip(after, share, strict=True)) if has > bound]
        taker = self._takers[mine] = _Taker(after, share, over, is_within(after, deserved))
        return taker


def scenario_codes(
    session: Session, bounds: Bounds, claim: Claim, units: Units, taken: BoolVec
) -> CodeVec | None:
    """Return codes ``(V,)`` of units taken one after the other (R20 to R22, R32), or None."""
    scenario = Scenario(session, bounds, claim)
    if len(units) >= _MANY and scenario.is_simple(units.queue):
        found = scenario.codes(units, taken)
        if scenario.keeps_quotas(units, taken if found is None else taken & (found == 0)):
            return found
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
