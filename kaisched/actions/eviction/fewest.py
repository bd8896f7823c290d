"""Searches cheaper plans: sets of units that disturb less than those found in order.

The cost of a plan is the number of pods that are evicted or moved, then the GPUs that they hold.
Between equal costs, the plan found in order is kept. Of few units every set is tried; of many, the
sets of units on each node.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import GPU
from kaisched.core.devices import gpus_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaisched.actions.eviction.plan import Demand
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.claims import Unit
    from kaisched.framework.session.session import Session

Cost = tuple[int, int]
"""Pods, and the GPUs that they hold."""
EVERY_SET: Final = 10
"""Every set of up to so many units is tried: 1,024 sets."""
_NODES: Final = 16
"""Of more units, those on at most so many nodes are tried: the nodes with the least bound."""
_JUDGED: Final = 128
"""At most so many sets are judged in one question ..."""
_QUESTIONS: Final = 4
"""... and at most so many questions are asked."""
_MISSING: Final = 8
"""With more units, the plan found in order is kept for a gang of more pods than this."""


def cost_of(session: Session, units: Sequence[Unit]) -> Cost:
    """Return the cost of evicting or moving units."""
    shapes, shape = session.shapes, session.tasks.shape_of_task
    if len(units) == 1 and len(units[0].tasks) == 1 and shapes.by_card is None:
        return 1, int(shapes.charge[GPU, shape[units[0].tasks[0]]])
    tasks = [task for unit in units for task in unit.tasks]
    return len(tasks), gpus_of(session, tasks)


def is_too_large(victim_list: VictimList, demand: Demand) -> bool:
    """Tell whether a claim is so large that its plan is kept as found in order."""
    return len(victim_list.places) > EVERY_SET and len(demand.tasks) > _MISSING


def is_least(session: Session, victim_list: VictimList, cost: Cost) -> bool:
    """Tell by quick bounds whether no plan could cost less than this one.

    The plan's statement is open: its units have gone, and the claim has its place.
    """
    pods, gpus = cost
    if pods <= 1 and gpus <= victim_list.least_gpus:
        return True
    # GPUs that the units freed, less what is free now: the claim took at least so many of them.
    missing = gpus - session.capacity.total_of(GPU)
    if (part := session.axis.gpu_part) is not None:
        missing -= int(part @ session.capacity.total())
    least = max(1, -(-missing // max(1, victim_list.most_gpus)))
    return cost <= (least, max(missing, victim_list.least_gpus))


class Fewest:
    """Finds the sets of units that make room for a claim, of equal or different pods."""

    def __init__(
        self, session: Session, victim_list: VictimList, needs: Sequence[tuple[Future, int]]
    ) -> None:
        """Start from the cluster as it is, with nothing evicted for the claim."""
        self._session = session
        self._victim_list = victim_list
        self._needs = needs
        self._left = session.capacity.without()

    def below(
        self, cost: Cost, judge: Callable[[RowVec, RowVec], CodeVec]
    ) -> Iterator[tuple[int, ...]]:
        """Yield sets of places that cost less and that plugins allow, the cheapest first."""
        found = [each for places in self._groups(cost) for each in self._sets(places, cost)]
        found.sort()
        for start in range(0, min(len(found), _JUDGED * _QUESTIONS), _JUDGED):
            sets = [places for _, _, places in found[start : start + _JUDGED]]
            flat = np.array([place for places in sets for place in places], np.int64)
            of_set = np.arange(len(sets)).repeat([len(places) for places in sets])
            refused = set(of_set[judge(flat, of_set) != 0].tolist())
            for at, places in enumerate(sets):
                if at not in refused:
                    yield places

    # -- which units are looked at together --------------------------------------------------------

    def _groups(self, cost: Cost) -> list[RowVec]:
        """Return groups of units, by their places; every subset of a group is tried."""
        places = self._victim_list.places
        if len(places) <= EVERY_SET:
            return [places]
        shape, wanted = self._needs[0][0], [at for at, _ in self._needs[0][0].asked]
        node, place, held = self._victim_list.pods.by_node(wanted)
        use = self._victim_list.pods.is_among(places)[place]
        if shape.allowed is not None:
            use &= shape.allowed[node]
        node, place, held = node[use], place[use], held[:, use]
        if not node.size:
            return []
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        rows = node[starts]
        lack = self._left.lack(shape.asked, np.maximum(shape.room[rows], 0) + 1, rows)
        bound = self._bounds(wanted, place, held, starts, lack)
        order = np.lexsort((place[starts], bound[1], bound[0]))
        able = (bound[0] < cost[0]) | ((bound[0] == cost[0]) & (bound[1] < cost[1]))
        order = order[able[order]][:_NODES]
        ends = np.append(starts[1:], len(node))
        groups = [place[starts[at] : ends[at]] for at in order.tolist()]
        groups = [self._few(group) for group in groups]
        missing = sum(count - future.total for future, count in self._needs)
        if missing == 1 and len(self._needs) == 1:
            return groups
        return self._joined(groups)

    def _joined(self, groups: list[RowVec]) -> list[RowVec]:
        """Return the units of the first nodes as one group, up to the largest size."""
        joined: dict[int, None] = {}
        for group in groups:
            if len(joined.keys() | set(group.tolist())) > EVERY_SET:
                break
            joined |= dict.fromkeys(group.tolist())
        return [np.array(sorted(joined), np.int64)] if joined else []

    def _few(self, places: RowVec) -> RowVec:
        """Return the units of a node; of many, those that hold the most GPUs."""
        if len(places) <= EVERY_SET:
            return places
        amounts = self._victim_list.victims.amounts.take(places, axis=1)
        first: RowVec = np.lexsort((places, -amounts[GPU]))[:EVERY_SET]
        return np.sort(places[first])

    def _bounds(
        self, wanted: list[int], place: RowVec, held: Amounts, starts: RowVec, lack: Amounts
    ) -> tuple[IntVec, IntVec]:
        """Return the fewest pods ``(K,)`` and GPUs that one more pod on each node could cost."""
        pods = self._victim_list.sizes.take(place)
        most = np.maximum.reduceat(held // pods, starts, axis=1)
        least = np.maximum(-(-lack // np.maximum(most, 1)), 0).max(axis=0)
        gpus = lack[wanted.index(GPU)] if GPU in wanted else np.zeros_like(lack[0])
        return np.maximum(least, 1), np.maximum(gpus, 0)

    # -- all sets of few units ---------------------------------------------------------------------

    def _sets(self, places: RowVec, cost: Cost) -> list[tuple[Cost, list[int], tuple[int, ...]]]:
        """Return sets that make room and cost less: cost, places in reverse, places."""
        victims = self._victim_list.victims
        bits = _subsets(len(places))
        pods, gpus = bits @ self._victim_list.sizes[places], bits @ victims.amounts[GPU, places]
        use = (pods < cost[0]) | ((pods == cost[0]) & (gpus < cost[1]))
        use &= self._is_whole(places, bits)
        use[use] = self._makes_room(places, bits[use])
        found = []
        for row in use.nonzero()[0].tolist():
            chosen = places[bits[row]].tolist()
            found.append(((int(pods[row]), int(gpus[row])), chosen[::-1], tuple(chosen)))
        return found

    def _is_whole(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets have, with each unit, all that goes along with it."""
        victim_list, whole = self._victim_list, np.ones(len(bits), np.bool_)
        if not victim_list.victims.split_off:
            return whole
        column = {place: at for at, place in enumerate(places.tolist())}
        for place, at in column.items():
            for other in victim_list.along(place):
                whole &= ~bits[:, at] | (bits[:, column[other]] if other in column else False)
        return whole

    def _makes_room(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets, once gone, leave room for all pods; each shape is counted alone."""
        enough = np.ones(len(bits), np.bool_)
        for future, count in self._needs:
            node, place, held = self._victim_list.pods.by_node([at for at, _ in future.asked])
            use = np.isin(place, places)
            if future.allowed is not None:
                use &= future.allowed[node]
            node, place, held = node[use], place[use], held[:, use]
            rows, at_row = np.unique(node, return_inverse=True)
            room = np.full((len(bits), len(rows)), np.iinfo(np.int64).max)
            column = np.searchsorted(places, place)
            for (resource, amount), freed in zip(future.asked, held, strict=True):
                on_node = np.zeros((len(places), len(rows)), np.int64)
                np.add.at(on_node, (column, at_row), freed)
                np.minimum(
                    room, (bits @ on_node + self._left.free[resource, rows]) // amount, out=room
                )
            gained = np.maximum(room, 0).sum(axis=1) - future.room[rows].sum()
            enough &= future.total + gained >= count
        return enough


@lru_cache(maxsize=EVERY_SET + 1)
def _subsets(count: int) -> BoolVec:
    """Return every set of ``count`` items except the empty set, one row for each."""
    rows = np.arange(1, 1 << count)[:, None]
    bits: BoolVec = (rows >> np.arange(count)) & 1 == 1
    bits.setflags(write=False)
    return bits
