"""Packs items of a few kinds into bins by trying all choices, as far as the steps go.

Bin packing is hard in general: for many items and bins the steps end before the choices do.
"""

from __future__ import annotations

from operator import add, ge, mul, sub, truediv
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    Column = tuple[int, ...]


class Bin(NamedTuple):
    """What a bin has left."""

    room: Column
    """By kind, how many items it takes, by what is free or by any other bound."""
    free: Column
    """By resource; nothing where no item fits."""


def pack(
    bins: Sequence[Bin], asks: Sequence[Sequence[int]], counts: Sequence[int], steps: int
) -> list[list[int]] | None:
    """Return by kind the bins of its items; None if they do not fit, or the steps have ended.

    ``asks`` says what one item of each kind takes by resource. Kinds that take most of all that is
    free come first, the items of each into bins in their order. A step is one item in one bin.
    """
    search = _Search(bins, asks, counts, steps)
    return search.chosen if search.is_open() and search.rest(0, 0) else None


class _Search:
    """Packs one item after the other; where a later one finds no bin, an earlier one moves on."""

    def __init__(
        self, bins: Sequence[Bin], asks: Sequence[Sequence[int]], counts: Sequence[int], steps: int
    ) -> None:
        kinds = range(len(asks))
        self.steps, self._bins, self._asks = steps, list(bins), asks
        self.chosen: list[list[int]] = [[] for _ in kinds]
        self._open = [[at for at, it in enumerate(bins) if it.room[kind]] for kind in kinds]
        self._takes = [(*(int(it == kind) for it in kinds), *asks[kind]) for kind in kinds]
        """What one item of each kind takes of all that is counted: places of each kind, amounts."""
        self._have = list(map(sum, zip(*(it.room + it.free for it in bins), strict=True)))
        every = zip(*self._takes, strict=True)
        self._need = [sum(map(mul, each, counts)) for each in every]
        have = [max(total, 1) for total in self._have[len(asks) :]]
        self._order = sorted(
            kinds, key=lambda kind: -max(map(truediv, asks[kind], have), default=0)
        )

    def is_open(self) -> bool:
        """Tell whether there is room for what is left, kind by kind and in sum."""
        return all(map(ge, self._have, self._need))

    def rest(self, place: int, first: int) -> bool:
        """Pack what is left, of the kind at a place of the order into its bins from one on."""
        while place < len(self._order) and not self._need[self._order[place]]:
            place, first = place + 1, 0
        if place == len(self._order):
            return True
        kind, tried = self._order[place], set[Bin]()
        bins = self._open[kind]
        for number in range(first, len(bins)):
            at = bins[number]
            before = self._bins[at]
            if not before.room[kind] or before in tried:  # equal bins are no choice
                continue
            tried.add(before)
            self.steps -= 1
            if self.steps < 0:
                return False
            self.chosen[kind].append(at)
            self._change(kind, at, self._with_one(before, kind), 1)
            if self.is_open() and self.rest(place, number):
                return True
            self.chosen[kind].pop()
            self._change(kind, at, before, -1)
        return False

    def _with_one(self, before: Bin, kind: int) -> Bin:
        """Return a bin with one more item."""
        free = tuple(map(sub, before.free, self._asks[kind]))
        room = list(before.room)
        room[kind] -= 1
        for other, ask in enumerate(self._asks):
            fits = [have // each for have, each in zip(free, ask, strict=True) if each]
            room[other] = min((room[other], *fits))
        return Bin(tuple(room), free if any(room) else (0,) * len(free))

    def _change(self, kind: int, at: int, after: Bin, more: int) -> None:
        """Replace a bin by itself with an item more, or less."""
        before, self._bins[at] = self._bins[at], after
        changes = map(sub, after.room + after.free, before.room + before.free)
        self._have = list(map(add, self._have, changes))
        self._need = [
            need - more * each for need, each in zip(self._need, self._takes[kind], strict=True)
        ]
