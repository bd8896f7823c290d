"""How many pods with equal claims each node has devices for, kept up with a cycle's moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.claims.counting import MOST, counted, pods_with
from kaisched.core.claims.model import ClaimError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import BoolVec, IntVec
    from kaisched.core.claims.counting import Counted
    from kaisched.core.claims.model import Claim, Named, Site
    from kaisched.core.claims.table import ClaimTable, Holdings
    from kaisched.core.constraints import ClaimUse

UNKNOWN: Final = -1
_ANY: Final = 1 << 40
"""As many pods as like to: they need one claim, which they share."""
_MANY: Final = 64
"""So many nodes are counted by what their devices look like, not one by one."""


class Wanted(NamedTuple):
    """The claims of pods that have no devices yet."""

    first: Sequence[Claim]
    """Those of the first pod."""
    further: Sequence[Claim] | None
    """Those of each pod after it; None for the same. A claim that they share is had once."""


class Room:
    """How many pods with equal claims each node has devices for."""

    __slots__ = ("later", "now")

    def __init__(self, nodes: int) -> None:
        """Know nothing yet."""
        self.now: IntVec = np.full(nodes, UNKNOWN, np.int64)
        """``(N,)``"""
        self.later: IntVec = self.now.copy()
        """``(N,)`` once leaving pods have left."""

    def missing(self, allowed: BoolVec) -> list[int]:
        """Return the allowed nodes whose number is not known."""
        rows: list[int] = (allowed & (self.now == UNKNOWN)).nonzero()[0].tolist()
        return rows


class DeviceRooms:
    """The rooms of all claims that were asked about."""

    def __init__(self, table: ClaimTable, sites: Sequence[Site]) -> None:
        """Know nothing yet."""
        self._table, self._sites = table, sites
        self._rooms: dict[tuple[ClaimUse, ...], Room] = {}
        self._keyed: list[tuple[ClaimUse, ...]] = []
        """Those of them with claims that have a key."""
        self._looks: dict[Named, IntVec] = {}
        """``(N,)`` by the fields that are named, the number of what the devices look like."""
        self.faults: dict[tuple[ClaimUse, ...], str] = {}
        """Why claims cannot be allocated at all."""

    def get(self, uses: tuple[ClaimUse, ...]) -> Room | None:
        """Return the room for pods with such claims, if it was asked about."""
        return self._rooms.get(uses)

    def made(self, uses: tuple[ClaimUse, ...]) -> Room:
        """Return the room for pods with such claims; nothing is counted."""
        room = self._rooms.get(uses)
        if room is None:
            room = self._rooms[uses] = Room(len(self._sites))
            if any(it.key for it in uses):
                self._keyed.append(uses)
        return room

    def drop(self, uses: tuple[ClaimUse, ...]) -> None:
        """Forget the room for pods with such claims."""
        self._rooms.pop(uses, None)
        if uses in self._keyed:
            self._keyed.remove(uses)

    def count(
        self,
        uses: tuple[ClaimUse, ...],
        wanted: Wanted,
        missing: list[int],
        books: tuple[Holdings, Holdings | None],
        fits: IntVec | None = None,
    ) -> None:
        """Count on nodes where the number is not known, by what is taken now and later.

        The second book is None if it is the same as the first. ``fits`` ``(N,)`` is how many pods
        have room on each node apart from devices: it is needed where several nodes can use a
        device.
        """
        room, (now, later) = self.made(uses), books
        table = self._table
        is_plain = missing and table.offer.is_local and wanted.further is None
        count = counted(table.offer, wanted.first, table.selectors) if is_plain else None
        try:
            self._fill(room.now, missing, wanted, now, count, fits)
            if later is None:
                room.later[missing] = room.now[missing]
            else:
                self._fill(room.later, missing, wanted, later, count, fits)
            self.faults.pop(uses, None)
        except ClaimError as error:
            self.faults[uses] = str(error)

    def _fill(
        self,
        column: IntVec,
        missing: list[int],
        wanted: Wanted,
        book: Holdings,
        count: Counted | None,
        fits: IntVec | None,
    ) -> None:
        offer, selectors = self._table.offer, self._table.selectors
        if count is not None and len(missing) > _MANY and not count.is_of_parts:
            missing = self._fill_alike(column, missing, book, count)
        # Devices that several nodes can use are counted for the first of them only, and for no more
        # pods than have room there. A node without room keeps them from no other. Pods that share a
        # claim go to one node: it may be any.
        mine = None if offer.is_local or wanted.further is not None else book.copy()
        for row in missing:
            site = self._sites[row]
            number = None if count is None else count(site, book.taken)
            if number is None:
                most = MOST if mine is None or fits is None else int(fits[row])
                free = book.copy() if mine is None or not most else mine
                if wanted.further == []:
                    number = _ANY * pods_with(offer, site, wanted.first, selectors, free, 1)
                else:
                    number = pods_with(
                        offer, site, wanted.first, selectors, free, most or MOST, wanted.further
                    )
            column[row] = number

    def _fill_alike(
        self, column: IntVec, missing: list[int], book: Holdings, count: Counted
    ) -> list[int]:
        """Count together on nodes where nothing is taken; return the rows of the others."""
        looks = self._looks.get(count.named)
        if looks is None:
            numbers = [self._table.offer.look(site, count.named) for site in self._sites]
            looks = self._looks[count.named] = np.array(numbers, np.int64)
        distinct, first, which = np.unique(looks[missing], return_index=True, return_inverse=True)
        found = [
            count.on_untaken(self._sites[missing[at]], look)
            for at, look in zip(first.tolist(), distinct.tolist(), strict=True)
        ]
        numbers = [UNKNOWN if it is None else it for it in found]
        column[missing] = np.array(numbers, np.int64)[which]
        taken = self._table.offer.nodes_of(book.taken.devices)
        return [row for row in missing if column[row] == UNKNOWN or self._sites[row].name in taken]

    def forget(self, node: int) -> None:
        """Count again where devices may have changed hands."""
        if not self._table.offer.is_local:
            self._rooms.clear()
            self._keyed.clear()
            return
        for uses in self._keyed:
            del self._rooms[uses]
        self._keyed.clear()
        for room in self._rooms.values():
            room.now[node] = room.later[node] = UNKNOWN
