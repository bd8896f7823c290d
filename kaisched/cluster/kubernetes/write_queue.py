"""Queues of writes and reports: a few are sent at a time, at a limited rate, only while we lead."""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.leader_election import Leadership

# -- writes of decisions ---------------------------------------------------------------------------

MOST_WAITING: Final = 200_000
"""Most writes that are kept; what a dropped write was for is decided again."""


class Work(Protocol):
    """A write."""

    def send(self) -> float | None:
        """Send the write; return None when done, or after how many seconds to try again."""
        ...

    def drop(self, why: str) -> None:
        """Give the write up: it will not be sent."""
        ...


class WriteQueue:
    """Sends writes in order, the lower rank first, in threads of its own."""

    def __init__(
        self,
        leadership: Leadership,
        *,
        writers: int,
        per_second: float,
        write_s: float,
    ) -> None:
        """Start the writers.

        Args:
            leadership: checked before each write.
            writers: number of threads, and so of writes under way at a time.
            per_second: most writes sent per second.
            write_s: how long a write may take; it must end while the leadership is held.

        """
        self._leadership, self._write_s = leadership, write_s
        self._gap_s = 1.0 / per_second
        self._next_s = 0.0
        self._ready: list[tuple[int, int, Work]] = []
        self._later: list[tuple[float, int, int, Work]] = []
        self._number = 0
        self._since_s: dict[int, float] = {}
        """When each unfinished write was put in, by number: the oldest first."""
        self._under_way = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._log: Any = structlog.get_logger()
        self._threads = [
            threading.Thread(target=self._run, name=f"writer-{number}", daemon=True)
            for number in range(writers)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, rank: int, work: Work, delay_s: float = 0.0) -> bool:
        """Queue a write, to be sent after ``delay_s`` at the earliest; return False if dropped."""
        with self._changed:
            is_full = len(self._ready) + len(self._later) >= MOST_WAITING
            if not is_full and not self._is_closed:
                self._number += 1
                self._since_s[self._number] = monotonic_s()
                self._enqueue(rank, self._number, work, delay_s)
                self._changed.notify()
                return True
        work.drop("too much is waiting" if is_full else "stopping")
        return False

    def _enqueue(self, rank: int, number: int, work: Work, delay_s: float) -> None:
        if delay_s > 0:
            heapq.heappush(self._later, (monotonic_s() + delay_s, rank, number, work))
        else:
            heapq.heappush(self._ready, (rank, number, work))

    @property
    def waiting(self) -> int:
        """How many writes are not done yet, including those under way."""
        with self._changed:
            return len(self._ready) + len(self._later) + self._under_way

    @property
    def oldest_s(self) -> float:
        """How long ago the oldest of them was put in, in seconds; 0 without any."""
        with self._changed:
            since_s = next(iter(self._since_s.values()), None)
        return 0.0 if since_s is None else monotonic_s() - since_s

    def close(self, patience_s: float) -> None:
        """Finish the writes under way and drop the rest."""
        with self._changed:
            self._is_closed = True
            left = [*(it[-1] for it in self._ready), *(it[-1] for it in self._later)]
            self._ready, self._later = [], []
            self._since_s.clear()
            self._changed.notify_all()
        for work in left:
            work.drop("stopping")
        end_s = monotonic_s() + patience_s
        for thread in self._threads:
            thread.join(max(end_s - monotonic_s(), 0.0))

    # -- the threads -----------------------------------------------------------------------------

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            rank, number, work = taken
            again_s: float | None = None
            try:
                if self._leadership.is_held(self._write_s):
                    again_s = work.send()
                else:
                    work.drop("we do not lead")
            except Exception as error:  # noqa: BLE001 - one bad write must not end the thread
                self._log.error("write_failed", err=f"{type(error).__name__}: {error}")
                work.drop("a bug")
            self._done(rank, number, work, again_s)

    def _done(self, rank: int, number: int, work: Work, again_s: float | None) -> None:
        with self._changed:
            self._under_way -= 1
            is_dropped = again_s is not None and self._is_closed
            if again_s is not None and not is_dropped:
                self._enqueue(rank, number, work, again_s)
                self._changed.notify()
            else:
                self._since_s.pop(number, None)
        if is_dropped:
            work.drop("stopping")

    def _take(self) -> tuple[int, int, Work] | None:
        """Wait for the next write to be sent; return None at the end."""
        with self._changed:
            while True:
                now_s = monotonic_s()
                while self._later and self._later[0][0] <= now_s:
                    _, rank, number, work = heapq.heappop(self._later)
                    heapq.heappush(self._ready, (rank, number, work))
                if self._is_closed:
                    return None
                if self._ready and self._next_s <= now_s:
                    # A thread that overslept may catch up on a tenth of a second.
                    self._next_s = max(self._next_s, now_s - 0.1) + self._gap_s
                    rank, number, work = heapq.heappop(self._ready)
                    self._under_way += 1
                    return rank, number, work
                waits = [self._later[0][0]] if self._later else []
                waits += [self._next_s] if self._ready else []
                self._changed.wait(max(min(waits) - now_s, 0.0) if waits else None)


