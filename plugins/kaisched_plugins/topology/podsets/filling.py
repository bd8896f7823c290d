"""Chooses domains for a pod set, from its level down to the last one (K3 to K5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kaisched import IntVec, RowVec
from kaisched_plugins.topology.domains import Tree
from kaisched_plugins.topology.podsets.counts import Ask, Counts

NONE: Final = -1


class Share(NamedTuple):
    """What one domain gets."""

    domain: int
    pods: int
    leads: bool = False


class Short(NamedTuple):
    """Why a pod set finds no place: how many slices fit in the best choice."""

    fit: int
    wanted: int
    level: int = NONE
    best: int = NONE
    """The domain of the level that has most room; -1 where all of them count."""
    is_part: bool = False
    """Only what is missing beside pods that run, in their domain."""
    layers: tuple[tuple[int, int, int], ...] = ()
    """(level, slices that fit, slices wanted) of each layer."""


class Style(NamedTuple):
    """How to choose where several choices are good (K4, K7)."""

    least_free: bool = True
    even_shares: bool = False


class Amounts(NamedTuple):
    """What domains of one level could take, in units of so many pods."""

    unit: int
    plain: IntVec
    beside: IntVec


class Filler:
    """Chooses domains for one pod set."""

    def __init__(self, tree: Tree, ask: Ask, counts: Counts, style: Style) -> None:
        """Take what is asked for and what there is."""
        self.tree = tree
        self.ask = ask
        self.counts = counts
        self._last = len(tree.levels) - 1
        self.sliced = ask.slice_level(self._last)
        self.size = ask.unit(self.sliced)
        self.wanted = -(-ask.pods // self.size)
        self._is_least_free = style.least_free and ask.is_free

    def found(self) -> list[Share] | Short:
        """Return what each domain of the last level gets, or what is missing."""
        level, ask = self.ask.level, self.ask
        while True:
            chosen = self._at(level)
            if not isinstance(chosen, Short):
                return self.down(level, chosen)
            if ask.is_required or ask.is_free or not level:
                return chosen
            level -= 1

    def _at(self, level: int) -> list[Share] | Short:
        """Choose one domain of a level, or several where that is allowed."""
        counts, leads = self.counts, self.ask.has_leader
        every = np.arange(len(counts.pods[level]))
        ordered = self.ordered(level, every, leads=leads)
        room = counts.slices_beside[level] if leads else counts.slices[level]
        single = _tightest(ordered, room, self.wanted)
        if single != NONE:
            return [Share(single, self.ask.pods, leads)]
        if self.ask.is_required or (level and not self.ask.is_free):
            best = int(ordered[0]) if ordered.size else NONE
            return self._short(level, int(counts.slices[level][best]) if ordered.size else 0, best)
        amounts = Amounts(self.size, counts.slices[level], counts.slices_beside[level])
        chosen = self._greedy(level, every, amounts, self.ask.pods, leads=leads)
        return self._short(level, chosen) if isinstance(chosen, int) else chosen

    def _short(self, level: int, fit: int, best: int = NONE) -> Short:
        layers = []
        for at, size in self.ask.layers:
            inside = self.tree.below(level if best >= 0 else -1, max(best, 0), at)
            fits = int((self.counts.pods[at][inside] // size).sum())
            layers.append((at, fits, -(-self.ask.pods // size)))
        return Short(fit, self.wanted, level, best, layers=tuple(layers))

    def ordered(self, level: int, domains: RowVec, *, leads: bool) -> RowVec:
        """Return domains in the order in which they are filled (K4)."""
        counts = self.counts
        slices = counts.slices_beside[level] if leads else counts.slices[level]
        pods = counts.pods_beside[level] if leads else counts.pods[level]
        sign = 1 if self._is_least_free else -1
        keys = [domains, pods[domains], sign * slices[domains]]
        if leads:
            keys.append(~counts.can_lead[level][domains] + 0)
        ordered: RowVec = domains[np.lexsort(keys)]
        return ordered

    def down(self, level: int, chosen: Sequence[Share]) -> list[Share]:
        """Divide what domains have got among those below them, level by level (K5)."""
        for at in range(level + 1, self._last + 1):
            if at <= self.sliced:
                chosen = self._divided(at, chosen, self.size)
            else:
                unit = self.ask.unit(at)
                chosen = [part for it in chosen for part in self._divided(at, [it], unit)]
        return sorted(chosen)

    def _divided(self, level: int, chosen: Sequence[Share], unit: int) -> list[Share]:
        """Divide what some domains have got, together, among their children."""
        inside = [self.tree.below(level - 1, it.domain, level) for it in chosen]
        counts = self.counts
        if level <= self.sliced:
            amounts = Amounts(unit, counts.slices[level], counts.slices_beside[level])
        else:
            plain, beside = counts.pods[level] // unit, counts.pods_beside[level] // unit
            amounts = Amounts(unit, plain, beside)
        pods, leads = sum(it.pods for it in chosen), any(it.leads for it in chosen)
        shares = self._greedy(level, np.concatenate(inside), amounts, pods, leads=leads)
        assert not isinstance(shares, int)  # the counts say that there is room
        return shares

    def _greedy(
        self, level: int, domains: RowVec, amounts: Amounts, pods: int, *, leads: bool
    ) -> list[Share] | int:
        """Fill domains in order, the last one by best fit; the leader comes first.

        Return how many units fit if there is too little room.
        """
        found: list[Share] = []
        wanted = -(-pods // amounts.unit)
        left = wanted
        if leads:
            leader = self._leader(level, domains, amounts, wanted)
            if leader == NONE:
                return min(int(amounts.plain[domains].sum()), wanted)
            take = min(left, int(amounts.beside[leader]))
            found.append(Share(leader, min(pods, take * amounts.unit), leads=True))
            left -= take
            domains = domains[domains != leader]
        ordered = self.ordered(level, domains, leads=False)
        for at, first in enumerate(ordered.tolist()):
            domain = first
            if left <= 0:
                break
            if not self._is_least_free and amounts.plain[domain] >= left:
                domain = _tightest(ordered[at:], amounts.plain, left)
            take = min(left, int(amounts.plain[domain]))
            if take:
                rest = pods - sum(it.pods for it in found)
                found.append(Share(domain, min(rest, take * amounts.unit)))
            left -= take
        return wanted - left if left > 0 else found

    def _leader(self, level: int, domains: RowVec, amounts: Amounts, wanted: int) -> int:
        """Return the first domain with which the leader and all others fit, -1 for none."""
        ordered = self.ordered(level, domains, leads=True)
        able = ordered[self.counts.can_lead[level][ordered]]
        if not self._is_least_free:
            single = _tightest(able, amounts.beside, wanted)
            if single != NONE:
                return single
        total = amounts.plain[domains].sum()
        fits = total - amounts.plain[able] + amounts.beside[able] >= wanted
        return int(able[np.argmax(fits)]) if fits.any() else NONE


def _tightest(domains: RowVec, room: IntVec, wanted: int) -> int:
    """Return the first domain with least room of those with enough, -1 for none."""
    enough = domains[room[domains] >= wanted]
    return int(enough[np.argmin(room[enough])]) if enough.size else NONE
