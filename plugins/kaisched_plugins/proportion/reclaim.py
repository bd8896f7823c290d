"""Which jobs may claim, and which queues may lose: rules R18 and R19 of fairness.md."""

from __future__ import annotations

import numpy as np

from kaisched import (
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    RowVec,
    Session,
    least_asked_of,
    shares,
    worth,
)
from kaisched_plugins.proportion import refusals
from kaisched_plugins.proportion.rules import PER_MILLE, Floors, Row
from kaisched_plugins.proportion.standing import Standing

_NOT_OVER_SHARE = np.int16(refusals.NOT_OVER_SHARE)
_OVER_FAIR_SHARE = np.int16(refusals.OVER_FAIR_SHARE)
_OVER_QUOTA = np.int16(refusals.OVER_QUOTA)
_MOST_MEETINGS = 10_000


# -- what stays the same in a cycle --------------------------------------------------------------


class Bounds:
    """Quotas and shares of every queue, and where two queues meet. Pod slots never decide.

    Quotas and shares are reduced to what the parent has (R34).
    """

    __slots__ = (
        "_fixed",
        "_is_lowered",
        "_meetings",
        "_rows",
        "deserved",
        "enough",
        "multiplier",
        "per_mille",
        "share",
        "standing",
    )

    def __init__(self, session: Session, standing: Standing, multiplier: float) -> None:
        """Take the columns ``(R, Q)``; the multiplier counts in thousandths."""
        resources = len(standing.allocatable)
        self.standing = standing
        self.multiplier = multiplier
        self.per_mille = round(multiplier * PER_MILLE)
        told: Amounts = standing.bounds[:resources]
        queues = session.queues
        self._fixed = session.held_not_evictable
        columns = (told, standing.fair_share, self._fixed, queues.priority)
        self.deserved, share = worth(session.fair_tree, session.axis.unit, columns)
        self._is_lowered = share is not standing.fair_share
        if not self._is_lowered:
            self.share: Amounts = standing.bounds[resources : 2 * resources]
            allocatable = standing.allocatable
        else:
            self.share = share
            allocatable = shares.allocatable_share(self.deserved, queues.limit, share)
            self.share[PODS] = UNLIMITED
        self.enough = _times(allocatable, self.per_mille)
        self.enough[PODS] = UNLIMITED
        self._rows: dict[int, tuple[Row, Row, Row, Floors]] = {}
        self._meetings: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}

    def is_of(self, session: Session, standing: Standing, multiplier: float) -> bool:
        """Tell whether the bounds are still valid."""
        if self.standing is not standing or self.multiplier != multiplier:
            return False
        fixed = session.held_not_evictable
        return not self._is_lowered or np.array_equal(self._fixed, fixed)

    def row(self, queue: int) -> tuple[Row, Row, Row, Floors]:
        """Return quota, fair share, the amount that claims must leave, and the limited quotas."""
        row = self._rows.get(queue)
        if row is None:
            columns = (self.deserved, self.share, self.enough)
            deserved, share, enough = (column[:, queue].tolist() for column in columns)
            quotas = [(at, quota) for at, quota in enumerate(deserved) if 0 < quota < UNLIMITED]
            row = self._rows[queue] = (deserved, share, enough, quotas)
        return row

    def meeting(self, session: Session, claim: int, leaf: int) -> tuple[int, tuple[int, ...]]:
        """Return where two leaf queues are compared: at the level where their paths first differ.

        The answer is the claim's queue at that level, and the path of ``leaf`` up to that level. An
        empty path means the claim's own queue.
        """
        met = self._meetings.get((claim, leaf))
        if met is None:
            if len(self._meetings) >= _MOST_MEETINGS:
                self._meetings.clear()
            tree = session.fair_tree
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
    held = session.held_now
    over = _passes(session.fair_share - held, session.jobs.queue_of_job.take(job), ask)
    return over * _OVER_FAIR_SHARE if np.count_nonzero(over) else None


