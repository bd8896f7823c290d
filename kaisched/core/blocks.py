"""The order in which one level of the queue tree is divided, cut into blocks.

Every (resource, sibling group) is one contest over one amount. Contests do not touch each other, so
a level is divided block by block, each of whole contests, from the first column to the last: no
column is longer than a block. Depends on the queues, not on amounts, and can be kept for as long as
they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]

# Most rows of a block, unless one contest has more. Measured with 100,000 queues: a quarter of it
# makes the division a tenth slower, since each array call costs a microsecond; twice as much makes
# no difference.
BLOCK_ROWS = 1 << 16

# A single group with more rows is divided resource by resource: one contest needs no columns of
# contests, units and resources (measured: a twentieth of a division of 100,000 queues).
ALONE_ROWS = 1 << 13

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Block:
    """Some sibling groups of a level, for one resource, or all groups for all resources.

    `k` queues in `g` groups, for `r` resources; a row is one of `r * k` (resource, queue) pairs,
    resource by resource.

    Attributes:
        resources: which resources.
        groups: which groups of the level.
        queue: `(k,)` queue indices, the groups one after the other, by rank inside.
        group: `(k,)` ascending number of the group in the block, 0 to g - 1.
        start: `(g,)` where each group starts.
        last: `(g,)` where each group has its last queue.
        resource_of_row: `(r * k,)`.
        queue_of_row: `(r * k,)`.
        contest_of_row: `(r * k,)` ascending number of (resource, group), 0 to r * g - 1.
        tiers: ascending rows of each priority, counted inside the groups, highest first;
            None stands for all rows.

    """

    resources: slice
    groups: slice
    queue: Index
    group: Index
    start: Index
    last: Index
    resource_of_row: Index
    queue_of_row: Index
    contest_of_row: Index
    tiers: tuple[Index | None, ...]

    def pick(self, columns: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return the block's columns `(r, k)` of `(R, Q)`, as a copy."""
        return columns[self.resources].take(self.queue, axis=1)

    def sums(self, values: Int64) -> Int64:
        """Return the sums `(r, g)` of `(r, k)` values over each group."""
        if len(self.start) == 1:
            return np.add.reduce(values, axis=1, keepdims=True)
        # Differences of running sums: a quarter of the time of `reduceat` where groups are small.
        sums = values.cumsum(axis=1).take(self.last, axis=1)
        sums[:, 1:] -= sums[:, :-1].copy()
        return sums

    def put(self, columns: Int64, values: Int64) -> None:
        """Set the block's columns of `(R, Q)` to `(r, k)` values."""
        # Row by row: a third of the time of one assignment to all.
        for row, new in zip(columns[self.resources], values, strict=True):
            row[self.queue] = new


def plan_level(
    queue: Index,
    group: Index,
    priority: Int64,
    rank: Int64,
    *,
    resources: int,
    is_whole: bool = False,
) -> tuple[Block, ...]:
    """Put the queues of one level in canonical order, and cut them into blocks.

    Args:
        queue: `(K,)` queue indices.
        group: `(K,)` sibling group, numbered 0 to G - 1 without gaps.
        priority: `(K,)` higher goes first in the surplus.
        rank: `(K,)` unique inside a group, lower wins ties.
        resources: R.
        is_whole: keep the level in one block, whatever its size.

    """
    order = np.lexsort((rank, group))
    queue, group, priority = queue[order], group[order], priority[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    tier = _tier_of(group, priority)
    together = BLOCK_ROWS if len(start) > 1 else ALONE_ROWS
    if is_whole or resources * len(queue) <= together:
        whole = slice(0, len(start))
        return (
            (_block(queue, group, start, tier, slice(0, resources), whole),) if whole.stop else ()
        )
    blocks: list[Block] = []
    for resource in range(resources):
        of_resource = slice(resource, resource + 1)
        for first, end in _cuts(np.append(start, len(queue))):
            rows = slice(start[first], start[end] if end < len(start) else len(queue))
            blocks.append(
                _block(
                    queue[rows],
                    group[rows] - first,
                    start[first:end] - start[first],
                    tier[rows],
                    of_resource,
                    slice(first, end),
                )
            )
    return tuple(blocks)


def _cuts(bounds: Index) -> Iterator[tuple[int, int]]:
    """Cut between groups, so that no part has too many rows, or else just one group."""
    first, groups = 0, len(bounds) - 1
    while first < groups:
        end = int(bounds.searchsorted(bounds[first] + BLOCK_ROWS, "right")) - 1
        end = min(max(end, first + 1), groups)
        yield first, end
        first = end


def _block(
    queue: Index, group: Index, start: Index, tier: Index, resources: slice, groups: slice
) -> Block:
    resource = np.arange(resources.start, resources.stop)[:, None]
    shape = (len(resource), len(queue))
    offset = np.arange(len(resource))[:, None]
    count = int(tier.max(initial=-1)) + 1
    return Block(
        resources=resources,
        groups=groups,
        queue=queue,
        group=group,
        start=start,
        last=np.append(start[1:], len(queue)) - 1,
        resource_of_row=np.broadcast_to(resource, shape).ravel(),
        queue_of_row=np.broadcast_to(queue, shape).ravel(),
        contest_of_row=(offset * len(start) + group).ravel(),
        tiers=tuple((offset * len(queue) + np.flatnonzero(tier == t)).ravel() for t in range(count))
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
