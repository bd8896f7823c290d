"""Handover of the surplus between indivisible jobs: which they are, the groups, and their slices.

Rules R26 to R31 of docs/explanation/fairness.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    PARTS,
    PODS,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    TaskState,
    charges,
    jobs_by_age,
    ordered_tasks,
)
from kaisched_plugins.time_based_fairshare import refusals

# Finds indivisible jobs: their core is larger than their queue's part, so they need slices.


_PENDING = int(TaskState.PENDING)


@dataclass(frozen=True, slots=True)
class Indivisible:
    """A job that cannot be divided and is larger than its queue's part."""

    job: int
    leaf: int
    amounts: dict[int, int]
    """Resource to what the core holds, or what the next batch asks for; no zeros, no pod slots."""
    start_s: float
    """Start of the job; NaN while it waits."""

    @property
    def is_running(self) -> bool:
        """Tell whether the job runs."""
        return not math.isnan(self.start_s)


def indivisible_jobs_of(session: Session, part: FloatVec) -> list[Indivisible]:
    """Return the preemptible indivisible jobs: all running, and the first waiting of each leaf.

    Running jobs come by age and name. Of the waiting jobs of a queue, the job of the highest
    priority counts, then the oldest, then the first by name.

    Args:
        session: running and waiting jobs when the cycle begins.
        part: ``(R, Q)`` each queue's part, parts per billion of the cluster.

    """
    bound = part * (session.total / PARTS)[:, None]
    bound[PODS] = np.inf
    jobs = session.jobs
    usable = jobs.is_preemptible & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    running = (usable & (jobs.active > 0)).nonzero()[0]
    waiting = (usable & (jobs.pending > 0)).nonzero()[0]
    job = np.concatenate((running, waiting))
    runs = np.arange(len(job)) < len(running)
    leaf = jobs.queue_of_job.take(job)
    amounts = _amounts(session, job, runs)
    large = np.logical_or.reduce(amounts > bound.take(leaf, axis=1), axis=0).nonzero()[0]
    begun = int(np.searchsorted(large, len(running)))
    runs_whole = np.searchsorted(running, jobs_by_age(session, running[large[:begun]]))
    waits = large[begun:]
    return [
        Indivisible(each, queue, _some(column), _start_s(session, each) if is_running else math.nan)
        for chosen in (runs_whole, waits[_first_of_each(session, job[waits], leaf[waits])])
        for each, queue, column, is_running in zip(
            job[chosen].tolist(),
            leaf[chosen].tolist(),
            amounts[:, chosen].T.tolist(),
            runs[chosen].tolist(),
            strict=True,
        )
    ]


def _some(column: list[int]) -> dict[int, int]:
    """Return the amounts above 0, by resource."""
    return {row: amount for row, amount in enumerate(column) if amount and row != PODS}


def _start_s(session: Session, job: int) -> float:
    """Return when a job started; an unknown start counts as long ago."""
    start_s = float(session.jobs.last_start_s[job])
    return -math.inf if math.isnan(start_s) else start_s


def _first_of_each(session: Session, job: RowVec, leaf: RowVec) -> list[int]:
    """Return the places of the first job of each leaf, by priority, age and name."""
    jobs = session.jobs
    columns = (leaf.tolist(), (-jobs.priority[job]).tolist(), jobs.created_s[job].tolist())
    first: dict[int, tuple[int, float, str, int]] = {}
    for at, (queue, priority, created_s, row) in enumerate(
        zip(*columns, job.tolist(), strict=True)
    ):
        key = (priority, created_s, jobs.name[row], at)
        if queue not in first or key < first[queue]:
            first[queue] = key
    return [at for *_, at in first.values()]


def _amounts(session: Session, job: RowVec, runs: BoolVec) -> Amounts:
    """Return ``(R, K)`` what the core of each job holds, or what its next batch asks for."""
    jobs = session.jobs
    shape = jobs.shape_of_job.take(job)
    is_odd = (jobs.podset_count.take(job) != 1) | (shape < 0)
    if (by_card := session.shapes.by_card) is not None:
        is_odd |= by_card.memory_mib.take(shape) > 0  # what pods hold depends on their nodes
    odd = is_odd.nonzero()[0].tolist()
    amounts: Amounts = session.shapes.charge.take(shape, axis=1) * _sizes(session, job, runs)
    for at in odd:
        amounts[:, at] = _whole(session, int(job[at]), is_running=bool(runs[at]))
    return amounts


