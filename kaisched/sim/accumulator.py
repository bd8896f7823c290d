"""Usage history inside a simulation: exact, because between two cycles nothing changes.

What a queue held counts with ``0.5 ** (age / half-life)`` over a window, and so does what there was
to hold; usage is the one by the other. Over a span in which an amount stays the same, both are
integrals with a closed form, so nothing is sampled and nothing depends on how often a cycle runs.

Without decay and with a sliding window, what falls out of the window at its far end is taken out
again: the sums up to then are remembered at each change.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from kaisched.core.axis import Amounts, FloatVec
from kaisched.core.snapshot import Snapshot
from kaisched.core.tree import QueueTree, roll_up
from kaisched.core.usage import PARTS, Usage

WEEK_S: Final = 604_800.0


class UsageHistory(Protocol):
    """Keeps what queues hold over virtual time, and answers as a usage store would."""

    def hold(self, held: Amounts, total: Amounts, now_s: float) -> None:
        """From now on the leaves hold ``(R, Q)`` of ``(R,)``."""
        ...

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage | None:
        """Return usage for the snapshot's queues; None where there is no history."""
        ...


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """What counts, and how much."""

    half_life_s: float = math.inf
    """Infinite for no decay."""
    window_s: float = WEEK_S
    is_tumbling: bool = False
    """The window begins anew each ``window_s``, from time 0."""


class Accumulator:
    """Decayed sums of held amounts and of capacity, at every level of the tree."""

    def __init__(self, tree: QueueTree, resources: int, window: UsageWindow) -> None:
        """Begin at time 0 with nothing held."""
        self._tree = tree
        self._window = window
        self._now_s = 0.0
        self._begin_s = 0.0
        # The last column is the capacity: it decays and is cut off as the queues' columns are.
        self._sum = np.zeros((resources, len(tree) + 1))
        self._rate = np.zeros_like(self._sum)
        self._past: deque[tuple[float, FloatVec, FloatVec]] = deque()
        """(time, sum then, rate from then on), for the far end of a sliding window."""

    def hold(self, held: Amounts, total: Amounts, now_s: float) -> None:
        """From now on the leaves hold ``(R, Q)`` of ``(R,)``."""
        self._advance(now_s)
        rate = np.empty_like(self._rate)
        rate[:, :-1] = roll_up(held, self._tree)
        rate[:, -1] = total
        if not np.array_equal(rate, self._rate):
            self._rate = rate
            if not self._window.is_tumbling:
                self._past.append((now_s, self._sum, rate))

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage | None:
        """Return usage now; None before any time has passed. Queues are the tree's."""
        assert snapshot.queues.name == self._tree.names
        self._advance(now_s)
        begin_s = max(self._far_end_s(), self._begin_s)
        if now_s <= begin_s:
            return None
        counted = self._sum - self._before(begin_s)
        capacity = counted[:, -1:]
        parts = np.zeros((len(counted), len(self._tree)), np.int64)
        share = np.divide(
            counted[:, :-1], capacity, out=np.zeros_like(parts, float), where=capacity > 0
        )
        np.rint(np.maximum(share, 0.0) * PARTS, out=share)
        parts[:] = share
        return Usage(parts, age_s=0.0, coverage=1.0)

    def _far_end_s(self) -> float:
        window_s = self._window.window_s
        if self._window.is_tumbling:
            return self._now_s // window_s * window_s
        return self._now_s - window_s

    def _advance(self, now_s: float) -> None:
        if self._window.is_tumbling:
            begin_s = now_s // self._window.window_s * self._window.window_s
            if begin_s > self._begin_s:
                self._begin_s = self._now_s = begin_s
                self._sum = np.zeros_like(self._sum)
        if now_s > self._now_s:
            self._sum = self._grown(self._sum, self._rate, now_s - self._now_s)
            self._now_s = now_s

    def _grown(self, total: FloatVec, rate: FloatVec, span_s: float) -> FloatVec:
        """Return a sum after a span at a rate."""
        half_life_s = self._window.half_life_s
        if math.isinf(half_life_s):
            return total + rate * span_s
        decay = 0.5 ** (span_s / half_life_s)
        grown: FloatVec = total * decay + rate * ((1.0 - decay) * half_life_s / math.log(2.0))
        return grown

    def _before(self, begin_s: float) -> FloatVec | float:
        """Return what of the sum now is from before an instant."""
        past = self._past
        if self._window.is_tumbling or begin_s <= 0.0:
            return 0.0
        while len(past) > 1 and past[1][0] <= begin_s:
            past.popleft()
        if not past or past[0][0] > begin_s:
            return 0.0
        at_s, total, rate = past[0]
        then = self._grown(total, rate, begin_s - at_s)
        half_life_s = self._window.half_life_s
        if math.isinf(half_life_s):
            return then
        decayed: FloatVec = then * 0.5 ** ((self._now_s - begin_s) / half_life_s)
        return decayed
