"""Publisher of the live view: the loop puts a view there after each cycle, readers take it.

Handing over is one assignment: whatever readers do, the loop waits for none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.view.history import CycleTimes, Keeper
from kaisched.view.inquiries import Inquiries
from kaisched.view.live import following, view_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.usage import Usage
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.report.records import CycleResult
    from kaisched.view.live import LiveView


class Publisher:
    """Publisher of one shard's view. ``take`` is for the loop's thread, the rest for any."""

    def __init__(self, shard: str, advice: StandingAdvice | None = None) -> None:
        """Start without a view."""
        self.shard = shard
        self.inquiries = Inquiries(advice)
        self._view: LiveView | None = None
        self._keeper = Keeper()

    @property
    def view(self) -> LiveView | None:
        """The view of the last cycle; None before the first one."""
        return self._view

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
        before = self._view
        self._view = following(before, taken, history, cycle)
