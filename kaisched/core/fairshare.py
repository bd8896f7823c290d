"""Fair division of the queue tree: each queue's share is what its children divide (R10).

Top-down, one depth at a time, all sibling groups and resources of a depth at once. Every
(resource, sibling group) is one contest over one amount: deserved parts come first; the surplus
goes by priority and, within a priority, in rounds of water filling by weight, in whole units. The
rules are numbered R1 to R12 in docs/explanation/fairness.md, with the places where they differ from
KAI-Scheduler on purpose; tests/oracles holds the same rules as a plain loop, bit for bit.

The result is the same on every machine: amounts are whole numbers below 2**50, exact in float64;
float sums run in row order, by ``bincount``, which adds one by one; the only sort is of unique
integer keys. What depends on the queues alone, and not on amounts, is prepared by
:func:`plan_levels` and can be kept for as long as they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kaisched.core.tree import NO_QUEUE, QueueTree
from kaisched.units import UNLIMITED

Int64 = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Level:
    """The sibling groups of one depth, for all resources, in canonical order.

    `k` queues in `g` groups, for `r` resources; a row is one of `r * k` (resource, queue) pairs,
    resource by resource.

    Attributes:
        queue: `(k,)` queue indices, the groups one after the other, by rank inside.
        group: `(k,)` ascending number of the group, 0 to g - 1.
        start: `(g,)` where each group starts.
        last: `(g,)` where each group has its last queue.
        resource_of_row: `(r * k,)`.
        queue_of_row: `(r * k,)`.
        contest_of_row: `(r * k,)` ascending number of (resource, group), 0 to r * g - 1.
        tiers: ascending rows of each priority, counted inside the groups, highest first;
            None stands for all rows.

    """

    queue: Index
    group: Index
    start: Index
    last: Index
    resource_of_row: Index
    queue_of_row: Index
    contest_of_row: Index
    tiers: tuple[Index | None, ...]

    def pick(self, columns: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return the level's columns `(r, k)` of `(R, Q)`, as a copy."""
        return columns.take(self.queue, axis=1)

    def put(self, columns: Int64, values: Int64) -> None:
        """Set the level's columns of `(R, Q)` to `(r, k)` values."""
        # Row by row: a third of the time of one assignment to all.
        for row, new in zip(columns, values, strict=True):
            row[self.queue] = new

    def sums(self, values: Int64) -> Int64:
        """Return the sums `(r, g)` of `(r, k)` values over each group."""
        if len(self.start) == 1:
            return np.add.reduce(values, axis=1, keepdims=True)
        # Differences of running sums: a quarter of the time of `reduceat` where groups are small.
        sums = values.cumsum(axis=1).take(self.last, axis=1)
        sums[:, 1:] -= sums[:, :-1].copy()
        return sums