def _sizes(session: Session, job: RowVec, runs: BoolVec) -> IntVec:
    """Return the pods of each job's core, or of its next batch; jobs of one pod set."""
    podsets, first = session.podsets, session.jobs.first_podset.take(job)
    minimum, active = podsets.minimum.take(first), podsets.active.take(first)
    missing = np.maximum(minimum - active, 1)
    asked = np.where(podsets.pending.take(first) >= missing, missing, 0)
    return np.where(runs, np.minimum(minimum, active), asked)


def _whole(session: Session, job: int, *, is_running: bool) -> Amounts:
    """Return what a job of several pod sets or shapes needs; running or waiting pods of it."""
    tasks, podsets = session.tasks, session.podsets
    rows = ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64))
    state, podset = tasks.state[rows], tasks.podset_of_task[rows]
    counts = ACTIVE_STATES[state] if is_running else state == _PENDING
    chosen: list[int] = []
    for each in np.unique(podset).tolist():
        missing = int(podsets.minimum[each])
        if not is_running:
            missing -= int(podsets.active[each])
        chosen.extend(rows[counts & (podset == each)][: max(missing, 0)].tolist())
    amounts: Amounts = charges(session, chosen).sum(axis=1)
    return amounts


# Gives time slices in one sibling group: rules R26 to R31 of docs/explanation/fairness.md.
#
# An *indivisible job* is one whose core is more than its queue's part of the surplus. It runs whole
# or not at all, so its queue has the surplus for time slices, in turn with its siblings. (This is
# not the time-slicing of one GPU by several pods.) A group has few such jobs: plain numbers will
# do.


Need = dict[int, int]
"""Resource to the surplus that an indivisible job takes."""


@dataclass(slots=True)
class Side:
    """One queue in the contest for one resource. Amounts in base units."""

    weight: float
    """Normalised to 1 over the contest."""
    tag: float
    """Usage beyond the quota, as a part of the cluster, divided by the weight."""
    has: int
    """The queue's deserved part."""
    wants: int
    """What the queue would take of the surplus."""
    held: int
    is_waiting: bool
    owed: float = 0.0
    """The unused rest of the queue's budget, as a part of the cluster over the period."""
    ahead: int = 0
    """What the queue gets before the weights count."""

    @property
    def excess(self) -> int:
        """Return what the queue holds of the surplus, within its limit."""
        return min(self.held - self.has, self.wants)


@dataclass(slots=True)
class Contest:
    """One resource that the siblings share."""

    surplus: int
    margin: float
    """How far apart two tags must be for the surplus to change hands."""
    sides: dict[int, Side] = field(default_factory=dict)
    """By queue."""

    @property
    def left(self) -> int:
        """Return the surplus that no indivisible job has been given."""
        return self.surplus - sum(side.ahead for side in self.sides.values())

    def others(self, queue: int, need: int) -> Iterator[tuple[int, Side, float]]:
        """Yield the queues that would get less than they want beside a job, and how much."""
        rest = self.left - need
        own = self.sides[queue].weight
        for row, side in self.sides.items():
            if row != queue:
                part = rest * side.weight / (1.0 - own)
                if side.wants - side.ahead > part:
                    yield row, side, part


@dataclass(slots=True)
class Group:
    """Siblings of one priority, and the indivisible jobs of their subtrees."""

    contests: dict[int, Contest]
    """By resource."""
    indivisible_jobs: list[tuple[int, Indivisible]]
    """Each job with its sibling. Of a queue's waiting jobs the best is first, of its running jobs
    the oldest."""
    now_s: float
    slice_s: float
    """The shortest time slice of a queue of average weight."""
    is_by_budget: bool
    """Time slices end with the budget (R31), not when another queue has used so much less."""
    held: Callable[[int, int], int]
    """Return what a queue holds of a resource."""
    covers: Callable[[int, int, int], bool]
    """Tell whether a queue's quota of a resource covers an amount beside what it holds."""
    is_passed_over: Callable[[int], bool]
    """Tell whether a queue could have taken free surplus and did not."""
    awaited: frozenset[int] = frozenset()
    """Waiting jobs that may have the surplus at the level above, but whose time slice there is yet
    to come."""
    deferred: list[tuple[float, int]] = field(default_factory=list)
    """Tag and queue of the waiting queues that go first."""
    granted: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """Waiting jobs with a time slice, each with its sibling and what the sibling was given."""
    saving: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """The same of jobs that need more than the surplus here: their queue leaves it to others until
    their time slice at the level above has come."""
    postponed: set[int] = field(default_factory=set)
    """Waiting jobs whose time slice is yet to come."""
    young: set[int] = field(default_factory=set)
    """Running indivisible jobs that go on because their time slice is young."""
    ended: set[int] = field(default_factory=set)
    """Running indivisible jobs whose time slice has ended."""


