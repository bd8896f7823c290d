"""The log lines of cycles: one for each decision, and a summary of each minute that had any.

A cycle that decides nothing has a line at level debug only, so that an idle daemon is silent.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kaisched.framework.report.records import RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.report.result import CycleResult

SUMMARY_S: Final = 60.0
MOST_LINES: Final = 100
"""Decisions of one cycle that have a line each; of further ones the number is logged."""
_MOST_NODES: Final = 4


class CycleLog:
    """Writes what the cycles of one shard decide, in the loop's thread."""

    def __init__(self, log: Any, *, is_observing: bool = False) -> None:
        """Start a minute. While it is observing, the cluster logs what would be done."""
        self._log, self._is_observing = log, is_observing
        self._sums: Counter[str] = Counter()
        self._longest_s, self._since_s, self._waiting = 0.0, -1.0, 0
        self._promised: frozenset[tuple[str, str]] = frozenset()

    def record(self, cycle: int, result: CycleResult, duration_s: float, now_s: float) -> None:
        """Log the faults and decisions of a cycle, and once a minute a summary."""
        log_cycle(self._log, cycle, result, duration_s)
        if not self._is_observing:
            lines = list(self._decisions(result))
            for event, told in lines[:MOST_LINES]:
                self._log.info(event, cycle=cycle, **told)
            if len(lines) > MOST_LINES:
                left = Counter(event for event, _ in lines[MOST_LINES:])
                self._log.info("decisions_not_listed", cycle=cycle, **left)
        self._sum_up(result, duration_s, now_s)

    def _decisions(self, result: CycleResult) -> Iterator[tuple[str, dict[str, Any]]]:
        new = [it for it in result.nominations if (it.pod, it.node) not in self._promised]
        self._promised = frozenset((it.pod, it.node) for it in result.nominations)
        yield from (("pods_chosen_to_evict", it) for it in _evicted(result.evictions))
        yield from (("job_started", it) for it in _placed(result, result.binds))
        yield from (("room_promised", it) for it in _placed(result, new))

    def _sum_up(self, result: CycleResult, duration_s: float, now_s: float) -> None:
        stats, sums = result.stats, self._sums
        sums.update(cycles=1, binds=stats.tasks_bound, evictions=stats.tasks_evicted)
        self._longest_s = max(self._longest_s, duration_s)
        if self._since_s < 0:
            self._since_s = now_s
        if now_s - self._since_s < SUMMARY_S:
            return
        waiting = len(result.records.rows)
        if sums["binds"] or sums["evictions"] or waiting != self._waiting:
            longest_ms = round(self._longest_s * 1000, 3)
            self._log.info("minute_summed_up", **sums, jobs_pending=waiting, longest_ms=longest_ms)
        self._waiting, self._since_s, self._longest_s = waiting, now_s, 0.0
        sums.clear()


def _placed(
    result: CycleResult, moves: Iterable[Bind] | Iterable[Nominate]
) -> Iterator[dict[str, Any]]:
    """Yield, job by job, how many of its pods go to which nodes."""
    by_job: dict[str, list[Bind | Nominate]] = {}
    for it in moves:
        by_job.setdefault(it.pod_group, []).append(it)
    for of_job in by_job.values():
        session = result.records.session
        job = int(session.tasks.job_of_task[of_job[0].task])
        nodes = list(dict.fromkeys(it.node for it in of_job))
        more = len(nodes) - _MOST_NODES
        yield {
            "job": session.jobs.title[job],
            "queue": session.queues.name[int(session.jobs.queue_of_job[job])],
            "pods": len(of_job),
            "nodes": nodes[:_MOST_NODES],
            **({"more_nodes": more} if more > 0 else {}),
        }


def _evicted(evictions: Iterable[Evict]) -> Iterator[dict[str, Any]]:
    """Yield the pods that go for one job by one action; those for none by their own jobs."""
    by_decision: dict[tuple[int, str, str, str], list[Evict]] = {}
    for it in evictions:
        by_decision.setdefault(it.decision, []).append(it)
    for victims in by_decision.values():
        first = victims[0]
        yield {
            "action": first.action,
            "beneficiary": first.beneficiary_title or None,
            "jobs": sorted({it.title for it in victims}),
            "pods": len(victims),
            "reason": first.reason,
        }


def log_cycle(log: Any, cycle: int, result: CycleResult, duration_s: float) -> None:
    """Write the line of a cycle, and one for each failed plugin or action."""
    stats = result.stats
    write = log.warning if stats.abandoned else log.debug
    write(
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
