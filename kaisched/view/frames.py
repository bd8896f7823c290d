"""Frames: views of earlier cycles of a simulation, so that it can be played back.

When they are too many, every other one goes, and the time between two doubles.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kaisched.view.history import NO_HISTORY, History
from kaisched.view.shown import envelope, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.view.live import LiveView
    from kaisched.view.reading import Reading

MOST_FRAMES: Final = 120
LEAST_S: Final = 60.0
"""Shortest virtual time between two frames."""


class Frames:
    """Keeps the views in the thread that makes them; any thread may read the list."""

    def __init__(self, most: int) -> None:
        """Start without frames, to keep so many at most; 0 keeps none."""
        self._most, self._gap_s = most, LEAST_S
        self.kept: tuple[LiveView, ...] = ()

    def add(self, view: LiveView) -> None:
        """Keep a view if it is time."""
        kept = self.kept
        if not self._most or (kept and view.time_s - kept[-1].time_s < self._gap_s):
            return
        # Its history would keep decisions that are forgotten otherwise.
        kept = (*kept, replace(view, history=NO_HISTORY))
        if len(kept) > self._most:
            kept, self._gap_s = kept[::2], self._gap_s * 2
        self.kept = kept


def view_at(kept: Sequence[LiveView], cycle: int, now: LiveView) -> LiveView:
    """Return the last view up to a cycle, else the first, with the history up to there.

    ``now`` is the latest view; history goes back as far as it does there.
    """
    every = [*kept, now]
    found = every[max(bisect_right([it.cycle for it in every], cycle) - 1, 0)]
    if found is now:
        return now
    end, end_s = found.cycle, found.time_s
    history = History(
        tuple(it for it in now.history.decisions if it.cycle <= end),
        tuple(it for it in now.history.cycles if it.cycle <= end),
        tuple(it for it in now.history.samples if it.time_s <= end_s),
    )
    return replace(found, history=history)


def frames_document(reading: Reading, kept: Sequence[LiveView]) -> dict[str, Any]:
    """Return the cycles that can be looked at, the earliest first."""
    return {
        **envelope(reading.view),
        "frames": [{"cycle": it.cycle, "time": stamp(it.time_s)} for it in kept],
    }