def share_out(group: Group) -> None:
    """Give indivisible jobs the surplus they need: first running jobs, then waiting ones."""
    for queue, indivisible_job, need in sorted(
        _running(group), key=lambda entry: _keep_order(group, entry)
    ):
        more = _still_held(group, queue, need)
        if not (_fits(group, more) and _is_kept(group, queue, indivisible_job, need, more)):
            group.ended.add(indivisible_job.job)
            continue
        _give(group, queue, more)
        if not group.is_by_budget and _is_young(group, queue, indivisible_job, need):
            group.young.add(indivisible_job.job)
    for queue, indivisible_job, need in sorted(
        _waiting(group), key=lambda entry: _claim_order(group, entry)
    ):
        more = _to_be_given(group, queue, indivisible_job, need)
        if _fits(group, more) and _is_due(group, queue, need, more):
            _give(group, queue, more)
            is_saving = indivisible_job.job in group.awaited
            (group.saving if is_saving else group.granted).append((queue, indivisible_job, more))
        else:
            group.postponed.add(indivisible_job.job)


def has_way_free(group: Group) -> int | None:
    """Return the queue for which indivisible jobs were left without the surplus, or None.

    Of several queues it is the one with the least usage: only that one may take.
    """
    is_given = any(
        side.ahead for contest in group.contests.values() for side in contest.sides.values()
    )
    return None if is_given or not group.deferred else min(group.deferred)[1]


# -- keeping -------------------------------------------------------------------------------------


def _running(group: Group) -> Iterator[tuple[int, Indivisible, Need]]:
    for queue, indivisible_job in group.indivisible_jobs:
        if indivisible_job.is_running:
            need = {}
            for resource, amount in indivisible_job.amounts.items():
                contest = group.contests.get(resource)
                side = contest.sides.get(queue) if contest is not None else None
                if side is not None and side.excess > 0:
                    need[resource] = min(amount, side.excess)
            if _is_indivisible_in(group, queue, need):
                yield queue, indivisible_job, need


def _still_held(group: Group, queue: int, need: Need) -> Need:
    """Return what a running indivisible job takes beside its queue's jobs that were given some.

    The deserved part covers these jobs together, not each of them.
    """
    sides = {resource: group.contests[resource].sides[queue] for resource in need}
    return {
        resource: min(amount, sides[resource].excess - sides[resource].ahead)
        for resource, amount in need.items()
    }


def _is_kept(
    group: Group, queue: int, indivisible_job: Indivisible, need: Need, more: Need
) -> bool:
    """Tell whether a time slice goes on: it is young, or no waiting queue has used so much less."""
    if not group.is_by_budget and _is_young(group, queue, indivisible_job, need):
        return True
    for resource in _indivisible_in(group, queue, need):
        contest = group.contests[resource]
        own = contest.sides[queue]
        for row, side, _ in contest.others(queue, more[resource]):
            ends = side.is_waiting and _has_used_less(group, contest, side, own)
            if ends and not group.is_passed_over(row):
                group.deferred.append((side.tag, row))
                return False
    return True


def _has_used_less(group: Group, contest: Contest, side: Side, than: Side) -> bool:
    """Tell whether a queue has used so much less than another that it may take over."""
    if group.is_by_budget:
        return side.owed > 0 >= than.owed
    return side.tag + contest.margin <= than.tag


def _is_young(group: Group, queue: int, indivisible_job: Indivisible, need: Need) -> bool:
    weight = max(
        group.contests[resource].sides[queue].weight * len(group.contests[resource].sides)
        for resource in _indivisible_in(group, queue, need)
    )
    return group.now_s - indivisible_job.start_s < group.slice_s * weight


def _keep_order(group: Group, entry: tuple[int, Indivisible, Need]) -> tuple[object, ...]:
    queue, indivisible_job, need = entry
    is_old = not _is_young(group, queue, indivisible_job, need)
    return is_old, _tag(group, queue, need), indivisible_job.start_s, queue


