"""Counts whether units, once gone, leave room for a claim: by amounts, node by node.

The count is exact for a claim of equal pods that only amounts and fixed filters decide on. For any
other claim it is a necessary condition; only placing the claim decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.actions.room.future import Future
    from kaisched.framework.session.capacity import Asked, NodeRoom
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Unit


class Need:
    """Counts room for pods of one shape, with the units taken so far gone."""

    __slots__ = (
        "_capacity",
        "_node_of_task",
        "_requests",
        "_rooms",
        "_session",
        "count",
        "future",
        "room_at",
        "total",
    )

    def __init__(self, session: Session, future: Future, count: int) -> None:
        """Start with nothing taken."""
        self._session = session
        self._capacity = session.capacity
        self._node_of_task = session.ledger.node_of_task
        self.future = future
        self._rooms: dict[int, NodeRoom] = {}
        self._requests: dict[int, Asked] = {}
        self.count = count
        self.total = future.total
        self.room_at: dict[int, int] = {}
        """By node with pods of a taken unit: how many pods fit."""

    @property
    def is_met(self) -> bool:
        """True when all pods fit."""
        return self.total >= self.count

    def take(self, tasks: tuple[int, ...]) -> None:
        """Count the room of a unit as free."""
        self.shift(tasks, 1)

    def give_back(self, tasks: tuple[int, ...]) -> None:
        """Undo :meth:`take`."""
        self.shift(tasks, -1)

    def gain(self, units: Iterable[Unit]) -> int:
        """Return how many of the missing pods would fit without these units."""
        tasks = tuple(task for unit in units for task in unit.tasks)
        before = self.total
        self.take(tasks)
        gained = min(self.total, self.count) - before
        self.give_back(tasks)
        return gained

    def nodes_with_room(self) -> list[int]:
        """Return the nodes of ``room_at`` on which a pod fits, lowest row first."""
        return sorted(node for node, room in self.room_at.items() if room)

    def shift(self, tasks: tuple[int, ...], sign: int) -> None:
        """Count the room of a unit as free (1), or as held again (-1)."""
        node_of_task, shape_of_task = self._node_of_task, self._session.tasks.shape_of_task
        allowed = self.future.allowed
        for task in tasks:
            node = int(node_of_task[task])
            if node < 0 or (allowed is not None and not allowed[node]):
                continue
            here = self._rooms.get(node)
            if here is None:
                here = self._rooms[node] = self._capacity.on(node)
                self.room_at[node] = int(self.future.room[node])
            shape = int(shape_of_task[task])
            request = self._requests.get(shape)
            if request is None:
                request = self._requests[shape] = self._capacity.asked(shape)
            here.shift(request, sign)
            room = here.pods(self.future.asked)
            self.total += room - self.room_at[node]
            self.room_at[node] = room


def take_all(needs: Iterable[Need], units: Iterable[Unit], sign: int) -> None:
    """Count the room of units as free for several needs (1), or undo that (-1)."""
    for unit in units:
        for need in needs:
            need.shift(unit.tasks, sign)