# -- reports by due time ---------------------------------------------------------------------------
# The queue has no clock and no threads of its own: the caller gives the time.

_BUSY_S: Final = 0.05
"""Pause before an entry is taken while another part of its object is being written."""
_NEVER: Final = math.inf


class Entry(NamedTuple):
    """A part of an object whose desired status is to be compared with the current one."""

    what: int
    """The part, which also says how urgent it is."""
    key: str
    """Key of the object, unique among all kinds: only one thread at a time writes an object."""


class ReportQueue:
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


# -- the threads that write reports ----------------------------------------------------------------

WRITERS: Final = 4
"""More than one, since a server may be slow to answer."""
_GLANCE_S: Final = 0.2
"""How often to check whether we lead."""
_CATCH_UP_S: Final = 0.1
"""The writes of so long a pause may be sent at once."""


class ReportWriters:
    """Threads that write the next report whenever one is due."""

    def __init__(
        self,
        report_queue: ReportQueue,
        step: Callable[[], bool],
        leadership: Leadership,
        *,
        per_second: float,
        write_s: float,
    ) -> None:
        """Start the threads.

        Args:
            report_queue: tells when a report is due.
            step: writes the next report that is due; returns whether there was one.
            leadership: checked before each write.
            per_second: most reports written per second.
            write_s: how long a write may take; it must end while the leadership is held.

        """
        self._report_queue, self._step, self._leadership, self._write_s = (
            report_queue,
            step,
            leadership,
            write_s,
        )
        self._gap_s, self._next_s = 1.0 / per_second, 0.0
        self._rate, self._end = threading.Lock(), threading.Event()
        self._log: Any = structlog.get_logger()
        self._threads = [
            threading.Thread(target=self._run, name=f"reports-{number}", daemon=True)
            for number in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Write nothing more; writes under way are not awaited."""
        self._end.set()
        self._report_queue.clear()
        with self._report_queue.news:
            self._report_queue.news.notify_all()

    def _run(self) -> None:
        while not self._end.is_set():
            if not self._leadership.is_held(self._write_s):
                self._end.wait(_GLANCE_S)
                continue
            self._await_news()
            if not self._has_turn() or not self._leadership.is_held(self._write_s):
                continue
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - one bad report must not end the writer
                self._log.error("write_failed", err=f"{type(error).__name__}: {error}")

    def _await_news(self) -> None:
        """Wait until a report is due, or for a while."""
        due_s = self._report_queue.next_s()
        wait_s = _GLANCE_S if due_s is None else min(due_s - monotonic_s(), _GLANCE_S)
        if wait_s > 0:
            with self._report_queue.news:
                self._report_queue.news.wait(wait_s)

    def _has_turn(self) -> bool:
        """Wait until one more may be sent; return False if none is due, or at the end."""
        now_s = monotonic_s()
        with self._rate:
            due_s = self._report_queue.next_s()
            if due_s is None or due_s > now_s:
                return False
            mine_s = max(self._next_s, now_s - _CATCH_UP_S)
            self._next_s = mine_s + self._gap_s
        return not self._end.wait(max(mine_s - now_s, 0.0))
