"""Pace of the pages of the live view: what readers take leaves the loop its time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kaisched.clock import SystemClock, monotonic_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.clock import Clock

REST: Final = 9.0
"""After a list the server rests so many times as long: lists take a tenth of the time."""
REST_OF_ONE: Final = 19.0
"""The same after the page of one job or queue: these take a twentieth, on average."""
AHEAD_S: Final = 0.5
"""Pages of one job or queue may take so much at once, in seconds, where none was asked for lately.
A person asks a few times, looks, and goes; a pause before the second page would be for nothing."""
_MOST_REST_S: Final = 5.0


class _Lane:
    """Readers who wait for each other's pauses."""

    def __init__(self, rest: float, ahead_s: float) -> None:
        self.lock = threading.Lock()
        self.until_s = float("-inf")
        self._rest, self._ahead_s = rest, ahead_s

    def took(self, start_s: float, end_s: float) -> None:
        """Note a page: it and its pause begin where the pauses of those before it end."""
        took_s = end_s - start_s
        since_s = max(self.until_s, start_s - self._rest * self._ahead_s)
        self.until_s = since_s + took_s + min(self._rest * took_s, _MOST_REST_S)


class Pacer:
    """Lets one page be made at a time, with pauses in between; lists delay no page of one job."""

    def __init__(
        self, clock: Clock | None = None, now_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Start rested."""
        self._clock, self._now_s = clock or SystemClock(), now_s
        self._making = threading.Lock()
        self._lists, self._ones = _Lane(REST, 0.0), _Lane(REST_OF_ONE, AHEAD_S)

    @contextmanager
    def turn(self, *, is_of_one: bool = False) -> Iterator[None]:
        """Wait for a turn, and note how long it takes."""
        lane = self._ones if is_of_one else self._lists
        with lane.lock:
            self._clock.sleep(lane.until_s - self._now_s())
            with self._making:
                start_s = self._now_s()
                try:
                    yield
                finally:
                    lane.took(start_s, self._now_s())
