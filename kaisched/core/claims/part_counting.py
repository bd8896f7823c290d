"""Counts how many pods find parts of a node's devices, by what each device has left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kaisched.core.claims.consumed import consumed_by, fits
from kaisched.core.claims.model import Ask, Identity, Selector, Site, Taken
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import tolerates_all

MOST_PODS: Final = 1 << 16
"""Counted at most: a claim may take nothing of what a device has."""


class _Source(NamedTuple):
    """A device that does for a request."""

    identity: Identity
    takes: tuple[tuple[str, int, int], ...] | None
    """(capacity, what a pod takes of it, all of it); None for a device of one claim."""

    def room(self, consumed: Mapping[str, int]) -> int:
        """Return how many pods have room on it; of an untouched device of one claim it is one."""
        if self.takes is None:
            return 1
        rooms = [
            (whole - consumed.get(name, 0)) // amount
            for name, amount, whole in self.takes
            if amount
        ]
        return min(max(min(rooms), 0), MOST_PODS) if rooms else MOST_PODS


class Parts:
    """Counts pods with a plain request, some of whose devices several claims may have."""

    def __init__(self, offer: Offer, ask: Ask, expressions: Sequence[Selector]) -> None:
        """Look at no device yet."""
        self._offer, self._ask, self._expressions = offer, ask, expressions
        self._known: dict[str, tuple[_Source, ...] | None] = offer.remembered_parts(ask)

    def __call__(self, site: Site, taken: Taken) -> int | None:
        """Return how many pods find devices on a node, one after the other.

        None for a node that needs a search.
        """
        if site.name not in self._known:
            self._known[site.name] = self._sources(site)
        sources = self._known[site.name]
        if sources is None:
            return None
        rooms = [
            it.room(taken.consumed.get(it.identity, {}))
            for it in sources
            if it.identity not in taken.devices
        ]
        return min(_pods(rooms, self._ask.count), MOST_PODS)

    def _sources(self, site: Site) -> tuple[_Source, ...] | None:
        found = []
        for pool in self._offer.pools(site):
            for one, device in pool.devices:
                if not all(it.matches(device) for it in self._expressions):
                    continue
                if device.counters or one.place is None:
                    return None
                taken = consumed_by(self._ask, device)
                if (
                    taken is None
                    or not fits(taken, device, {})
                    or not tolerates_all(self._ask.tolerations, device)
                ):
                    continue
                takes = tuple(
                    (name, amount.nanos, device.capacities[name].value.nanos)
                    for name, amount in taken.items()
                )
                found.append(_Source(device.identity, takes if device.is_shared else None))
        return tuple(found)


def _pods(rooms: list[int], count: int) -> int:
    """Return how many pods get so many devices each: always the first that have room."""
    if count == 1:
        return sum(rooms)
    pods = 0
    while True:
        first = [at for at, room in enumerate(rooms) if room > 0][:count]
        if len(first) < count:
            return pods
        step = min(rooms[at] for at in first)
        pods += step
        for at in first:
            rooms[at] -= step
