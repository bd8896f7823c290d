"""Conditions that say since when gangs are stale, for a later leader to read.

The grace of a stale gang is longer than some leaderships. The condition is in the status of one
of its pods: not every gang has a PodGroup, and the metadata of a PodGroup are not ours to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import STRATEGIC
from kaisched.cluster.kubernetes.pods import Writers, path_of
from kaisched.cluster.kubernetes.report import Report
from kaisched.cluster.store import StateStore
from kaisched.objects import labels

STALE_GANGS: Final = "stalegang"
HOPES: Final = "stalegang.hopes"
"""Facts of the action ``stalegang``: since when jobs are stale, also those that may recover."""
AGAIN_S: Final = 5.0
"""A condition that does not show by then is written again."""


class StaleMarks:
    """Compares the conditions of pods with the facts of the action, in the loop's thread."""

    def __init__(self, writers: Writers, put: Callable[[Report], object]) -> None:
        """Begin without conditions; ``put`` queues a report."""
        self._writers, self._put = writers, put
        self._written: dict[tuple[str, bool], float] = {}
        """When a condition was last written, by (pod, whether its job is stale)."""

    def after(self, store: StateStore, stale: Mapping[str, float], at_s: float) -> None:
        """Set the condition on a pod of each stale job, and clear it on pods of all others.

        Args:
            store: has the current conditions.
            stale: since when, by job.
            at_s: the present time.

        """
        current = store.members.stale_marks()
        if not (stale or current):
            return
        now_s = monotonic_s()
        written = self._written.items()
        self._written = {it: when_s for it, when_s in written if now_s - when_s < AGAIN_S}
        for job, since_s in stale.items():
            if abs(max(current.get(job, {}).values(), default=0.0) - since_s) >= 1.0:
                for pod, uid in store.members.running_pods(job)[:1]:
                    self._mark(pod, uid, since_s, is_stale=True)
        for job, pods in current.items():
            for pod in pods if job not in stale else ():
                self._mark(pod, store.pods.version_of(pod)[0], at_s, is_stale=False)

    def _mark(self, pod: str, uid: str, since_s: float, *, is_stale: bool) -> None:
        if (pod, is_stale) in self._written:
            return
        self._written[pod, is_stale] = monotonic_s()
        condition = _condition(since_s, is_stale=is_stale)
        body = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
        writers = self._writers
        report = Report(
            writers.client, "PATCH", path_of(pod, "status"), body, STRATEGIC, writers.counts
        )
        self._put(report)


def _condition(since_s: float, *, is_stale: bool) -> dict[str, Any]:
    return {
        "type": labels.GANG_STALE,
        "status": "True" if is_stale else "False",
        "reason": "BelowMinimum" if is_stale else "Complete",
        "message": "fewer pods of its job run than it needs" if is_stale else "",
        "lastTransitionTime": datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
