"""Searches node by node: which units on a node may go and make room there for one more pod.

In the order of the whole list, a unit that makes no room for the claim can use up what its queue
may lose. Then a useful unit behind it is refused. Here the units of every node are a set of their
own, and one question judges all sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

NODES: Final = 128
"""At most so many nodes have their units judged: those that would be cleared first."""
_DEEP: Final = 16
"""Fewer than so many units of a node are left out from the front."""


def may_suffice(session: Session, victim_list: VictimList, ask: IntVec, allowed: list[int]) -> bool:
    """Tell whether a different choice of units could free what a claim asks for.

    The bound: each queue can lose the amounts it lost in order, plus its largest unit. A node that
    holds more than it has takes nothing from what is free on others.
    """
    victims = victim_list.victims
    missing = ask - np.maximum(session.capacity.free(), 0).sum(axis=1)
    missing -= victims.amounts[:, allowed].sum(axis=1)
    for queue in victim_list.queues:
        missing -= victims.amounts[:, victims.queue == queue].max(axis=1)
    return not (missing > 0).any()


def openings(
    session: Session,
    victim_list: VictimList,
    future: Future,
    kept: list[int],
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> list[list[int]]:
    """Return sets of units, by their places: each makes room for one more pod on a node.

    The set that ends first in the list comes first. Units ``kept`` count as gone; a set must be
    allowed along with them.
    """
    pods = victim_list.pods
    gone = np.array(kept, np.int64)
    left = session.capacity.without(*([pods.holding(gone)] if kept else []))
    full = left.room(future.shape, future.allowed) + 1
    lack = left.lack(future.asked, full)
    node, place, held = pods.by_node([resource for resource, _ in future.asked])
    use = pods.is_among(victim_list.places)[place]
    use[np.isin(place, gone)] = False
    if future.allowed is not None:
        use &= future.allowed[node]
    if not use.all():
        node, place, held = node[use], place[use], held[:, use]
    first = _first_enough(node, held, lack.take(node, axis=1))
    if not first.size:
        return []
    if len(first) > NODES:
        first = first[np.argsort(place[first], kind="stable")[:NODES]]
    is_tried = np.zeros(len(full), np.bool_)
    is_tried[node[first]] = True
    use = is_tried[node]
    node, place, held = node[use], place[use], held[:, use]
    allowed = _allowed(victim_list, node, place, gone, judge)
    found = _sets(node, place, allowed, _first_enough(node, held * allowed, lack[:, node]))
    if found or allowed.all():
        return found
    return _openings_behind(victim_list, node, place, held, lack, gone, judge)


def _openings_behind(
    victim_list: VictimList,
    node: RowVec,
    place: RowVec,
    held: Amounts,
    lack: Amounts,
    gone: RowVec,
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> list[list[int]]:
    """Return sets of units from which the first units of their node are left out."""
    if not gone.size:
        # Leave out units that are refused even alone, and nodes that have no room without them.
        alone = judge(place, np.arange(len(place))) == 0
        able = _first_enough(node, held * alone, lack[:, node])
        if not able.size:
            return []
        use = np.isin(node, node[able])
        node, place, held = node[use], place[use], held[:, use]
    at, sets = _without_those_in_front(victim_list, node, place)
    if not at.size:
        return []
    node, place, held = node[at], place[at], held[:, at]
    allowed = _allowed(victim_list, sets, place, gone, judge)
    return _sets(sets, place, allowed, _first_enough(sets, held * allowed, lack[:, node]))


def _first_enough(sets: RowVec, held: Amounts, lack: Amounts) -> RowVec:
    """Return, for every set that frees enough, the first entry up to which ``lack`` is freed.

    ``lack`` ``(R', P)`` is the same for all entries of a set.
    """
    if not sets.size:
        return sets
    begins = np.ones(len(sets), np.bool_)
    np.not_equal(sets[1:], sets[:-1], out=begins[1:])
    starts = begins.nonzero()[0]
    freed = held.cumsum(axis=1)
    ahead = freed.take(starts, axis=1) - held.take(starts, axis=1)  # sums run on from set to set
    freed -= ahead.repeat(np.diff(starts, append=len(sets)), axis=1)
    enough: BoolVec = np.logical_and.reduce(freed >= lack, axis=0)
    found: RowVec = enough.nonzero()[0]
    if len(found) < 2:  # noqa: PLR2004 - nothing to choose from
        return found
    of_set = sets[found]
    begins = np.ones(len(found), np.bool_)
    np.not_equal(of_set[1:], of_set[:-1], out=begins[1:])
    return found[begins]


def _sets(sets: RowVec, place: RowVec, allowed: BoolVec, ends: RowVec) -> list[list[int]]:
    """Return the allowed units of each set up to its end, ordered by that end."""
    ends = ends[np.argsort(place[ends], kind="stable")]
    starts = np.searchsorted(sets, sets[ends]).tolist()
    return [
        (place[start : end + 1][allowed[start : end + 1]]).tolist()
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]


def _without_those_in_front(
    victim_list: VictimList, node: RowVec, place: RowVec
) -> tuple[RowVec, RowVec]:
    """Return entries and sets: each node's units without the first, without the first two ...

    The first units may use up what the queue may lose, while a later unit alone would be enough. A
    set without some elastic pods of a job does not contain the job's core.
    """
    victims = victim_list.victims
    entries: list[int] = []
    sets: list[int] = []
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    number = 0
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(node)], strict=True):
        for first in range(start + 1, min(end, start + _DEEP)):
            left = list(range(first, end))
            if victims.split_off:
                cut = set(victims.job[place[start:first]].tolist())
                left = [at for at in left if int(victims.job[place[at]]) not in cut]
            entries += left
            sets += [number] * len(left)
            number += 1
    return np.array(entries, np.int64), np.array(sets, np.int64)


def _allowed(
    victim_list: VictimList,
    node: RowVec,
    place: RowVec,
    gone: RowVec,
    judge: Callable[[RowVec, RowVec], CodeVec],
) -> BoolVec:
    """Tell which units may go with those before them in their set (``node``) and all gone."""
    if not gone.size:
        codes = judge(place, node)
        allowed: BoolVec = codes == 0
    else:
        nodes = np.unique(node)
        sets = np.concatenate((node, nodes.repeat(len(gone))))
        places = np.concatenate((place, np.tile(gone, len(nodes))))
        order = np.lexsort((places, sets))
        codes = np.empty(len(sets), np.int16)
        codes[order] = judge(places[order], sets[order])
        allowed = codes[: len(node)] == 0
        lost = np.isin(node, sets[len(node) :][codes[len(node) :] != 0])
        allowed &= ~lost  # the kept units could not go along with this set
    if victim_list.victims.split_off and not allowed.all():
        # No core goes without the elastic pods before it.
        along = victim_list.victims.along
        shut = set(zip(node[~allowed].tolist(), place[~allowed].tolist(), strict=True))
        takes = allowed & np.isin(place, list(along))
        for at in takes.nonzero()[0].tolist():
            if any((int(node[at]), other) in shut for other in along[int(place[at])]):
                allowed[at] = False
    return allowed
