"""Gives time slices in one sibling group: rules R26 to R31 of docs/explanation/fairness.md.

An *indivisible job* is one whose core is more than its queue's part of the surplus. It runs whole
or not at all, so its queue has the surplus for time slices, in turn with its siblings. (This is not
the time-slicing of one GPU by several pods.) A group has few such jobs: plain numbers will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kaisched_plugins.time_based_fairshare.indivisible import Indivisible

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
