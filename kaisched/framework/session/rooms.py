"""How many more pods of each shape every node's amounts allow: one table, kept between cycles.

The table is a hint. Each session compares it with the nodes' versions, and rows changed by
tentative moves are marked unknown. So its answers are always those of a fresh table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.devices import changed_cards
from kaisched.framework.session.capacity import divisors, pods_in

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.devices import CardTable
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity

_UNKNOWN: Final = -1
_FEW: Final = 8
"""So many rows of cards are faster as plain numbers, one by one."""
_SPARE: Final = 256
"""With more shapes than this, the table checks whether most of them are still asked about."""


class Rooms:
    """Room ``(S', N)`` of the shapes asked about, from amounts alone."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Start with no shapes."""
        self._statics = snapshot.nodes.statics
        self._generation = snapshot.generation
        self._resources = len(snapshot.axis)
        count = len(snapshot.nodes)
        self.rows: RowVec = np.arange(count)
        self.none: IntVec = np.zeros(count, np.int64)
        self.rows.setflags(write=False)
        self.none.setflags(write=False)
        """``(N,)`` every node row, and nothing on each of them: for questions about all nodes."""
        self.slot_of_shape: dict[int, int] = {}
        self._shapes: list[int] = []
        """The shape of each slot."""
        self._cards: CardTable | None = None
        """The cards that the room was computed with."""
        self._slots: IntVec = np.zeros(0, np.int64)
        """The same as a column, for many shapes at once."""
        self._missing = 0
        """How many shapes of that column have no slot yet."""
        self.room: IntVec = np.zeros((0, count), np.int64)
        self.total: IntVec = np.zeros(0, np.int64)
        """``(S',)`` pods that fit over all nodes."""
        self._divisor: Amounts = np.ones((self._resources, 0), np.int64)
        self._bonus: Amounts = np.zeros((self._resources, 0), np.int64)
        self._version: IntVec = np.full(count, _UNKNOWN, np.int64)
        self._seen: list[int] = []
        """Per slot, how much of the capacity's touched rows it has taken in."""
        self._touched: list[int] = []
        self.turn = 0
        """Counts sessions: a record that is read late must not see the amounts of a later one."""
        self._asked: set[int] = set()
        """The slots asked about since the last session began."""

    def serves(self, snapshot: Snapshot) -> bool:
        """Tell whether this table is about the same nodes and shape numbers."""
        return (
            self._statics is snapshot.nodes.statics
            and self._generation == snapshot.generation
            and self._resources == len(snapshot.axis)
            and not self._is_bloated()
        )

    def _is_bloated(self) -> bool:
        """Tell whether the table is large and little of it is used.

        A user who makes ever new shapes would otherwise have all of them updated for ever. If no
        shape was asked about, the cluster was full, and the whole table was used.
        """
        return len(self.slot_of_shape) > _SPARE and 0 < 4 * len(self._asked) < len(
            self.slot_of_shape
        )

    def begin(self, snapshot: Snapshot, capacity: Capacity) -> None:
        """Update rows that changed since the last cycle, its tentative moves included."""
        self.turn += 1
        self._asked = set()
        nodes = snapshot.nodes
        if self._cards is not nodes.cards:
            self._version[changed_cards(self._cards, nodes.cards)] = _UNKNOWN
            self._cards = nodes.cards
        if self._touched:
            self._version[self._touched] = _UNKNOWN
            self._seen = [0] * len(self._seen)
        self._touched = capacity.touched
        changed = (self._version != nodes.version).nonzero()[0]
        if changed.size:
            self._version = nodes.version.copy()
            self._refresh(changed, capacity)

    def is_full(self, shapes: int) -> bool:
        """Tell whether all of so many shapes have been asked about and none of them has room."""
        return len(self.slot_of_shape) == shapes and not np.count_nonzero(self.total)

    def catch_up(self, slot: int, capacity: Capacity) -> None:
        """Update one shape with the moves since its last update."""
        touched = self._touched = capacity.touched
        seen = self._seen[slot]
        if len(touched) == seen:
            return
        self._seen[slot] = len(touched)
        room = self.room[slot]
        nodes = set(touched[seen:])
        if len(nodes) <= (1 if self._cards is None else _FEW):
            for node in nodes:
                fits = capacity.pods_now(self._shapes[slot], node)
                self.total[slot] += fits - room[node]
                room[node] = fits
            return
        rows = np.array(sorted(nodes), np.int64)
        free = capacity.unpromised(rows)
        fresh = pods_in(free, self._divisor[:, slot, None], self._bonus[:, slot, None])
        fresh = capacity.limited_now(self._shapes[slot], rows, fresh)
        self.total[slot] += fresh.sum() - room[rows].sum()
        room[rows] = fresh

    def slots(self, shapes: RowVec, snapshot: Snapshot, capacity: Capacity) -> RowVec:
        """``(K,)`` slots of shapes; shapes that were not asked about before are added."""
        self._reach(snapshot.shapes.request.shape[1])
        slots = self._slots[shapes]
        if self._missing and slots.size and np.minimum.reduce(slots) < 0:
            self.add(np.unique(shapes[slots < 0]).tolist(), snapshot, capacity)
            slots = self._slots[shapes]
        if len(self.slot_of_shape) > _SPARE:
            self._asked.update(slots.tolist())
        if capacity.touched:
            for slot in np.unique(slots).tolist():
                self.catch_up(slot, capacity)
        return slots

    def add(self, shapes: list[int], snapshot: Snapshot, capacity: Capacity) -> None:
        """Add shapes that were not asked about before."""
        new = [shape for shape in shapes if shape not in self.slot_of_shape]
        if not new:
            return
        first = len(self.slot_of_shape)
        self._reach(max(new) + 1)
        self._missing -= len(new)
        for offset, shape in enumerate(new):
            self.slot_of_shape[shape] = self._slots[shape] = first + offset
            self._shapes.append(shape)
        divisor, bonus = divisors(snapshot.shapes.request[:, new])
        self._divisor = np.concatenate((self._divisor, divisor), axis=1)
        self._bonus = np.concatenate((self._bonus, bonus), axis=1)
        self._touched = capacity.touched  # the amounts below are tentative in these rows
        free = capacity.unpromised(self.rows)
        # One shape at a time: (R, S', N) at once would not fit a cache, nor 600 MB.
        added = np.stack(
            [
                capacity.limited_now(
                    shape, self.rows, pods_in(free, divisor[:, i, None], bonus[:, i, None])
                )
                for i, shape in enumerate(new)
            ]
        )
        self.room = np.concatenate((self.room, added))
        self.total = np.concatenate((self.total, added.sum(axis=1)))
        self._seen.extend([len(capacity.touched)] * len(new))

    def _reach(self, count: int) -> None:
        """Make the column of slots long enough for ``count`` shapes."""
        missing = count - len(self._slots)
        if missing > 0:
            more = np.full(missing, _UNKNOWN, np.int64)
            self._slots = np.concatenate((self._slots, more))
            self._missing += missing

    def _refresh(self, rows: RowVec, capacity: Capacity) -> None:
        if not self.slot_of_shape:
            return
        free = capacity.unpromised(rows)
        if len(rows) == 1 and self._cards is None:  # columns as views: a third of the time
            node = int(rows[0])
            fits = pods_in(free, self._divisor, self._bonus)
            self.total += fits - self.room[:, node]
            self.room[:, node] = fits
            return
        quotient = free[:, None, :] // self._divisor[:, :, None]
        quotient += self._bonus[:, :, None]
        fresh = np.minimum.reduce(quotient, axis=0)
        np.maximum(fresh, 0, out=fresh)
        if self._cards is not None:
            for slot, shape in enumerate(self._shapes):
                fresh[slot] = capacity.limited_now(shape, rows, fresh[slot])
        self.total += np.add.reduce(fresh - self.room.take(rows, axis=1), axis=1)
        self.room[:, rows] = fresh
