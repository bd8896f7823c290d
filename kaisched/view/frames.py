"""Frames: views of earlier cycles of a simulation, so that it can be played back.

When they are too many, every other one goes, and the time between two doubles. They are kept
packed: as arrays, each would hold as much as a snapshot of its own.
"""

from __future__ import annotations

import io
import pickle
import zlib
from bisect import bisect_right
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.view.history import NO_HISTORY, History
from kaisched.view.shown import envelope, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.view.live import LiveView
    from kaisched.view.reading import Reading

MOST_FRAMES: Final = 120
LEAST_S: Final = 60.0
"""Shortest virtual time between two frames."""
_FAST: Final = 1


class Frame(NamedTuple):
    """The view of one cycle, packed, without the history."""

    cycle: int
    time_s: float
    packed: bytes

    @classmethod
    def of(cls, view: LiveView) -> Frame:
        """Pack a view. Its history would keep decisions that are forgotten otherwise."""
        plain = io.BytesIO()
        _Pickler(plain, pickle.HIGHEST_PROTOCOL).dump(replace(view, history=NO_HISTORY))
        return cls(view.cycle, view.time_s, zlib.compress(plain.getbuffer(), _FAST))

    def view(self) -> LiveView:
        """Return the view again."""
        found: LiveView = pickle.loads(zlib.decompress(self.packed))  # noqa: S301 - our own bytes
        return found


class _Pickler(pickle.Pickler):
    """Pickler that knows views of dicts."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, MappingProxyType):
            return _read_only, (dict(obj),)
        return NotImplemented


def _read_only(items: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(items)


class Frames:
    """Keeps the frames in the thread that makes them; any thread may read the list."""

    def __init__(self, most: int) -> None:
        """Start without frames, to keep so many at most; 0 keeps none."""
        self._most, self._gap_s = most, LEAST_S
        self.kept: tuple[Frame, ...] = ()

    def add(self, view: LiveView) -> None:
        """Keep a view if it is time."""
        kept = self.kept
        if not self._most or (kept and view.time_s - kept[-1].time_s < self._gap_s):
            return
        kept = (*kept, Frame.of(view))
        if len(kept) > self._most:
            kept, self._gap_s = kept[::2], self._gap_s * 2
        self.kept = kept


def view_at(kept: Sequence[Frame], cycle: int, now: LiveView) -> LiveView:
    """Return the last view up to a cycle, else the first, with the history up to there.

    ``now`` is the latest view; history goes back as far as it does there.
    """
    every = [*(it.cycle for it in kept), now.cycle]
    at = max(bisect_right(every, cycle) - 1, 0)
    if at == len(kept):
        return now
    end, end_s = kept[at].cycle, kept[at].time_s
    history = History(
        tuple(it for it in now.history.decisions if it.cycle <= end),
        tuple(it for it in now.history.cycles if it.cycle <= end),
        tuple(it for it in now.history.samples if it.time_s <= end_s),
    )
    return replace(kept[at].view(), history=history)


def frames_document(reading: Reading, kept: Sequence[Frame]) -> dict[str, Any]:
    """Return the cycles that can be looked at, the earliest first."""
    return {
        **envelope(reading.view),
        "frames": [{"cycle": it.cycle, "time": stamp(it.time_s)} for it in kept],
    }
