"""The event heap: what is due at which tick of virtual time.

Events of one tick are kept together in a list, so the heap holds each tick once and a tick is taken
out as a whole. Within a tick, events come out in the order they went in: nothing depends on chance.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kaisched.sim.grid import NEVER


class EventHeap:
    """Plain integers due at ticks. An event is never removed: its owner ignores what is stale."""

    __slots__ = ("_due", "_ticks")

    def __init__(self) -> None:
        """Begin with nothing due."""
        self._due: dict[int, list[int]] = {}
        self._ticks: list[int] = []

    def __len__(self) -> int:
        """Return how many events are due at any time."""
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
        """Take out what is due at exactly this tick, which must be the earliest one or earlier."""
        if not self._ticks or self._ticks[0] != tick:
            return []
        heappop(self._ticks)
        return self._due.pop(tick)