# -- claiming ------------------------------------------------------------------------------------


def _waiting(group: Group) -> Iterator[tuple[int, Indivisible, Need]]:
    seen = set()
    for queue, indivisible_job in group.indivisible_jobs:
        if not indivisible_job.is_running and queue not in seen:
            need = _asked(group, queue, indivisible_job)
            if need is not None and _is_indivisible_in(group, queue, need):
                seen.add(queue)
                yield queue, indivisible_job, need


def _asked(group: Group, queue: int, indivisible_job: Indivisible) -> Need | None:
    """Return what a waiting indivisible job takes of the surplus; None if that is not available.

    This is in addition to what its leaf queue holds: other jobs of it may have used up the deserved
    part. Other queues below the same sibling make way.
    """
    need = {}
    for resource, amount in indivisible_job.amounts.items():
        contest = group.contests.get(resource)
        side = contest.sides.get(queue) if contest is not None else None
        if contest is None or side is None:
            # All that is asked for is deserved, or there is nothing to be had.
            if not group.covers(queue, resource, amount):
                return None
            continue
        short = group.held(indivisible_job.leaf, resource) + amount - side.has
        is_awaited = indivisible_job.job in group.awaited
        if short > side.wants or (short > contest.surplus and not is_awaited):
            return None
        if short > 0:
            need[resource] = min(amount, short)
    return need


def _to_be_given(group: Group, queue: int, indivisible_job: Indivisible, need: Need) -> Need:
    """Return what a queue must be given for a waiting job, less what its running ones were given.

    All that it holds of the surplus counts, so that its other jobs do not use up what is given.
    """
    more = {}
    for resource in need:
        contest = group.contests[resource]
        side = contest.sides[queue]
        held = group.held(indivisible_job.leaf, resource)
        more[resource] = held + indivisible_job.amounts[resource] - side.has - side.ahead
        if indivisible_job.job in group.awaited:
            more[resource] = min(more[resource], contest.left)
    return more


def _is_due(group: Group, queue: int, need: Need, more: Need) -> bool:
    """Tell whether all queues that would lose have used so much more, and no waiting queue less."""
    for resource in _indivisible_in(group, queue, need):
        contest = group.contests[resource]
        own = contest.sides[queue]
        if group.is_by_budget and own.owed <= 0:
            return False
        for row, side, part in contest.others(queue, more[resource]):
            if side.held - side.has - side.ahead > part:
                if not _has_used_less(group, contest, own, side):
                    return False
            elif _is_before(group, row, side, (own.tag, queue)):
                group.deferred.append((side.tag, row))
                return False
    return True


def _is_before(group: Group, row: int, side: Side, own: tuple[float, int]) -> bool:
    """Tell whether a queue that holds next to nothing goes first."""
    if not side.is_waiting or (group.is_by_budget and side.owed <= 0):
        return False
    return (side.tag, row) < own and not group.is_passed_over(row)


def _claim_order(group: Group, entry: tuple[int, Indivisible, Need]) -> tuple[object, ...]:
    queue, _, need = entry
    return _tag(group, queue, need), queue


# -- both ----------------------------------------------------------------------------------------


def _indivisible_in(group: Group, queue: int, need: Need) -> list[int]:
    """Return the resources of which a job takes more than its queue's part by weight."""
    return [
        resource
        for resource, amount in need.items()
        if amount > group.contests[resource].surplus * group.contests[resource].sides[queue].weight
    ]


def _is_indivisible_in(group: Group, queue: int, need: Need) -> bool:
    return bool(_indivisible_in(group, queue, need))


def _tag(group: Group, queue: int, need: Need) -> float:
    return max(
        group.contests[resource].sides[queue].tag
        for resource in _indivisible_in(group, queue, need)
    )


def _fits(group: Group, need: Need) -> bool:
    return all(amount <= group.contests[resource].left for resource, amount in need.items())


def _give(group: Group, queue: int, need: Need) -> None:
    for resource, amount in need.items():
        group.contests[resource].sides[queue].ahead += amount


def members(indivisible_jobs: Iterable[Indivisible], start: int, end: int) -> list[Indivisible]:
    """Return the indivisible jobs of the leaf queues from ``start`` up to ``end``: a subtree."""
    return [
        indivisible_job
        for indivisible_job in indivisible_jobs
        if start <= indivisible_job.leaf < end
    ]


