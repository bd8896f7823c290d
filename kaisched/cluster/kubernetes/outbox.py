"""Queue of writes: a few are sent at a time, at a limited rate, only while we lead."""

from __future__ import annotations

import heapq
import threading
from typing import Any, Final, Protocol

import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.gate import Gate

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


class Outbox:
    """Sends writes in order, the lower rank first, in threads of its own."""

    def __init__(
        self, gate: Gate, *, writers: int, per_second: float, write_s: float, name: str = "writer"
    ) -> None:
        """Start the writers.

        Args:
            gate: checked before each write.
            writers: number of threads, and so of writes under way at a time.
            per_second: most writes sent per second.
            write_s: how long a write may take; it must end while the gate is open.
            name: of the threads.

        """
        self._gate, self._write_s = gate, write_s
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
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
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
                if self._gate.is_open(self._write_s):
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
