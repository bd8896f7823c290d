"""Sets of units whose leaving makes room on GPUs that pods share, looked for card by card.

Parts of two cards are no whole one. Units in their order, or the largest of a node, may free enough
by amounts and yet empty no card. So the cards of a node say which of its units would have to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.room.card_clearing import choices_by_card
from kaisched.actions.room.clearing import completed
from kaisched.actions.room.items import Item, fewest_items
from kaisched.core.axis import GPU, GPU_UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kaisched.actions.eviction.fewest import Cost
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import Amounts, CodeVec, RowVec
    from kaisched.framework.session.session import Session

    Judge = Callable[[RowVec, RowVec], CodeVec]

_NODES: Final = 32
"""At most so many nodes are looked at for one pod: those on which the fewest pods would go."""
_JUDGED: Final = 128
"""At most so many sets are judged in one question."""


class _Set(NamedTuple):
    """Units that make room for one more pod on a node; the least goes first."""

    cost: Cost
    reverse: tuple[int, ...]
    """Their places, the last first: of equal sets the one that ends first in the list goes."""
    node: int

    @property
    def places(self) -> tuple[int, ...]:
        return self.reverse[::-1]


def counts_by_card(
    session: Session, victim_list: VictimList, needs: Sequence[tuple[Future, int]]
) -> bool:
    """Tell whether cards say which units make room: those of all pods that lack some, on a node."""
    cards = session.capacity.cards
    if cards is None or not all(
        cards.counts_for(future.shape) or future.total >= count for future, count in needs
    ):
        return False
    nodes, _, _ = victim_list.pods.by_node([])
    return cards.are_shared(nodes)


class CardSets:
    """Finds sets of units that make room for the pods of a claim."""

    def __init__(
        self,
        session: Session,
        victim_list: VictimList,
        needs: Sequence[tuple[Future, int]],
        judge: Judge,
    ) -> None:
        """Start from the cluster as it is, with nothing evicted for the claim."""
        self._session = session
        self._victim_list = victim_list
        self._needs = needs
        self._judge = judge
        rows = np.arange(len(session.axis.names))
        node, place, held = victim_list.pods.by_node(rows.tolist())
        use = victim_list.pods.is_among(victim_list.places)[place] & held.any(axis=0)
        self._node, self._place, self._held = node[use], place[use], held[:, use]
        self._items: dict[int, list[Item]] = {}

    def cheapest_first(self) -> Iterator[tuple[int, ...]]:
        """Yield sets of places that plugins allow, the cheapest first.

        For several pods there is one: what costs least for one pod after the other.
        """
        lacking = [(future, count - future.total) for future, count in self._needs]
        lacking = [(future, lack) for future, lack in lacking if lack > 0]
        if sum(lack for _, lack in lacking) != 1:
            found = self._for_several(lacking)
            if found:
                yield found
            return
        future = lacking[0][0]
        sets = [each for node in self._nodes(future, _NODES) for each in self._on(future, node)]
        yield from (each.places for each in self._allowed(sorted(sets), frozenset()))

    def _for_several(self, lacking: list[tuple[Future, int]]) -> tuple[int, ...]:
        """Return a set for several pods; an empty one if there is none.

        What makes room for pods of one shape is not counted for those of the next: they get units
        on other cards. The largest pods come first.
        """
        chosen: set[int] = set()
        for future, lack in sorted(lacking, key=lambda it: -dict(it[0].asked).get(GPU, 0)):
            before = frozenset(chosen)
            more = dict.fromkeys(self._nodes(future, max(_NODES, lack)), 1)
            sets = {node: self._on(future, node, 1, before) for node in more}
            for _ in range(lack):
                every = sorted(each for some in sets.values() for each in some)
                best = next(self._allowed(every, chosen), None)
                if best is None:
                    return ()
                chosen.update(best.reverse)
                more[best.node] += 1
                for node, some in sets.items():
                    if node == best.node or any(chosen.intersection(it.reverse) for it in some):
                        sets[node] = self._on(future, node, more[node], before, chosen - before)
        return tuple(sorted(chosen))

    def _nodes(self, future: Future, most: int) -> list[int]:
        """Return the nodes to look at: those where the fewest pods would go, in victim order."""
        use = np.ones(len(self._node), np.bool_)
        if future.allowed is not None:
            use = future.allowed[self._node]
        node, place, held = self._node[use], self._place[use], self._held[GPU, use]
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        if not starts.size:
            return []
        rows = node[starts]
        cards = self._session.capacity.cards
        assert cards is not None
        fewest = cards.fewest_sharers(rows)
        if cards.demand_of(future.shape) is not None:
            fewest = np.minimum(fewest, 1)
        has_whole = np.maximum.reduceat(held, starts) >= GPU_UNIT
        fewest = np.where(has_whole, 1, fewest)
        first = np.minimum.reduceat(place, starts)
        found: list[int] = rows[np.lexsort((first, fewest))[:most]].tolist()
        return found

    def _on(
        self,
        future: Future,
        node: int,
        more: int = 1,
        barred: AbstractSet[int] = frozenset(),
        gone: AbstractSet[int] = frozenset(),
    ) -> list[_Set]:
        """Return sets of units that make room for so many more pods on a node.

        The units ``gone`` have left, and those that are ``barred`` make room for others.
        """
        session, room = self._session, max(int(future.room[node]), 0) + more - 1
        taken = barred | gone
        items = [item for item in self._items_on(node) if item.place not in taken]
        tasks = [task for at in gone for task in self._victim_list.unit(at).tasks]
        statement = session.statement()
        statement.evict_all(np.array(tasks, np.int64))
        missing = session.capacity.on(node).lack(future.asked, room + 1)
        choices = choices_by_card(session, node, future.shape, room, items)
        statement.rollback()
        if choices is None:
            few = fewest_items(items, missing)
            alone = [(item,) for item in items if fewest_items([item], missing)]
            choices = (*alone, *(() if few is None else (tuple(few),)))
        found = [completed(choice, items, missing) for choice in choices]
        return [self._set(node, it, taken) for it in found if it]

    def _set(self, node: int, items: Iterable[Item], taken: AbstractSet[int]) -> _Set:
        """Return items as a set, with all units that go along with them."""
        victim_list, victims = self._victim_list, self._victim_list.victims
        places = {item.place for item in items}
        if victims.split_off:
            places.update(*(set(victim_list.along(at)) - taken for at in tuple(places)))
        order = sorted(places)
        pods, gpus = victim_list.sizes[order].sum(), victims.amounts[GPU, order].sum()
        return _Set((int(pods), int(gpus)), tuple(order[::-1]), node)

    def _items_on(self, node: int) -> list[Item]:
        """Return the units of a node, in the order in which they would go."""
        items = self._items.get(node)
        if items is None:
            start, end = self._node.searchsorted((node, node + 1)).tolist()
            moved: Amounts = self._victim_list.victims.amounts
            items = self._items[node] = [
                Item(at, self._victim_list.unit(at), held, moved[:, at].tolist())
                for at, held in zip(
                    self._place[start:end].tolist(),
                    self._held[:, start:end].T.tolist(),
                    strict=True,
                )
            ]
        return items

    def _allowed(self, sets: Sequence[_Set], kept: AbstractSet[int]) -> Iterator[_Set]:
        """Yield the sets that plugins allow along with what has been chosen."""
        for start in range(0, len(sets), _JUDGED):
            some = sets[start : start + _JUDGED]
            places = [sorted({*kept, *each.reverse}) for each in some]
            flat = np.array([at for each in places for at in each], np.int64)
            of_set = np.arange(len(some)).repeat([len(each) for each in places])
            refused = set(of_set[self._judge(flat, of_set) != 0].tolist())
            yield from (each for at, each in enumerate(some) if at not in refused)