def non_preemptible_codes(
    session: Session, firm: Amounts, job: RowVec, ask: Amounts
) -> CodeVec | None:
    """Return NON_PREEMPTIBLE_OVER_QUOTA ``(K,)`` where a job passes a quota on its path, or None.

    ``firm`` are the quotas for such work, see :func:`firm_quotas`.

    The room that the quotas of a path leave is computed once for each queue.
    """
    is_strict = ~session.jobs.is_preemptible.take(job)
    if not np.count_nonzero(is_strict):  # a third of the time of any()
        return None
    held = session.held_non_preemptible_now
    tree = session.queues.tree
    room = firm - held
    for rows in tree.levels[1:]:
        above = room.take(tree.parent_of_queue.take(rows), axis=1)
        room[:, rows] = np.minimum(room.take(rows, axis=1), above)
    if session.shapes.by_card is not None:
        ask = np.stack([least_asked_of(session, row) for row in job.tolist()], axis=1)
    over = is_strict & _passes(room, session.jobs.queue_of_job.take(job), ask)
    return over * _OVER_QUOTA if np.count_nonzero(over) else None


def is_within_quota(session: Session, job: RowVec, ask: Amounts) -> BoolVec:
    """Tell, ``(K,)``, which jobs' queues have a quota of what is asked for, and stay within it."""
    queue = session.jobs.queue_of_job.take(job)
    held = session.held_now.take(queue, axis=1)
    quota = session.queues.deserved.take(queue, axis=1)
    asked = ask > 0
    asked[PODS] = False
    is_limited: BoolVec = np.logical_or.reduce(asked & (quota < UNLIMITED), axis=0)
    stays: BoolVec = np.logical_and.reduce(~asked | (held + ask <= quota), axis=0)
    return is_limited & stays


def _passes(room: Amounts, queue: RowVec, ask: Amounts) -> BoolVec:
    # At least 0: a resource not asked for never counts, even where its bound is passed already.
    np.maximum(room, 0, out=room)
    room[PODS] = UNLIMITED
    over: BoolVec = np.logical_or.reduce(ask > room.take(queue, axis=1), axis=0)
    return over


# -- from whom it may ----------------------------------------------------------------------------


def victim_codes(session: Session, bounds: Bounds, claim: Claim, job: RowVec) -> CodeVec | None:
    """Return NOT_OVER_SHARE ``(K,)`` for jobs of queues that need not lose room (R19), or None."""
    held = session.held_now
    tree = session.fair_tree
    gives = np.zeros(len(tree), np.bool_)
    above, begin, end = -1, 0, len(tree)
    for level, mine in zip(tree.levels, tree.path(claim.queue)[::-1].tolist(), strict=False):
        low, high = level.searchsorted((above + 1, end)).tolist()
        siblings = level[low:high]
        says = _give_way(bounds, held, claim, mine, siblings)
        if len(tree.levels) == 1:
            gives[siblings] = says
            break
        # In preorder the subtrees of siblings fill all that is below their parent.
        gives[begin:end] = np.repeat(says, tree.end_of_queue.take(siblings) - siblings)
        above, begin, end = mine, mine + 1, int(tree.end_of_queue[mine])
    gives[claim.queue] = False
    refused = ~gives.take(session.jobs.queue_of_job.take(job))
    return refused * _NOT_OVER_SHARE if refused.any() else None


def _give_way(bounds: Bounds, held: Amounts, claim: Claim, mine: int, siblings: RowVec) -> BoolVec:
    """Tell, ``(K,)``, which siblings may have to give room to the claim's queue ``mine``."""
    theirs = held.take(siblings, axis=1)
    if not bool((held[:, mine] + claim.ask <= bounds.deserved[:, mine]).all()):
        return shares.exceeds_any(theirs, bounds.enough.take(siblings, axis=1))
    asked = claim.ask > 0
    asked[PODS] = False
    theirs, quota = theirs[asked], bounds.deserved.take(siblings, axis=1)[asked]
    # Exactly at its quota everywhere: not ruled out here, as in KAI, but it loses nothing by R20.
    below = np.logical_or.reduce((theirs < quota) & (quota != UNLIMITED), axis=0)
    return np.asarray(shares.exceeds_any(theirs, quota) | ~below)
