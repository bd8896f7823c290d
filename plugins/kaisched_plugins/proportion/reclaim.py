"""Who may reclaim, from whom, and which units together: R18 to R22, R32, R34 and R37."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import add, gt, le, sub
from typing import TypeAlias

import numpy as np

from kaisched import (
    GPU,
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    IntVec,
    RowVec,
    Session,
    Units,
    charges,
    least_asked_of,
    ordered_jobs,
    shares,
    units_of,
    worth,
)
from kaisched_plugins.proportion import refusals
from kaisched_plugins.proportion.standing import Standing

# The rules on plain numbers: R20 and R21 of docs/explanation/fairness.md, and R15 made exact.


PER_MILLE = 1000

Row: TypeAlias = list[int]
"""Amounts of one queue or unit, one number for each resource."""
Floors: TypeAlias = list[tuple[int, int]]
"""Resources with the amount that a queue must keep of them."""


def is_within(held: Iterable[int], bound: Iterable[int]) -> bool:
    """Tell whether no resource passes its bound."""
    return all(map(le, held, bound))


def is_fair_share_victim(
    left: Row, enough: Row, ask: Row, amounts: Row, *, is_taker_over: bool
) -> bool:
    """Tell whether a queue still has more of some resource than others must leave it (R20).

    The resource is one that the unit holds; or, for a taker that is over no share, one that is not
    asked for. No queue exceeds an unlimited share, or a share of a resource that it does not hold.
    So only resources that are used and divided can decide.
    """
    if not any(map(gt, left, enough)):
        return False  # a quarter of the time, and the most frequent answer
    return any(
        has > most and (lost > 0 or not (is_taker_over or asked > 0))
        for has, most, asked, lost in zip(left, enough, ask, amounts, strict=True)
    )


def is_quota_victim(is_claim_within_quota: bool, left: Row, deserved: Row, ask: Row) -> bool:
    """Tell whether a queue over quota loses to a queue that stays within its own (R20).

    Only limited quotas of resources that the claim asks for count, and the losing queue must have
    its quota of all of them.
    """
    if not is_claim_within_quota:
        return False
    is_over = False
    for has, quota, asked in zip(left, deserved, ask, strict=True):
        if asked > 0 and quota != UNLIMITED:
            if has < quota:
                return False
            is_over = is_over or has > quota
    return is_over


def floors_of(left: Row, quotas: Floors) -> Floors:
    """Return the quotas that a queue reaches, and so must keep (R21).

    Where it is below its quota already, it may lose more: otherwise a queue that never used its
    quota of one resource could lose nothing at all.
    """
    return [floor for floor in quotas if left[floor[0]] >= floor[1]]


def undershoots(left: Row, floors: Floors, amounts: Row) -> bool:
    """Tell whether losing these amounts would leave a queue below its quota of any of them."""
    for at, floor in floors:  # noqa: SIM110 - half the time of any(), for every unit and level
        if left[at] - amounts[at] < floor and amounts[at] > 0:
            return True
    return False


def is_as_saturated(after: int, share: int, left: int, their_share: int, per_mille: int) -> bool:
    """Tell exactly whether a taker above its share is as saturated as the losing queue (R15)."""
    if their_share <= 0:
        return share <= 0  # two queues without entitlement would take turns at each other's cost
    if share == 0 or their_share == UNLIMITED:
        return True
    return after * per_mille * their_share >= left * PER_MILLE * share


# Which jobs may claim, and which queues may lose: rules R18 and R19 of fairness.md.


_NOT_OVER_SHARE = np.int16(refusals.NOT_OVER_SHARE)
_OVER_FAIR_SHARE = np.int16(refusals.OVER_FAIR_SHARE)
_OVER_QUOTA = np.int16(refusals.OVER_QUOTA)


# -- what stays the same in a cycle --------------------------------------------------------------


class Bounds:
    """Quotas and shares of every queue, and where two queues meet. Pod slots never decide.

    Quotas and shares are reduced to what the parent has (R34).
    """

    def __init__(self, session: Session, standing: Standing, multiplier: float) -> None:
        """Take the columns ``(R, Q)``; the multiplier counts in thousandths."""
        self.per_mille = round(multiplier * PER_MILLE)
        queues, fair_share = session.queues, session.fair_share
        told = queues.deserved.copy()
        told[PODS] = UNLIMITED
        columns = (told, fair_share, session.held_not_evictable, queues.priority)
        self.deserved, share = worth(session.fair_tree, session.axis.unit, columns)
        allocatable = standing.allocatable
        if share is not fair_share:
            allocatable = shares.allocatable_share(self.deserved, queues.limit, share)
        self.share: Amounts = share.copy()
        self.share[PODS] = UNLIMITED
        self.enough = _times(allocatable, self.per_mille)
        self.enough[PODS] = UNLIMITED
        self._rows: dict[int, tuple[Row, Row, Row, Floors]] = {}
        self._meetings: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}

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
    if refused.any() and (is_part := session.parts_of_gpus) is not None:
        tasks, parts = session.tasks, WholeGpus(session, bounds, claim)
        lent = np.unique(tasks.job_of_task[is_part[tasks.shape_of_task]])
        for at in np.flatnonzero(refused & np.isin(job, lent)).tolist():
            refused[at] = not parts.gives_way(int(session.jobs.queue_of_job[job[at]]), held[GPU])
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


# Parts of GPUs above a quota give way to whole GPUs within quota: rule R37. A part keeps its GPU
# from all whole pods, however little of it counts.


class WholeGpus:
    """Tells whether queues must give parts of GPUs to a claim."""

    def __init__(self, session: Session, bounds: Bounds, claim: Claim) -> None:
        """Find out on first use up to which queue the claim is within quota."""
        self._session, self._bounds, self._claim = session, bounds, claim
        self._within: set[int] | None = None

    def gives_way(self, leaf: int, held: Mapping[int, int] | IntVec) -> bool:
        """Tell whether a queue on a leaf's path, up to the comparison, has GPUs beyond its quota.

        ``held`` ``(Q,)`` is what queues have of GPUs. The claim must be for whole GPUs and within
        the quotas of its own path, up to the comparison.
        """
        mine, path = self._bounds.meeting(self._session, self._claim.queue, leaf)
        if self._within is None:
            self._within = self._queues_within()
        quota = self._bounds.deserved[GPU]
        return mine in self._within and any(held[row] > quota[row] for row in path)

    def _queues_within(self) -> set[int]:
        """Return the queues from the claim's up that stay within their quota of GPUs."""
        session, claim = self._session, self._claim
        is_part, found = session.parts_of_gpus, set[int]()
        shapes = session.tasks.shape_of_task[session.jobs.tasks[claim.job]]
        if is_part is None or not claim.ask[GPU] or is_part[shapes].any():
            return found
        after = session.held_now[GPU] + claim.ask[GPU]
        for row in session.fair_tree.path(claim.queue).tolist():
            if after[row] > self._bounds.deserved[GPU, row]:
                break
            found.add(row)
        return found


