"""Which objects are to be looked at, and when: one entry an object, however often it changes.

No time passes in here: the box is told what time it is, and by whom it is asked does not matter.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kaisched.clock import monotonic_s

_BUSY_S: Final = 0.05
"""When to look again at an object that somebody is writing just now."""
_NEVER: Final = math.inf


class Entry(NamedTuple):
    """Something that is said of an object, to be compared with what the object says."""

    what: int
    """Which part of it is to be said, and how urgent that is."""
    key: str
    """Of the object, unlike that of any other of any kind: only one writes it at a time."""


class ReportBox:
    """Entries by when they are due. For any number of threads.

    Of all kinds that have something due, each is served in proportion to its weight, so that none
    stands behind thousands of another. ``news`` is notified when something new is due.
    """

    def __init__(self, weights: Mapping[int, int], now: Callable[[], float] = monotonic_s) -> None:
        """Hold nothing yet.

        Args:
            weights: by what is said, the share of the writes it has while others wait too.
            now: the time on the monotonic clock.

        """
        self.now, self._weights = now, dict(weights)
        self._due_s: dict[Entry, float] = {}
        self._since_s: dict[Entry, float] = {}
        """When each was put in first: the oldest first."""
        self._heaps: dict[int, list[tuple[float, int, Entry]]] = {what: [] for what in weights}
        self._served: dict[int, float] = dict.fromkeys(weights, 0.0)
        self._virtual, self._number = 0.0, 0
        self._busy: set[str] = set()
        self._paused_s = 0.0
        self.news = threading.Condition()

    def put(self, entry: Entry, due_s: float) -> None:
        """Have an entry looked at when it is due; it may be in here already."""
        with self.news:
            self._since_s.setdefault(entry, self.now())
            if self._due_s.get(entry) != due_s:
                self._due_s[entry] = due_s
                self._number += 1
                heapq.heappush(self._heaps[entry.what], (due_s, self._number, entry))
                self.news.notify()

    def settle(self, entry: Entry) -> None:
        """Forget an entry: there is nothing to be said any more."""
        with self.news:
            self._due_s.pop(entry, None)
            self._since_s.pop(entry, None)

    def pause(self, seconds: float) -> None:
        """Let nothing be due for a while: the server is in trouble."""
        with self.news:
            self._paused_s = max(self._paused_s, self.now() + seconds)

    def take(self) -> Entry | None:
        """Return an entry that is due, None without any; :meth:`done` must follow."""
        with self.news:
            now_s = self.now()
            if now_s < self._paused_s:
                return None
            while ready := [what for what in self._heaps if self._first_s(what) <= now_s]:
                what = min(ready, key=lambda it: (max(self._served[it], self._virtual), it))
                _, _, entry = heapq.heappop(self._heaps[what])
                if entry.key in self._busy:
                    self._due_s[entry] = now_s + _BUSY_S
                    self._number += 1
                    heapq.heappush(self._heaps[what], (now_s + _BUSY_S, self._number, entry))
                    continue
                self._virtual = max(self._served[what], self._virtual)
                self._served[what] = self._virtual + 1.0 / self._weights[what]
                del self._due_s[entry]
                self._busy.add(entry.key)
                return entry
            return None

    def done(self, entry: Entry) -> None:
        """Let others take what is said of this object; forget the entry unless it was put again."""
        with self.news:
            self._busy.discard(entry.key)
            if entry not in self._due_s:
                self._since_s.pop(entry, None)
            self.news.notify()

    def next_s(self) -> float | None:
        """Return when the next entry is due, None without any."""
        with self.news:
            first_s = min((self._first_s(what) for what in self._heaps), default=_NEVER)
            return None if first_s == _NEVER else max(first_s, self._paused_s)

    @property
    def waiting(self) -> int:
        """How many entries there are, what is being written included."""
        with self.news:
            return len(self._due_s) + len(self._busy)

    @property
    def oldest_s(self) -> float:
        """How long ago the oldest of these was put in, in seconds; 0 without any.

        One whose write is tried again and again has waited since the first time.
        """
        with self.news:
            since_s = next(iter(self._since_s.values()), None)
        return 0.0 if since_s is None else self.now() - since_s

    def clear(self) -> None:
        """Forget everything."""
        with self.news:
            self._due_s.clear()
            self._since_s.clear()
            for heap in self._heaps.values():
                heap.clear()

    def _first_s(self, what: int) -> float:
        """Return when the first entry of a kind is due; drop what was put in anew since."""
        heap = self._heaps[what]
        while heap and self._due_s.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else _NEVER
