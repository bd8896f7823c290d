"""Divides a pod set evenly among the domains of a preferred level (K7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

import numpy as np

from kaisched import RowVec
from kaisched_plugins.topology.podsets.filling import NONE, Filler, Share

_MOST_SUMS: Final = 100_000
"""Above so many (domain, number, room) a set of least room is not looked for."""


class Item(NamedTuple):
    """A domain that may be chosen."""

    domain: int
    room: int
    beside: int = NONE
    """Its room beside the leader; -1 where that cannot be there."""
    spread: float = 0.0
    """How unevenly the room is spread among what is inside."""


class _Best(NamedTuple):
    """The domains under one parent, and the share of each."""

    share: int
    chosen: list[Item]


def even_shares(filler: Filler) -> list[Share] | None:
    """Return equal shares for a preferred level, None where there are none.

    The share is that of the domains one level down, as far as slices may be divided.
    """
    ask, tree = filler.ask, filler.tree
    if ask.is_required or ask.is_free or not filler.wanted:
        return None
    lower = min(ask.level + 1, filler.sliced)
    parents = range(len(tree.parent[ask.level - 1])) if ask.level else (0,)
    best: _Best | None = None
    for parent in parents:
        found = _under(filler, parent, lower)
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    if best is None:
        return None
    inside = best.chosen
    if lower > ask.level:
        below = [tree.below(ask.level, it.domain, lower) for it in best.chosen]
        items = _items(filler, np.concatenate(below), lower, best.share)
        inside = _fewest(items, filler.wanted, leads=ask.has_leader) or []
    shares = _divided(filler, inside, best.share)
    return None if shares is None else filler.down(lower, shares)


def _rank(best: _Best) -> tuple[int, int]:
    return -best.share, len(best.chosen)


def _under(filler: Filler, parent: int, lower: int) -> _Best | None:
    """Return the largest share that domains under a parent can have, and which get it."""
    ask, tree = filler.ask, filler.tree
    domains = tree.below(ask.level - 1, parent, lower)
    leads = ask.has_leader
    items = sorted(_items(filler, domains, lower, 1), key=lambda it: -it.room)
    left, share = filler.wanted, 0
    for count, item in enumerate(items, 1):
        left -= item.room
        if left <= 0:
            share = min(filler.wanted // count, item.room)
            break
    if share < 1:
        return None
    kept = _items(filler, domains, lower, share)
    if lower > ask.level:
        kept = _gathered(filler, kept, lower)
    chosen = _fewest(kept, filler.wanted, leads=leads)
    return None if chosen is None else _Best(share, chosen)


def _items(filler: Filler, domains: RowVec, level: int, share: int) -> list[Item]:
    """Return the domains with room for a share."""
    counts = filler.counts
    plain, beside = counts.slices[level], counts.slices_beside[level]
    return [
        Item(
            it,
            int(plain[it]),
            int(beside[it]) if beside[it] >= share else NONE,
            _spread(int(plain[it])),
        )
        for it in domains.tolist()
        if plain[it] >= share
    ]


def _spread(room: int) -> float:
    return room * log(room) if room else 0.0


def _gathered(filler: Filler, items: Sequence[Item], level: int) -> list[Item]:
    """Return the domains around some, with what those have together."""
    around: dict[int, list[Item]] = {}
    for item in items:
        around.setdefault(int(filler.tree.parent[level][item.domain]), []).append(item)
    found = []
    for domain, some in around.items():
        room = sum(it.room for it in some)
        costs = [it.room - it.beside for it in some if it.beside >= 0]
        beside = room - min(costs) if costs else NONE
        found.append(Item(domain, room, beside, sum(it.spread for it in some)))
    return found


def _fewest(items: Sequence[Item], wanted: int, *, leads: bool) -> list[Item] | None:
    """Return as few domains as hold all, of those with least room, spread most evenly."""
    ordered = sorted(items, key=lambda it: (-it.room, it.domain))
    known: dict[tuple[int, int, bool], tuple[float, tuple[Item, ...]]] = {
        (0, 0, not leads): (0.0, ())
    }
    best: tuple[int, int, float, tuple[Item, ...]] | None = None
    for item in ordered:
        options = [(item.room, False)] + ([(item.beside, True)] if item.beside >= 0 else [])
        for (count, total, has_led), (spread, chosen) in list(known.items()):
            for room, does_lead in options:
                if (does_lead and has_led) or (best is not None and count + 1 > best[0]):
                    continue
                more = (*chosen, item)
                key = count + 1, total + room, has_led or does_lead
                new = spread + item.spread
                if key[1] >= wanted:
                    rank = key[0], key[1], new
                    if key[2] and (best is None or rank < best[:3]):
                        best = *rank, more
                elif key not in known or new < known[key][0]:
                    known[key] = new, more
        if len(known) > _MOST_SUMS:
            return None
    return None if best is None else sorted(best[3])


def _divided(filler: Filler, chosen: Sequence[Item], share: int) -> list[Share] | None:
    """Give each domain its share, and what is left to those with most room."""
    leads = filler.ask.has_leader
    able = [it for it in chosen if it.beside >= 0]
    spare = sum(it.room for it in chosen) - filler.wanted
    leader = next((it for it in able if it.room - it.beside <= spare), None) if leads else None
    if not chosen or (leads and leader is None):
        return None
    left = filler.wanted - share * len(chosen)
    found = []
    for item in sorted(chosen, key=lambda it: (-it.room, it.domain)):
        room = item.beside if item is leader else item.room
        more = max(0, min(left, room - share))
        left -= more
        found.append(Share(item.domain, (share + more) * filler.size, item is leader))
    surplus = sum(it.pods for it in found) - filler.ask.pods  # the last slice may have fewer
    found[-1] = found[-1]._replace(pods=found[-1].pods - surplus)
    return found if not left else None
