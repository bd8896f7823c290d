"""Queue of reports by due time: one entry per part of an object, however often it changes.

The queue has no clock and no threads of its own: the caller gives the time.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kaisched.clock import monotonic_s

_BUSY_S: Final = 0.05
"""Pause before an entry is taken while another part of its object is being written."""
_NEVER: Final = math.inf


class Entry(NamedTuple):
    """A part of an object whose desired status is to be compared with the current one."""

    what: int
    """The part, which also says how urgent it is."""
    key: str
    """Key of the object, unique among all kinds: only one thread at a time writes an object."""


class ReportBox:
    """Entries by due time. For any number of threads.

    Parts with due entries share the writes in proportion to their weights, so that none waits
    behind thousands of another. ``news`` is notified when a new entry is due.
    """

    def __init__(self, weights: Mapping[int, int], now: Callable[[], float] = monotonic_s) -> None:
        """Begin without entries.

        Args:
            weights: by part, its share of the writes while several are due.
            now: the time on the monotonic clock.

        """
        self.now, self._weights = now, dict(weights)
        self._due_s: dict[Entry, float] = {}
        self._since_s: dict[Entry, float] = {}
        """When each entry was first put in, the oldest first."""
        self._heaps: dict[int, list[tuple[float, int, Entry]]] = {what: [] for what in weights}
        self._served: dict[int, float] = dict.fromkeys(weights, 0.0)
        self._virtual, self._number = 0.0, 0
        self._busy: set[str] = set()
        self._paused_s = 0.0
        self.news = threading.Condition()

    def put(self, entry: Entry, due_s: float) -> None:
        """Put an entry in for a time, or move it there."""
        with self.news:
            self._since_s.setdefault(entry, self.now())
            if self._due_s.get(entry) != due_s:
                self._due_s[entry] = due_s
                self._number += 1
                heapq.heappush(self._heaps[entry.what], (due_s, self._number, entry))
                self.news.notify()

    def settle(self, entry: Entry) -> None:
        """Forget an entry: its object needs no write."""
        with self.news:
            self._due_s.pop(entry, None)
            self._since_s.pop(entry, None)

    def pause(self, seconds: float) -> None:
        """Make nothing due for a while: the server is in trouble."""
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
        """Release the object of an entry; forget the entry unless it was put in again."""
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
        """How many entries there are, including those being written."""
        with self.news:
            return len(self._due_s) + len(self._busy)

    @property
    def oldest_s(self) -> float:
        """How long ago the oldest entry was put in, in seconds; 0 without any.

        An entry whose write is tried again has waited since the first try.
        """
        with self.news:
            since_s = next(iter(self._since_s.values()), None)
        return 0.0 if since_s is None else self.now() - since_s

    def clear(self) -> None:
        """Forget all entries."""
        with self.news:
            self._due_s.clear()
            self._since_s.clear()
            for heap in self._heaps.values():
                heap.clear()

    def _first_s(self, what: int) -> float:
        """Return when the first entry of a part is due; drop outdated places in the heap."""
        heap = self._heaps[what]
        while heap and self._due_s.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else _NEVER
