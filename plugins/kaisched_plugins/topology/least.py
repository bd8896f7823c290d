"""Places equal pods on the fewest domains of two levels: blocks first, and of these racks (C3)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kaisched import IntVec, RowVec

_NEVER: Final = -(1 << 60)
_MOST_CELLS: Final = 4_000_000
"""With more (rack, blocks, racks) than this, the greedy answer is kept."""


class Racks(NamedTuple):
    """The racks inside some blocks, with the pods that fit."""

    rack: RowVec
    block: RowVec
    """Of each rack."""
    room: IntVec


def fewest_racks(racks: Racks, filled: RowVec, pods: int) -> RowVec | None:
    """Return racks in which all pods fit, in the order in which they are filled.

    Blocks one after the other, in the order ``filled``, unless that needs more of either than
    there must be. None if there is too little room.
    """
    greedy = _greedy(racks, filled, pods)
    blocks, used = len(np.unique(racks.block[np.isin(racks.rack, greedy)])), len(greedy)
    least_blocks = _fewest([int(racks.room[racks.block == it].sum()) for it in filled], pods)
    least_racks = _fewest(racks.room.tolist(), pods)
    if not least_blocks:
        return None
    is_least = blocks <= least_blocks and used <= least_racks
    if is_least or len(racks.rack) * least_blocks * used > _MOST_CELLS:
        return greedy
    return _optimum(racks, np.unique(racks.block), least_blocks, used, pods)


def _fewest(rooms: list[int], pods: int) -> int:
    """Return how many of some rooms are needed, the largest first; 0 if all are too few."""
    for count, room in enumerate(sorted(rooms, reverse=True), 1):
        pods -= room
        if pods <= 0:
            return count
    return 0


def _greedy(racks: Racks, filled: RowVec, pods: int) -> RowVec:
    """Return the racks that are used if blocks are filled in order, the largest racks first."""
    chosen: list[RowVec] = []
    for block in filled.tolist():
        at = np.flatnonzero(racks.block == block)
        at = at[np.lexsort((-racks.rack[at], -racks.room[at]))]
        before = np.cumsum(racks.room[at]) - racks.room[at]
        chosen.append(racks.rack[at[(before < pods) & (racks.room[at] > 0)]])
        pods -= int(racks.room[at].sum())
        if pods <= 0:
            break
    return np.concatenate(chosen)


def _optimum(
    racks: Racks, blocks: RowVec, most_blocks: int, most_racks: int, pods: int
) -> RowVec | None:
    """Return the fewest racks of so many blocks.

    Block by block, the most pods that fit for each number of blocks and racks.
    """
    best = np.full((most_blocks + 1, most_racks + 1), _NEVER)
    best[0, 0] = 0
    steps: list[IntVec] = []
    inside: list[RowVec] = []
    for block in blocks.tolist():
        at = np.flatnonzero(racks.block == block)
        at = at[np.lexsort((-racks.rack[at], -racks.room[at]))]
        inside.append(racks.rack[at])
        sums = np.cumsum(racks.room[at])
        better, taken = best.copy(), np.zeros_like(best)
        for count in range(1, min(len(at), most_racks) + 1):
            offered = np.full_like(best, _NEVER)
            offered[1:, count:] = best[:-1, : most_racks + 1 - count] + sums[count - 1]
            wins = offered > better
            better, taken = np.where(wins, offered, better), np.where(wins, count, taken)
        best = better
        steps.append(taken)
    enough = np.argwhere(best >= pods)
    if not enough.size:
        return None
    blocks_left, racks_left = enough[np.lexsort((enough[:, 1], enough[:, 0]))][0].tolist()
    chosen: list[RowVec] = []
    for taken, some in zip(reversed(steps), reversed(inside), strict=True):
        count = int(taken[blocks_left, racks_left])
        if count:
            chosen.append(some[:count])
            blocks_left, racks_left = blocks_left - 1, racks_left - count
    room = dict(zip(racks.rack.tolist(), racks.room.tolist(), strict=True))
    chosen.sort(key=lambda some: -sum(room[it] for it in some.tolist()))
    return np.concatenate(chosen)
