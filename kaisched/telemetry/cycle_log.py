"""The log lines of a cycle, apart from the logs: small processes log, too, and have no cycles."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kaisched.framework.report.records import RUN
from kaisched.framework.report.result import CycleResult


def log_cycle(log: Any, cycle: int, result: CycleResult, duration_s: float) -> None:
    """Write the single INFO line of a cycle, and a line for each failed plugin or action."""
    stats = result.stats
    log.info(
        "cycle_completed" if not stats.abandoned else "cycle_abandoned",
        cycle=cycle,
        dur_ms=round(duration_s * 1000, 3),
        jobs_pending=stats.jobs_pending,
        jobs_placed=stats.jobs_placed,
        binds=stats.tasks_bound,
        evictions=stats.tasks_evicted,
        nominations=stats.tasks_nominated,
        **({"reason": stats.abandoned} if stats.abandoned else {}),
    )
    times = Counter((fault.plugin, fault.question, fault.error) for fault in result.failures)
    for (plugin, question, error), number in sorted(times.items()):
        if question == RUN:  # the bug is in an action, not in a plugin
            log.error("action_failed", cycle=cycle, action=plugin, err=error, times=number)
            continue
        log.warning(
            "plugin_failed",
            cycle=cycle,
            plugin=plugin,
            question=question,
            err=error,
            times=number,
        )
