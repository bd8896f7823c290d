"""Packs pods with shares of GPUs on nodes by trying all choices of GPUs, as far as the steps go.

One by one, each pod gets the GPUs with the least left: that may leave too little for the last one
of a gang.
"""

from __future__ import annotations

from operator import ge, sub
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Amounts = tuple[int, ...]
    Slots = tuple[int, ...]


class CardNode(NamedTuple):
    """What a node has left."""

    free: Amounts
    """Slots for pods, then amounts of other resources than GPUs."""
    left: tuple[tuple[int, int], ...]
    """(what is left, slot) of each GPU that pods share, ascending."""
    whole: Slots
    """Slots for the GPUs that are whole, in the order in which they are opened."""
    size: int
    """What a whole GPU has."""


class CardKind(NamedTuple):
    """What a pod of one kind asks for."""

    amounts: Amounts
    """As ``CardNode.free``."""
    whole: int
    """Whole GPUs."""
    cards: int
    """Shares of so many different GPUs."""
    takes: tuple[int, ...]
    """By node, what it takes of each of these GPUs; less than 0 where it may not go."""


def most_pods(shares: Sequence[int], cards: int) -> int:
    """Return how many pods fit that take equal shares of ``cards`` different GPUs each.

    ``shares`` says how many such shares are free on each GPU. So many pods get them one by one if
    each gets the GPUs with most of them free.
    """
    low, high = 0, sum(shares) // cards
    while low < high:
        pods = (low + high + 1) // 2
        if sum(min(each, pods) for each in shares) >= pods * cards:
            low = pods
        else:
            high = pods - 1
    return low


class CardPacking:
    """Packs one pod after the other; where a later one finds no GPUs, an earlier one moves on."""

    def __init__(self, nodes: Sequence[CardNode], kinds: Sequence[CardKind], steps: int) -> None:
        """Begin with what nodes have left. A step is one pod on some GPUs of one node."""
        self._nodes, self._kinds = list(nodes), kinds
        self.steps = steps
        self._chosen: list[tuple[int, Slots]] = []
        self._failed: set[tuple[object, ...]] = set()
        self._touched: dict[int, int] = {}
        """How many of the pods are on each node."""
        self._allowed = [tuple(it.takes[at] for it in kinds) for at in range(len(nodes))]

    def pack(self, pods: Sequence[int]) -> list[tuple[int, Slots]] | None:
        """Return node and slots of each pod, of kinds by number; None if no choice is found."""
        counts = {kind: pods.count(kind) for kind in pods}
        if any(self._most(kind, count) < count for kind, count in counts.items()):
            return None
        large = {kind: self._share_of_all(kind) for kind in counts}
        order = sorted(range(len(pods)), key=lambda at: (-large[pods[at]], pods[at]))
        if not self._rest([pods[at] for at in order], 0):
            return None
        found = dict(zip(order, self._chosen, strict=True))
        return [found[at] for at in range(len(pods))]

    def _share_of_all(self, kind: int) -> float:
        """Return how large a pod of a kind is, in GPUs."""
        it = self._kinds[kind]
        parts = [take / max(node.size, 1) for take, node in zip(it.takes, self._nodes, strict=True)]
        return it.whole + it.cards * max(parts, default=0.0)

    def _most(self, kind: int, enough: int) -> int:
        """Return a bound on the pods of a kind that fit, or any number that is enough."""
        fits = 0
        for at in range(len(self._nodes)):
            fits += self._most_on(at, kind)
            if fits >= enough:
                break
        return fits

    def _most_on(self, at: int, kind: int) -> int:
        node, it = self._nodes[at], self._kinds[kind]
        if it.takes[at] < 0:
            return 0
        bounds = [have // ask for have, ask in zip(node.free, it.amounts, strict=True) if ask]
        if it.whole:
            bounds.append(len(node.whole) // it.whole)
        if it.cards:
            take = max(it.takes[at], 1)
            shares = [left // take for left, _ in node.left] + [node.size // take] * len(node.whole)
            bounds.append(most_pods(shares, it.cards))
        return max(min(bounds), 0)

    def _rest(self, pods: Sequence[int], number: int) -> bool:
        """Pack the pods from a number on."""
        if number == len(pods):
            return True
        now = (number, *((at, *_look(self._nodes[at])) for at in sorted(self._touched)))
        if now in self._failed:
            return False
        kind, tried = pods[number], set[tuple[object, ...]]()
        for at, before in enumerate(self._nodes):
            if self._kinds[kind].takes[at] < 0:
                continue
            look = (*_look(before), self._allowed[at])
            if look in tried:  # equal nodes are no choice
                continue
            tried.add(look)
            for after, slots in self._ways(before, kind, at):
                self.steps -= 1
                if self.steps < 0:
                    return False
                self._nodes[at] = after
                self._touched[at] = self._touched.get(at, 0) + 1
                self._chosen.append((at, slots))
                if self._rest(pods, number + 1):
                    return True
                self._chosen.pop()
                self._nodes[at] = before
                self._touched[at] -= 1
                if not self._touched[at]:
                    del self._touched[at]
        self._failed.add(now)
        return False

    def _ways(self, node: CardNode, kind: int, at: int) -> Iterator[tuple[CardNode, Slots]]:
        """Yield what a node has left with one more pod, and the slots of its GPUs.

        The GPUs with the least left come first, whole ones last; of equal ones the lowest slot.
        """
        it = self._kinds[kind]
        if not all(map(ge, node.free, it.amounts)) or it.whole > len(node.whole):
            return
        free = tuple(map(sub, node.free, it.amounts))
        if not it.cards:
            yield node._replace(free=free, whole=node.whole[: len(node.whole) - it.whole]), ()
            return
        take = it.takes[at]
        fits: dict[int, list[int]] = {}
        for left, slot in node.left:
            if left >= take:
                fits.setdefault(left, []).append(slot)
        can_open = min(len(node.whole), free[0]) if take <= node.size else 0
        for slots in _choices(list(fits.values()), it.cards, can_open):
            opened = node.whole[: it.cards - len(slots)]
            shared = [(rest - take * (slot in slots), slot) for rest, slot in node.left]
            shared += [(node.size - take, slot) for slot in opened]
            after = node._replace(
                free=(free[0] - len(opened), *free[1:]),
                left=tuple(sorted(shared)),
                whole=node.whole[len(opened) :],
            )
            yield after, (*slots, *opened)


def _look(node: CardNode) -> tuple[object, ...]:
    """Return what matters of a node: which of equal GPUs a slot is does not."""
    return node.free, tuple(left for left, _ in node.left), len(node.whole), node.size


def _choices(groups: list[list[int]], cards: int, can_open: int) -> Iterator[Slots]:
    """Yield slots of equal GPUs in groups, at most ``cards``, so that few enough are opened."""
    if not groups:
        if cards <= can_open:
            yield ()
        return
    first, others = groups[0], groups[1:]
    for count in range(min(len(first), cards), -1, -1):
        for rest in _choices(others, cards - count, can_open):
            yield (*first[:count], *rest)