# Computes how much of the running work quotas cover: rule R32 of docs/explanation/fairness.md.


_COVERED = "proportion.covered"

Covered: TypeAlias = dict[int, Row]
"""What is covered, by queue."""


@dataclass(slots=True)
class _Piece:
    """Equal parts of a running job."""

    amounts: Row
    """What one part holds."""
    least: int
    """How many parts must be covered together, or none."""
    count: int


@dataclass(slots=True)
class _Running:
    """A running job: first the pods that it needs to run, then its elastic pods."""

    path: list[int]
    """The queues from the job's leaf queue up."""
    pieces: list[_Piece]


def in_quota(session: Session, bounds: Bounds, top: int) -> Covered:
    """Return what quotas cover of the running jobs below a queue, at each queue below it.

    A part of a job is covered at a queue if it is covered at all queues from there to ``top``: it
    fits into their quotas along with the parts covered already. First come the parts that fit at
    all queues of their path, then those that fit at all queues but the leaf, and so on. Between
    these, the most important come first. The answer is as of the beginning of the cycle, so that it
    is computed once.
    """
    known: dict[int, Covered] = session.found.setdefault(_COVERED, {})
    covered = known.get(top)
    if covered is None:
        fixed = session.held_not_evictable
        columns = (bounds.deserved, bounds.share, fixed, session.queues.priority)
        quota, _ = worth(session.fair_tree, session.axis.unit, columns, top)
        covered = known[top] = _covered(session, quota, top)
    return covered


def _covered(session: Session, quota: Amounts, top: int) -> Covered:
    below = range(top, int(session.fair_tree.end_of_queue[top]))
    room: Covered = {queue: quota[:, queue].tolist() for queue in below}
    for amounts in room.values():
        amounts[PODS] = UNLIMITED
    covered: Covered = {queue: [0] * len(room[queue]) for queue in below}
    jobs = _running(session, top)
    for skipped in range(max((len(job.path) for job in jobs), default=0)):
        for job in jobs:
            if skipped < len(job.path):
                _cover(job, job.path[skipped:], room, covered)
    return covered


def _cover(job: _Running, path: list[int], room: Covered, covered: Covered) -> None:
    """Cover what fits of a job at all queues of a path."""
    for piece in job.pieces:
        count = min([piece.count, *(_fitting(piece.amounts, room[queue]) for queue in path)])
        if count < piece.least:
            return  # the rest of the job is useless without this part
        if not count:
            continue
        piece.count -= count
        piece.least = 0
        for queue in path:
            for at, amount in enumerate(piece.amounts):
                covered[queue][at] += count * amount
                if room[queue][at] != UNLIMITED:
                    room[queue][at] -= count * amount


