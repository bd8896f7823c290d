"""Events for jobs whose run time is soon over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import WORKLOADS
from kaisched.framework.session.limits import limited_jobs, limiting_queue, limits_s
from kaisched.objects.labels import format_time
from kaisched.units import format_duration

ENDING: Final = "RunTimeEnding"
WARNING_S: Final = 600.0
"""So long before its end a job is warned."""


class EndingJobs:
    """Remembers which jobs have got the event; a new process sends it once more."""

    def __init__(self) -> None:
        """Begin without events."""
        self._told: dict[str, float] = {}
        """By job, the end that it was told of."""

    def after(self, store: StateStore, snapshot: Snapshot, now_s: float) -> list[Note]:
        """Return the events to be sent after a cycle: one for each job, on its first pod."""
        rows, ends_s = limited_jobs(snapshot.queues, snapshot.jobs)
        is_soon = (now_s < ends_s) & (ends_s <= now_s + WARNING_S)
        names = snapshot.jobs.name
        soon = {
            names[job]: (job, end_s)
            for job, end_s in zip(rows[is_soon].tolist(), ends_s[is_soon].tolist(), strict=True)
        }
        before = self._told
        self._told = {name: end_s for name, (_, end_s) in soon.items()}
        return [
            note
            for name, (job, end_s) in soon.items()
            if before.get(name) != end_s
            for note in _notes(store, snapshot, job, end_s)
        ]


def _notes(store: StateStore, snapshot: Snapshot, job: int, end_s: float) -> Iterator[Note]:
    queues, jobs = snapshot.queues, snapshot.jobs
    row = np.array([job])
    kind = WORKLOADS[int(jobs.workload_of(row)[0])]
    most = format_duration(float(limits_s(queues, jobs, row)[0]))
    text = (
        f"queue {limiting_queue(queues, jobs, job)} lets {kind} run for {most} at a stretch"
        f" (maxRunTime): the job is evicted at {format_time(round(end_s))}, and then waits behind"
        " its equals; save what it has done"
    )
    for pod, uid in store.members.running_pods(jobs.name[job])[:1]:
        yield Note(pod, uid, ENDING, "Eviction", text, is_warning=True)