# Handover of the surplus between indivisible jobs: builds the groups for the rules of slices.
#
# Slices themselves are not remembered: starts of jobs are in the snapshot, and usage is in the
# history. Only queues and jobs that could have taken the surplus, and did not, are remembered.


SLICES_OF_HISTORY = 16
"""An average queue's shortest time slice at k = 1 is the length of the history divided by this."""
_OTHERS_SLICE = np.int16(refusals.OTHERS_SLICE)
_PAUSE = 10
"""Who did not take what was free is passed over for so many time slices."""

Facts = dict[str, list[float]]
"""Name of a queue or waiting job to since when its way is free, and what it held then."""


@dataclass(slots=True)
class Handover:
    """The time slices of indivisible jobs in one cycle."""

    indivisible_jobs: list[Indivisible]
    excess: FloatVec
    """``(R, Q)`` usage beyond the quota, as a part of the cluster."""
    k: float
    slice_s: float
    seen: float
    """The part of the budget period that usage covers; NaN where slices do not follow budgets."""
    left: float
    """The part of the budget period that is to come; NaN likewise."""
    before: Facts
    granted: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """Waiting indivisible jobs whose time slice it is, with the queue that was given something for
    it, and what."""
    saving: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """The same of jobs whose time slice has come among their siblings, but not further up."""
    awaited: set[int] = field(default_factory=set)
    """Waiting jobs whose time slice is yet to come at some level."""
    young: set[int] = field(default_factory=set)
    """Running indivisible jobs whose shortest slice is not over, at some level."""
    ended: set[int] = field(default_factory=set)
    """Running indivisible jobs whose slice has ended, at some level."""
    deferred: set[int] = field(default_factory=set)
    behind: dict[int, set[int]] = field(default_factory=dict)
    """Resource to the queues that share it with a waiting indivisible job whose slice it is."""

    @property
    def keeps_room(self) -> bool:
        """Tell whether surplus is kept for a waiting indivisible job."""
        return bool(self.granted or self.saving)

    @property
    def has_waiting(self) -> bool:
        """Tell whether any indivisible job waits."""
        return any(not indivisible_job.is_running for indivisible_job in self.indivisible_jobs)

    def head_start(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        weights: FloatVec,
        has: IntVec,
        wants: IntVec,
        surplus: IntVec,
    ) -> IntVec | None:
        """Return the head starts of the queues whose time slice it is."""
        tree = session.queues.tree
        parents = tree.parent_of_queue[queue].tolist()
        leaves = {indivisible_job.leaf for indivisible_job in self.indivisible_jobs}
        above = {-1} | {row for leaf in leaves for row in tree.path(leaf)[1:].tolist()}
        columns = [each.tolist() for each in (resource, queue, weights, has, wants, surplus)]
        used = [each[resource, queue].tolist() for each in (self.excess, session.held)]
        columns += [*used, session.requested[resource, queue].tolist()]
        rows = list(zip(*columns, strict=True))
        answer = None
        for each in sorted(above.intersection(parents)):
            at = [place for place, parent in enumerate(parents) if parent == each]
            group = self._group(session, [rows[place] for place in at])
            if group is None:
                continue
            share_out(group)
            self._note(group)
            answer = [0] * len(rows) if answer is None else answer
            for place in at:
                side = group.contests[rows[place][0]].sides[rows[place][1]]
                answer[place] = side.ahead
        return None if answer is None else np.array(answer, np.int64)

    def _note(self, group: Group) -> None:
        self.young |= group.young
        self.ended |= group.ended
        first = has_way_free(group)
        if first is not None:
            self.deferred.add(first)
        self.granted += group.granted
        self.saving += group.saving
        self.awaited |= group.postponed
        for queue, _, given in group.granted + group.saving:
            for row in given:
                siblings = group.contests[row].sides.keys() - {queue}
                self.behind.setdefault(row, set()).update(siblings)

    def gate(
        self, session: Session, queue: RowVec, job: RowVec, ask: Amounts, held: Amounts
    ) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for jobs that want more than their queue has left.

        Otherwise free room would go to other jobs before the indivisible job has all it needs.
        Promised room is not taken back.
        """
        over = np.zeros(len(queue), np.bool_)
        for row, behind in self.behind.items():
            share = session.fair_share[row].take(queue)
            is_behind = np.isin(queue, np.array(sorted(behind), np.int64))
            over |= is_behind & (ask[row] > 0) & (held[row] + ask[row] > share)
        for at in np.flatnonzero(over).tolist():
            tasks = list(session.jobs.tasks[int(job[at])])
            over[at] = not (session.tasks.nominated_node[tasks] >= 0).any()
        return over * _OTHERS_SLICE if over.any() else None

    def claim(self, session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for claims on the surplus of an indivisible job (R30).

        Otherwise its queue would take it from other queues bit by bit, only to give it back.
        """
        ends, leaf = session.queues.tree.end_of_queue, session.jobs.queue_of_job.take(job)
        held = session.held_now
        over = np.zeros(len(job), np.bool_)
        for queue, indivisible_job, given in self.granted + self.saving:
            if not self._still_waits(session, indivisible_job):
                continue
            is_other = (leaf >= queue) & (leaf < ends[queue])
            asks = [ask[row] >= amount for row, amount in indivisible_job.amounts.items()]
            is_other &= ~((leaf == indivisible_job.leaf) & np.logical_and.reduce(asks))
            for row, amount in given.items():
                most = session.fair_share[row, queue] - amount
                over |= is_other & (ask[row] > 0) & (held[row, queue] + ask[row] > most)
        return over * _OTHERS_SLICE if over.any() else None

    def spare(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for indivisible jobs whose time slice is young (R27).

        Their queue may have to give up another job, which has run for longer: victims go youngest
        first. A claim within the queue's quota is not stopped.
        """
        young = self.young - self.ended
        if not young:
            return None
        after = session.held[:, claim.queue] + claim.ask
        if not ((claim.ask > 0) & (after > session.queues.deserved[:, claim.queue])).any():
            return None
        return np.isin(job, list(young)) * _OTHERS_SLICE

    def _group(self, session: Session, rows: list[tuple[Any, ...]]) -> Group | None:
        """Return the siblings of some rows with the indivisible jobs below them, or None.

        A row is a resource, a queue, and the queue's numbers: weight; what it has, wants and may
        share; usage; what it holds, without and with what it asks for.
        """
        ends = session.queues.tree.end_of_queue
        indivisible_jobs = [
            (queue, indivisible_job)
            for queue in sorted({row[1] for row in rows})
            for indivisible_job in self._by_use(
                session, members(self.indivisible_jobs, queue, int(ends[queue]))
            )
        ]
        if not indivisible_jobs:
            return None
        contests: dict[int, Contest] = {}
        total, held = session.total, session.held
        for resource, queue, weight, has, wants, surplus, used, held_now, asks in rows:
            contest = contests.setdefault(resource, Contest(surplus, 0.0))
            contest.sides[queue] = Side(
                weight, used / weight, has, wants, held_now, asks > held_now
            )
        for resource, contest in contests.items():
            part = contest.surplus / max(int(total[resource]), 1)
            contest.margin = part * len(contest.sides) / (2 * SLICES_OF_HISTORY * self.k)
            if not math.isnan(self.seen):
                self._set_owed(session, resource, contest, part)

        def holds(queue: int, resource: int) -> int:
            return int(held[resource, queue])

        def covers(queue: int, resource: int, amount: int) -> bool:
            quota = int(session.queues.deserved[resource, queue])
            return int(held[resource, queue]) + amount <= quota

        def is_passed_over(queue: int) -> bool:
            return self._is_passed_over(session, f"queue/{session.queues.name[queue]}")

        return Group(
            contests,
            indivisible_jobs,
            session.now_s,
            self.slice_s,
            not math.isnan(self.seen),
            holds,
            covers,
            is_passed_over,
            frozenset(self.awaited),
        )

    def _set_owed(self, session: Session, resource: int, contest: Contest, part: float) -> None:
        """Set what is left of each budget, cut to what the hours to come allow (R31)."""
        budgets = {queue: _weight_part(session, resource, queue) * part for queue in contest.sides}
        unused = {
            queue: budget - float(self.excess[resource, queue]) * self.seen
            for queue, budget in budgets.items()
        }
        cut = cut_of([(budgets[queue], unused[queue]) for queue in budgets], self.left * part)
        for queue, side in contest.sides.items():
            side.owed = unused[queue] - cut * budgets[queue]

    def _by_use(self, session: Session, indivisible_jobs: list[Indivisible]) -> list[Indivisible]:
        """Return the indivisible jobs of one sibling; its leaf queue with the least usage first."""
        known: dict[tuple[int, ...], float] = {}

        def use(indivisible_job: Indivisible) -> tuple[float, int]:
            key = (indivisible_job.leaf, *indivisible_job.amounts)
            used = known.get(key)
            if used is None:
                weight = session.queues.weight[:, indivisible_job.leaf]
                used = known[key] = max(
                    float(self.excess[row, indivisible_job.leaf]) / max(float(weight[row]), 1e-9)
                    for row in indivisible_job.amounts
                )
            return used, indivisible_job.leaf

        usable = [
            indivisible_job
            for indivisible_job in indivisible_jobs
            if indivisible_job.is_running
            or not self._is_passed_over(session, self._name(session, indivisible_job))
        ]
        return sorted(usable, key=use)

    # -- what is remembered ----------------------------------------------------------------------

    def _is_passed_over(self, session: Session, name: str) -> bool:
        entry = self.before.get(name)
        return entry is not None and session.now_s - entry[0] >= self.slice_s

    @staticmethod
    def _still_waits(session: Session, indivisible_job: Indivisible) -> bool:
        """Tell whether an indivisible job has no place after this cycle."""
        return session.pending_count(indivisible_job.job) == int(
            session.jobs.pending[indivisible_job.job]
        )

    @staticmethod
    def _name(session: Session, it: Indivisible) -> str:
        return f"job/{session.jobs.name[it.job]}"

    def facts(self, session: Session) -> Facts:
        """Return the queues and jobs that may take free surplus and have not, and since when."""
        now_s = session.now_s
        waits = {
            self._name(session, indivisible_job): 0.0
            for _, indivisible_job, _ in self.granted
            if self._still_waits(session, indivisible_job)
        }
        waits |= {
            f"queue/{session.queues.name[queue]}": float(session.held[:, queue].sum())
            for queue in self.deferred
        }
        facts = {
            name: entry
            for name, entry in self.before.items()
            if self.slice_s <= now_s - entry[0] < (1 + _PAUSE) * self.slice_s
        }
        for name, held in sorted(waits.items()):
            entry = self.before.get(name, [now_s, held])
            if name not in facts:
                facts[name] = entry if entry[1] == held else [now_s, held]
        return facts


def _weight_part(session: Session, resource: int, queue: int) -> float:
    """Return a queue's part by weight among all siblings of its priority, busy or not."""
    queues = session.queues
    tree, weights = queues.tree, queues.weight[resource]
    is_sibling = tree.parent_of_queue == tree.parent_of_queue[queue]
    is_sibling &= queues.priority == queues.priority[queue]
    together = np.maximum(weights[is_sibling], 0.0).cumsum()[-1]  # one by one, in row order
    return float(weights[queue] / together)


def cut_of(budgets: list[tuple[float, float]], left: float) -> float:
    """Return the part that every budget loses, so that what is unused of them fits into ``left``.

    ``budgets`` are pairs of a budget and its unused part. A budget of which a smaller part is
    unused loses just that.
    """
    by_part = sorted(((unused / whole, whole, unused) for whole, unused in budgets if whole > 0))
    cut = together = wanted = 0.0
    for part, whole, unused in reversed(by_part):
        if part <= cut:
            break
        together, wanted = together + whole, wanted + unused
        cut = max((wanted - left) / together, 0.0)
    return cut


def handover_of(
    session: Session,
    indivisible_jobs: list[Indivisible],
    quota: FloatVec,
    *,
    k: float,
    history_s: float,
    seen: float,
    left: float,
    before: Facts,
) -> Handover:
    """Return the handover of a cycle, at the first question about head starts.

    Args:
        session: running and waiting jobs, and usage.
        indivisible_jobs: the indivisible jobs of this cycle.
        quota: ``(R, Q)`` parts per billion of the cluster.
        k: how strongly usage counts, above 0.
        history_s: the length of the history.
        seen: the part of the budget period that usage covers, NaN without budgets.
        left: the part of the budget period that is to come, NaN likewise.
        before: what was remembered.

    """
    parts = np.zeros(quota.shape) if session.usage is None else session.usage.parts
    excess = np.maximum(parts - quota, 0.0) / PARTS
    slice_s = history_s / (SLICES_OF_HISTORY * k)
    return Handover(indivisible_jobs, excess, k, slice_s, seen, left, before)
