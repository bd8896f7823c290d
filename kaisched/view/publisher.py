"""Publisher of the live view: the loop puts a view there after each cycle, readers take it.

Handing over is one assignment: whatever readers do, the loop waits for none of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.view.frames import Frame, Frames
from kaisched.view.history import CycleTimes, Keeper
from kaisched.view.inquiries import Inquiries
from kaisched.view.live import following, view_of
from kaisched.view.trend import Trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.usage import Usage
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.report.records import CycleResult
    from kaisched.view.live import LiveView


class Publisher:
    """Publisher of one shard's view. ``take`` is for the loop's thread, the rest for any."""

    def __init__(
        self,
        shard: str,
        advice: StandingAdvice | None = None,
        *,
        most_frames: int = 0,
        pool: str = "",
    ) -> None:
        """Start without a view, to keep so many earlier ones.

        ``pool`` is the label value of the shard's node pool.
        """
        self.shard, self.pool = shard, pool
        self.inquiries = Inquiries(advice)
        self._view: LiveView | None = None
        self._keeper, self._trend = Keeper(), Trend()
        self._frames = Frames(most_frames)

    @property
    def view(self) -> LiveView | None:
        """The view of the last cycle; None before the first one."""
        return self._view

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Views of earlier cycles that are kept, the earliest first; none of a daemon."""
        return self._frames.kept

    def take(
        self,
        result: CycleResult,
        *,
        cycle: int,
        time_s: float,
        duration_s: float,
        usage: Usage | None = None,
        by_action: Mapping[str, float] | None = None,
        by_plugin: Mapping[str, float] | None = None,
    ) -> None:
        """Publish the view of a cycle."""
        taken = view_of(result, self.shard, usage=usage, time_s=time_s)
        stats = result.stats
        times = CycleTimes(
            cycle,
            time_s,
            duration_s,
            by_action or {},
            by_plugin or {},
            len(taken.waiting.rows),
            stats.tasks_bound,
            stats.tasks_evicted,
            stats.tasks_nominated,
        )
        history = self._keeper.add(taken.snapshot, taken.waiting, result, times)
        history = replace(history, samples=self._trend.add(taken))
        before = self._view
        view = following(before, taken, history, cycle)
        self._frames.add(view)
        self._view = view