def _fitting(amounts: Row, room: Row) -> int:
    """Return how many parts fit; no limit for parts that hold nothing."""
    fits = [has // amount for has, amount in zip(room, amounts, strict=True) if amount]
    return min(fits, default=UNLIMITED)


def _running(session: Session, top: int) -> list[_Running]:
    """Return the jobs below a queue with running pods, the most important first."""
    jobs, tree = session.jobs, session.fair_tree
    is_below = (jobs.queue_of_job >= top) & (jobs.queue_of_job < int(tree.end_of_queue[top]))
    job = (is_below & (jobs.active > 0)).nonzero()[0]
    above = int(tree.depth_of_queue[top])
    found = []
    for row in ordered_jobs(session, job).tolist():
        path = tree.path(int(jobs.queue_of_job[row])).tolist()
        found.append(_Running(path[: len(path) - above], _pieces(session, row)))
    return found


def _pieces(session: Session, job: int) -> list[_Piece]:
    jobs, shapes = session.jobs, session.shapes
    shape, active = int(jobs.shape_of_job[job]), int(jobs.active[job])
    is_by_card = shapes.by_card is not None and shapes.by_card.memory_mib[shape] > 0
    if shape >= 0 and jobs.podset_count[job] == 1 and not is_by_card:
        minimum = int(session.podsets.minimum[jobs.first_podset[job]])
        return [_Piece(shapes.charge[:, shape].tolist(), min(minimum, active), active)]
    pieces = []
    for part in reversed(units_of(session, job, session.tasks.state)):
        amounts: Row = charges(session, list(part.tasks)).sum(axis=1).tolist()
        pieces.append(_Piece(amounts, int(part.is_core), 1))
    return pieces


# Judges which units may be taken together for a claim: R20 to R22, R32 and R34 of fairness.md.
#
# Each unit is judged after the units before it. For the few units of one claim, plain lists of
# numbers are several times faster than arrays.


_NOT_OVER = int(refusals.NOT_OVER_SHARE)
_UNDERSHOOTS = int(refusals.UNDERSHOOTS)
_SATURATION_ORDER = int(refusals.SATURATION_ORDER)


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

    rows: tuple[int, ...]
    """The queues."""
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

    __slots__ = (
        "_ask",
        "_bounds",
        "_claim",
        "_givers",
        "_held",
        "_left",
        "_session",
        "_takers",
        "_whole",
    )

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
        self._whole = WholeGpus(session, bounds, claim)

    def judge(self, queue: int, amounts: Row, *, is_part: bool) -> int:
        """Return a code; a unit without objection is gone from its queues from now on.

        ``is_part`` tells that it holds parts of GPUs. These give way to whole GPUs in the second
        search, when no other plan was found.
        """
        giver = self._givers[queue] if queue in self._givers else self._meet(queue)
        if giver is None:
            return _NOT_OVER
        code = self._code(queue, giver, amounts)
        if code and is_part:
            has = {row: left[GPU] for row, left in zip(giver.rows, giver.path, strict=True)}
            if self._whole.gives_way(queue, has):
                code = 0 if self._claim.pass_number else _UNDERSHOOTS
        if not code:
            for row in giver.path:
                row[:] = map(sub, row, amounts)
        return code

    def _code(self, queue: int, giver: _Giver, amounts: Row) -> int:
        left, taker = giver.path[-1], giver.taker
        is_over = is_fair_share_victim(
            left, giver.enough, self._ask, amounts, is_taker_over=bool(taker.over)
        )
        if not (is_over or is_quota_victim(taker.is_within_quota, left, giver.deserved, self._ask)):
            return _NOT_OVER
        for has, floors in giver.floors:
            if undershoots(has, floors, amounts):
                return _UNDERSHOOTS
        for row, has, quotas in giver.quotas:
            if undershoots(has, quotas, amounts) and self._is_covered(queue, row, has, amounts):
                return _UNDERSHOOTS
        if taker.over and self._breaks_order(giver, amounts):
            return _SATURATION_ORDER
        return 0

    def _is_covered(self, leaf: int, queue: int, has: Row, amounts: Row) -> bool:
        """Tell whether the queue would be left with less than quotas cover of it (R32)."""
        _, path = self._bounds.meeting(self._session, self._claim.queue, leaf)
        covered = in_quota(self._session, self._bounds, path[-1])[queue]
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
                path,
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
    scenarios = defaultdict[int, Scenario](partial(Scenario, session, bounds, claim))
    sets = [0] * len(units) if units.alternative is None else units.alternative.tolist()
    parts = [False] * len(units)
    if (is_part := session.parts_of_gpus) is not None:
        shape = session.tasks.shape_of_task
        parts = [bool(is_part[shape[list(tasks)]].any()) for tasks in units.tasks]
    columns = units.queue.tolist(), units.amounts.T.tolist(), taken.tolist(), parts
    codes = [
        scenarios[of_set].judge(queue, amounts, is_part=part) if is_taken else 0
        for of_set, queue, amounts, is_taken, part in zip(sets, *columns, strict=True)
    ]
    return np.array(codes, np.int16) if any(codes) else None
