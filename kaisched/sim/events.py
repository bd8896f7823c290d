"""Heap of events by the tick of virtual time at which they are due.

Events of one tick are kept in one list, so the heap holds each tick once and a tick is taken as a
whole. Within a tick, events keep the order in which they were added.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kaisched.sim.grid import NEVER


class EventHeap:
    """Integers due at ticks. An event is never removed: its owner ignores stale ones."""

    __slots__ = ("_due", "_ticks")

    def __init__(self) -> None:
        """Start empty."""
        self._due: dict[int, list[int]] = {}
        self._ticks: list[int] = []

    def __len__(self) -> int:
        """Return the number of pending events."""
        return sum(map(len, self._due.values()))

    def add(self, tick: int, event: int) -> None:
        """Make an event due at a tick."""
        due = self._due.get(tick)
        if due is None:
            self._due[tick] = [event]
            heappush(self._ticks, tick)
        else:
            due.append(event)

    @property
    def next_tick(self) -> int:
        """The earliest tick with an event, :data:`NEVER` without any."""
        return self._ticks[0] if self._ticks else NEVER

    def take(self, tick: int) -> list[int]:
        """Remove and return the events of this tick, before which none may be due."""
        if not self._ticks or self._ticks[0] != tick:
            return []
        heappop(self._ticks)
        return self._due.pop(tick)