def plan_level(
    queue: Index, group: Index, priority: Int64, rank: Int64, *, resources: int
) -> Level:
    """Put the queues of one level in canonical order.

    Args:
        queue: `(K,)` queue indices.
        group: `(K,)` sibling group, numbered 0 to G - 1 without gaps.
        priority: `(K,)` higher goes first in the surplus.
        rank: `(K,)` unique inside a group, lower wins ties.
        resources: R.

    """
    order = np.lexsort((rank, group))
    queue, group, priority = queue[order], group[order], priority[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    tier = _tier_of(group, priority)
    count = int(tier.max(initial=-1)) + 1
    resource = np.arange(resources)[:, None]
    shape = (resources, len(queue))
    return Level(
        queue=queue,
        group=group,
        start=start,
        last=np.append(start[1:], len(queue)) - 1,
        resource_of_row=np.broadcast_to(resource, shape).ravel(),
        queue_of_row=np.broadcast_to(queue, shape).ravel(),
        contest_of_row=(resource * len(start) + group).ravel(),
        tiers=tuple(
            (resource * len(queue) + np.flatnonzero(tier == t)).ravel() for t in range(count)
        )
        if count > 1
        else (None,) * count,
    )


def _tier_of(group: Index, priority: Int64) -> Index:
    """Rank the distinct priorities of each group, highest first."""
    order = np.lexsort((-priority, group))
    new_group = np.diff(group[order], prepend=-1) != 0
    lower = np.diff(priority[order], prepend=0) != 0
    step = np.cumsum(lower & ~new_group)
    first = np.maximum.accumulate(np.where(new_group, step, 0))
    tier = np.empty(len(group), dtype=np.intp)
    tier[order] = step - first
    return tier


# -- rounds ----------------------------------------------------------------------------------------

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# Fractions of a unit are compared in steps of 2**-20: far finer than any policy, far coarser
# than float noise, so that equal fractions are a tie, which the older queue wins (R8).
FRACTION_BITS = 20
_STEPS = 1 << FRACTION_BITS
_KEY_BITS = 63
_NOTHING = np.zeros(0)


WeightTransform: TypeAlias = Callable[[Index, Index, Index, Bool, Float64], Float64]
"""Turns over-quota weights into those that count in this round (R5).

Asked for ``K`` rows, each one queue in the contest for one resource: resource and queue ``(K,)``;
the number of its group, of which the rows share one surplus; whether the queue still wants more,
which is True for all that are asked about; and the weights, normalised to 1 over each group.
Answers are finite; only ratios inside a group matter, and below 0 counts as 0.
"""


class Contest(NamedTuple):
    """The rows of all contests, sorted by contest, then rank; `M` rows.

    `remaining` and `need` are lowered in place as the rounds go.
    """

    contest: Index  # (M,) what the row draws from
    weight: Float64  # (M,) above 0
    unit: Float64  # (M,) granularity of the amounts, or (1,) if it is the same for all
    need: Float64  # (M,) what the queue may still take
    remaining: Float64  # one per contest
    asked: Asked | None


class Asked(NamedTuple):
    """A weight transform, and its arguments about each row."""

    transform: WeightTransform
    resource: Index
    queue: Index
    has_one_resource: bool


def water_fill(filling: Contest) -> None:
    """Fill what remains of each contest into its rows, until it or their need is 0."""
    contest, need, remaining = filling.contest, filling.need, filling.remaining
    rows = np.arange(len(contest))
    while len(rows):
        own, wants = _contest_of(filling, rows), _of(need, rows)
        wanted = _sums(own, wants, len(remaining))
        enough = wanted <= remaining
        # If there is enough for all queues, rounds would give the same result (R9).
        sated = enough.take(own)
        if np.count_nonzero(sated):
            remaining -= np.where(enough, wanted, 0.0)
            need[rows.take(sated.nonzero()[0])] = 0.0
            rows = rows.take((~sated).nonzero()[0])
            if not len(rows):
                return
        rows, missed = _rounds(filling, rows)
        if len(rows):
            _close(filling, rows, missed)
        # Something is left only if the winner of the last unit needed less than one (R8).
        rows = ((need > 0) & (remaining > 0).take(contest)).nonzero()[0]


def _rounds(filling: Contest, rows: Index) -> tuple[Index, Float64]:
    """Run rounds, each in every contest that is still open (R6).

    Return the rows that still want something after rounding down, and the fraction of a unit
    that each has missed.
    """
    remaining, count = filling.remaining, len(filling.remaining)
    closing: list[Index] = []
    missed: list[Float64] = []
    while len(rows):
        contest, need, unit = _contest_of(filling, rows), _of(filling.need, rows), filling.unit
        if len(unit) > 1:
            unit = unit.take(rows)
        share, total = _shares(filling, rows, contest)
        ideal = share * _spread(remaining, contest)
        ideal /= _spread(total, contest)
        is_full = need <= ideal
        if len(unit) == 1 and unit[0] == 1:  # no division and multiplication by one
            units, whole = ideal, np.floor(ideal)
            give = np.minimum(need, whole)  # the same, since needs are whole numbers
        else:
            units = ideal / unit
            whole = np.floor(units)
            give = whole * unit
            np.putmask(give, is_full, need)
        is_short = need < ideal
        if need is filling.need:
            need -= give
        else:
            filling.need[rows] = need - give
        remaining -= _sums(contest, give, count)
        # A queue that needed less than its part makes another round worth while.
        again = np.zeros(count, dtype=np.bool_)
        again[contest.take(is_short.nonzero()[0])] = True
        plays = _spread(again, contest)
        is_open = _spread(remaining > 0, contest) > is_full
        last = ((is_open > plays) & (share > 0)).nonzero()[0]
        if len(last):
            closing.append(rows.take(last))
            missed.append(units.take(last) - whole.take(last))
        rows = rows.take((is_open & plays).nonzero()[0])  # half the time of rows[...]
    if len(closing) == 1:
        return closing[0], missed[0]
    return np.concatenate([rows, *closing]), np.concatenate([_NOTHING, *missed])


def _of(column: npt.NDArray[Any], rows: Index) -> npt.NDArray[Any]:
    """Return the column at these rows; for all rows the column itself, which must not change."""
    return column if len(rows) == len(column) else column.take(rows)


def _contest_of(filling: Contest, rows: Index) -> Index:
    """Return the contest of these rows; for a single contest the first rows serve as well."""
    return (
        filling.contest[: len(rows)] if len(filling.remaining) == 1 else _of(filling.contest, rows)
    )


def _spread(values: npt.NDArray[Any], contest: Index) -> npt.NDArray[Any]:
    """Return the value of each row's contest; for a single contest its value, to be broadcast."""
    return values if len(values) == 1 else values.take(contest)


def _sums(contest: Index, values: Float64, count: int) -> Float64:
    """Add up per contest, one by one in row order: the same bits on every machine."""
    return np.asarray(np.bincount(contest, values, count), dtype=np.float64)


def _shares(filling: Contest, rows: Index, contest: Index) -> tuple[Float64, Float64]:
    """Return each row's share weight (R5) and their sum per contest, in row order."""
    weight, count = _of(filling.weight, rows), len(filling.remaining)
    total = _sums(contest, weight, count)
    if filling.asked is None:
        return weight, total
    transform, resource, queue, has_one_resource = filling.asked
    resource = resource[: len(rows)] if has_one_resource else _of(resource, rows)
    whole = _spread(total, contest)
    normal = weight / whole
    wants = np.ones(len(rows), dtype=np.bool_)
    answer = transform(resource, _of(queue, rows), contest, wants, normal)
    # A weight that the transform leaves unchanged counts exactly as written, not normalised and
    # back: without a policy that changes weights the transform makes no difference at all.
    share = np.maximum(answer, 0.0)
    share *= whole
    is_same = answer == normal
    if np.count_nonzero(is_same):
        np.putmask(share, is_same, weight)
    sums = _sums(contest, share, count)
    if np.count_nonzero(sums < np.inf) < count:
        raise ValueError("the transform of over-quota weights answered no finite numbers")
    if np.count_nonzero(sums) < np.count_nonzero(total):
        # No queue has a weight left: use the plain weights rather than idle resources (R7).
        flat = sums == 0
        np.putmask(share, flat.take(contest), weight)
        np.putmask(sums, flat, total)
    return share, sums


def _close(filling: Contest, rows: Index, missed: Float64) -> None:
    """Hand out the rest of rounding down, one unit each by largest remainder (R8)."""
    count = len(filling.remaining)
    rows = rows.take(_largest_first(filling.contest.take(rows), missed, count))
    contest, need, unit = filling.contest.take(rows), filling.need.take(rows), filling.unit
    most = np.minimum(need, unit if len(unit) == 1 else unit.take(rows))
    before = most.cumsum() - most
    if count > 1:
        total = _sums(contest, most, count)
        before -= (total.cumsum() - total).take(contest)
    give = np.minimum(most, np.maximum(_spread(filling.remaining, contest) - before, 0.0))
    filling.need[rows] = need - give
    np.subtract(filling.remaining, _sums(contest, give, count), out=filling.remaining)


def _largest_first(contest: Index, missed: Float64, contests: int) -> Index:
    """Order rows by contest, then largest fraction, then as given (which is by rank)."""
    steps = _STEPS - np.rint(missed * _STEPS).astype(np.int64)
    row_bits = len(contest).bit_length()
    if contests.bit_length() + FRACTION_BITS + 1 + row_bits > _KEY_BITS:
        return np.lexsort((steps, contest))
    key = (contest << (FRACTION_BITS + 1) | steps) << row_bits
    key |= np.arange(len(contest))
    # The keys are in order by contest already: merging long runs takes a sixth of the time.
    key.sort(kind="stable" if contests > 1 else None)
    return key & ((1 << row_bits) - 1)


# -- one level -------------------------------------------------------------------------------------

# Amounts and their sums are exact in float64 up to here, with room to multiply by a weight.
MOST = 1 << 50


HeadStart: TypeAlias = Callable[[Index, Index, Index, Float64, Int64, Int64, Int64], Int64 | None]
"""Gives queues parts of the surplus before weights divide the rest (R25).

Asked for ``K`` rows, each one queue in the contest for one resource: resource, queue and group
``(K,)``, and weights normalised to 1 over each group; what the queue has already, its deserved
part; what it may still take; and what there is to share in the row's group. Answers are at most
what is wanted, in each group together at most the surplus. None stands for nothing.
"""


class Entitlements(NamedTuple):
    """What the queues are entitled to and ask for; columns of `K` queues.

    Attributes:
        deserved: `(R, K)` int64 quota; UNLIMITED counts as the whole amount.
        limit: `(R, K)` int64; UNLIMITED for none.
        request: `(R, K)` int64, held and pending together.
        weights: `(R, K)` float64 over-quota weights, finite; 0 or less takes no surplus.
        priority: `(K,)` int64, higher goes first in the surplus.
        rank: `(K,)` int64, unique among siblings; lower (older) wins ties.

    """

    deserved: Int64
    limit: Int64
    request: Int64
    weights: Float64
    priority: Int64
    rank: Int64


def divide_level(
    amount: Int64,
    group: Index,
    entitlements: Entitlements,
    unit: Int64,
    transform: WeightTransform | None = None,
) -> tuple[Int64, Int64]:
    """Divide among siblings: deserved first, then the surplus (R1 to R9).

    Args:
        amount: `(R, G)` what each group divides, base units, below 2**50.
        group: `(K,)` sibling group of each queue, 0 to G - 1 without gaps, in any order.
        entitlements: of the `K` queues.
        unit: `(R,)` granularity of the surplus: 1000 for milli-GPU, else 1.
        transform: asked for the weights of each round; None leaves them.

    Returns:
        fair share `(R, K)` in the order of the input, and what is left `(R, G)`.

    Raises:
        ValueError: the transform answered something that is not a finite number.

    """
    share = deserved_share(
        amount[:, group], entitlements.deserved, entitlements.request, entitlements.limit
    )
    spent = np.zeros_like(amount)
    for resource, row in enumerate(share):
        np.add.at(spent[resource], group, row)
    return divide_surplus(
        np.maximum(amount - spent, 0), group, share, entitlements, unit, transform=transform
    )


def divide_surplus(
    surplus: Int64,
    group: Index,
    share: Int64,
    entitlements: Entitlements,
    unit: Int64,
    *,
    transform: WeightTransform | None = None,
) -> tuple[Int64, Int64]:
    """Divide only the surplus, on top of a given fair share (R4 to R9).

    Args as for `divide_level`, with `surplus` `(R, G)` and `share` `(R, K)` what each queue
    has already. Returns the new fair share `(R, K)` and what is left `(R, G)`.
    """
    queue = np.arange(len(group))
    result = share.copy()
    level = plan_level(queue, group, entitlements.priority, entitlements.rank, resources=len(unit))
    have = level.pick(share)
    need = np.minimum(level.pick(entitlements.request), level.pick(entitlements.limit)) - have
    remaining = surplus.astype(np.float64)
    got = share_surplus(
        level, remaining, need, level.pick(entitlements.weights), unit, transform=transform
    )
    if got is not None:
        level.put(result, have + got)
    return result, remaining.astype(np.int64)


def deserved_share(amount: Int64, deserved: Int64, request: Int64, limit: Int64) -> Int64:
    """Return the deserved part: the quota, as far as it is asked for (R1, R2). Elementwise.

    Parts are not scaled down if together they exceed the amount (R3).
    """
    quota = np.where(deserved == UNLIMITED, amount, deserved)
    return np.minimum(quota, np.minimum(request, limit))


def share_surplus(
    level: Level,
    left: Float64,
    need: Int64,
    weights: Float64,
    unit: Int64,
    *,
    transform: WeightTransform | None = None,
    start: HeadStart | None = None,
    has: Int64 | None = None,
) -> Int64 | None:
    """Share what is left of each group's amount, highest priority first (R4).

    Args:
        level: `k` queues in `g` groups, for `r` resources.
        left: `(r, g)` the surplus; lowered in place by what is given.
        need: `(r, k)` in the level's order, what each queue may still take.
        weights: `(r, k)` in the level's order.
        unit: `(R,)` granularity.
        transform: as for `divide_level`.
        start: asked at each priority before its rounds (R25); `need` is then lowered in place.
        has: `(r, k)` in the level's order, what each queue has already; only for `start`.

    Returns:
        `(r, k)` in the level's order, what each queue gets; None if no queue gets anything.

    """
    remaining = left.reshape(-1)
    wants = (need > 0) & (weights > 0)
    has_left = left > 0
    if np.count_nonzero(has_left) < has_left.size:
        wants &= has_left.take(level.group, axis=1)
    result = None
    ahead = np.zeros(need.shape if start is not None else 0, dtype=np.int64)
    for tier in level.tiers:
        rows = wants.ravel().nonzero()[0] if tier is None else tier[wants.take(tier)]
        if not len(rows):
            continue
        if result is None:
            result = np.zeros(need.size, dtype=np.int64)
        if start is not None and has is not None:
            rows = _put_ahead(start, level, rows, (weights, has, need), remaining, ahead)
        wanted = np.minimum(need.take(rows), MOST).astype(np.float64)
        filling = _contest(level, rows, remaining, wanted.copy(), weights, unit, transform)
        water_fill(filling)
        wanted -= filling.need
        result[rows] = wanted.astype(np.int64)
    got = None if result is None else result.reshape(need.shape)
    return got if got is None or start is None else got + ahead


def _contest(
    level: Level,
    rows: Index,
    remaining: Float64,
    need: Float64,
    weights: Float64,
    unit: Int64,
    transform: WeightTransform | None,
) -> Contest:
    """Return the contests of some rows of a level; `need` is by row, the rest by level."""
    units = unit.astype(np.float64)
    is_one = len(units) == 1
    resource = level.resource_of_row[: len(rows)]
    if not is_one:
        resource = level.resource_of_row.take(rows)
        units = units.take(resource)
    asked = None
    if transform is not None:
        asked = Asked(transform, resource, level.queue_of_row.take(rows), is_one)
    return Contest(
        contest=level.contest_of_row.take(rows),
        weight=weights.take(rows),
        unit=units,
        need=need,
        remaining=remaining,
        asked=asked,
    )


def _put_ahead(
    start: HeadStart,
    level: Level,
    rows: Index,
    columns: tuple[Float64, Int64, Int64],
    remaining: Float64,
    ahead: Int64,
) -> Index:
    """Apply the head starts of one priority; return the rows that still want something."""
    weights, has, need = columns
    contest, weight, wants = level.contest_of_row.take(rows), weights.take(rows), need.take(rows)
    together = np.bincount(contest, weight, len(remaining))
    given = start(
        level.resource_of_row.take(rows),
        level.queue_of_row.take(rows),
        contest,
        weight / together.take(contest),
        has.take(rows),
        wants,
        remaining.astype(np.int64).take(contest),
    )
    if given is None:
        return rows
    ahead.put(rows, given)
    need.put(rows, wants - given)
    remaining -= np.bincount(contest, given, len(remaining))
    return rows[(wants > given) & (remaining > 0).take(contest)]


# -- the whole tree --------------------------------------------------------------------------------

WeightMode = Literal["equal", "quota"]


_FEW_ROWS = 1 << 12
_KEPT_BYTES = 1 << 24
"""glibc gives freed memory back to the system beyond twice the largest block that was freed, which
costs a division of 10,000 queues half its time in page faults: a block of this size, never written
to, is freed before it. Above 32 MiB glibc would ignore it."""


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The order in which a tree is divided.

    Attributes:
        levels: those of each depth, roots first.
        parents: per depth the queue `(G,)` whose share each sibling group divides; empty for
            the roots, which divide the total.

    """

    levels: tuple[Level, ...]
    parents: tuple[Index, ...]


def plan_levels(tree: QueueTree, priority: Int64, rank: Int64, resources: int) -> TreePlan:
    """Prepare the division of a tree; valid until a queue, priority or rank changes.

    Args:
        tree: the shape of the queues.
        priority: `(Q,)` int64.
        rank: `(Q,)` int64, unique among siblings; `np.arange(Q)` means oldest first.
        resources: R.

    """
    if len(tree) * resources > _FEW_ROWS:
        np.empty(_KEPT_BYTES, np.int8)
    levels: list[Level] = []
    parents: list[Index] = []
    for queue in tree.levels:
        parent = tree.parent_of_queue[queue].astype(np.intp)
        above, group = np.unique(parent, return_inverse=True)
        levels.append(plan_level(queue, group, priority[queue], rank[queue], resources=resources))
        parents.append(above[above != NO_QUEUE])
    return TreePlan(tuple(levels), tuple(parents))


def fair_share(
    tree: QueueTree,
    total: Int64,
    entitlements: Entitlements,
    unit: Int64,
    transform: WeightTransform | None = None,
    *,
    start: HeadStart | None = None,
    weight_mode: WeightMode = "equal",
    plan: TreePlan | None = None,
) -> Int64:
    """Divide the cluster among the queues.

    Args:
        tree: `Q` queues in preorder.
        total: `(R,)` what there is to divide, base units, below 2**50.
        entitlements: `(R, Q)` columns in preorder; an inner queue's request is rolled up.
        unit: `(R,)` granularity of the surplus: 1000 for milli-GPU, else 1.
        transform: asked for the weights of each round (R5), if any.
        start: asked for the head starts before the weights count (R25), if any.
        weight_mode: "equal" takes the queues' own weights, "quota" those of the quotas (R12).
        plan: of this tree, priority and rank; made when absent.

    Returns:
        `(R, Q)` int64; siblings' shares pass their parent's only where deserved parts do (R3).

    Raises:
        ValueError: the transform answered something that is not a finite number.

    """
    if plan is None:
        plan = plan_levels(tree, entitlements.priority, entitlements.rank, len(total))
    share = np.empty(entitlements.request.shape, np.int64)
    # Most columns of limits are unlimited, which one comparison shows.
    is_limited = bool(entitlements.limit.min(initial=UNLIMITED) < UNLIMITED)
    for level, parents in zip(plan.levels, plan.parents, strict=True):
        amount = share.take(parents, axis=1) if len(parents) else total[:, None]
        requestable = level.pick(entitlements.request)
        if is_limited:
            np.minimum(requestable, level.pick(entitlements.limit), out=requestable)
        have = _divide(
            level, amount, requestable, entitlements, unit, transform, start, weight_mode
        )
        level.put(share, have)
    return share


def _divide(
    level: Level,
    amount: Int64,
    requestable: Int64,
    entitlements: Entitlements,
    unit: Int64,
    transform: WeightTransform | None,
    start: HeadStart | None,
    weight_mode: WeightMode,
) -> Int64:
    """Return the shares `(r, k)` of `(r, g)` amounts, deserved parts first.

    `requestable` `(r, k)` is overwritten.
    """
    deserved = level.pick(entitlements.deserved)
    if deserved.max() >= UNLIMITED:
        deserved = _quota(amount, level, deserved)
    have = np.minimum(deserved, requestable)
    left = np.maximum(amount - level.sums(have), 0)
    if not np.count_nonzero(left):
        return have
    weights = level.pick(entitlements.weights)
    if weight_mode == "quota":
        weights = _quota_weights(level, deserved, weights)
    need = requestable
    need -= have
    remaining = np.minimum(left, MOST).astype(np.float64)
    got = share_surplus(
        level, remaining, need, weights, unit, transform=transform, start=start, has=have
    )
    if got is not None:
        have += got
    return have


def _quota(amount: Int64, level: Level, deserved: Int64) -> Int64:
    """Return the quotas in the level's order, UNLIMITED as the whole amount of the group (R1)."""
    return np.where(deserved == UNLIMITED, amount.take(level.group, axis=1), deserved)


def _quota_weights(level: Level, quotas: Int64, weights: Float64) -> Float64:
    """Return weights that follow quotas; a group without any quota keeps its own (R12)."""
    quota = quotas.astype(np.float64)
    has_quota = np.add.reduceat(quota, level.start, axis=1) > 0
    return np.where(has_quota.take(level.group, axis=1), quota, weights)
