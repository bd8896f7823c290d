"""Jobs and tasks one at a time, as API objects bring them: opened, amended, joined, left."""

from __future__ import annotations

import numpy as np

from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.structure import NO_TIMING, JobRow, Timing, placed_at
from kaisched.core.states import ACTIVE_STATES
from kaisched.core.tables import DELAY, EVICTED, GRACE, STALE, WORKLOAD


def open_job(store: RowStore, name: str, spec: JobRow) -> int:
    """Add a job without tasks and return its row."""
    job = store.add_job(
        name,
        spec.queue,
        priority=spec.priority,
        is_preemptible=spec.is_preemptible,
        created_s=spec.created_s,
        tasks=(),
        minimum=spec.podsets[0][1],
        metadata=spec.metadata,
    )
    jobs = store.jobs
    store.podsets.name.data[-1] = spec.podsets[0][0]
    for podset_name, minimum in spec.podsets[1:]:
        store.podsets.append(podset_name, job, minimum)
    jobs.podset_count.data[job] = len(spec.podsets)
    jobs.last_start_s.data[job] = spec.last_start_s
    if spec.timing != NO_TIMING:
        _set_timing(store, job, spec.timing)
    jobs.set_rare(job, WORKLOAD, spec.workload)
    if spec.tree is not None:
        jobs.set_structure(job, placed_at(spec.tree, int(jobs.first_podset.data[job])))
    return job


def amend_job(store: RowStore, job: int, spec: JobRow) -> None:
    """Bring a job's row in line with what it has become; see :func:`divide` for its pod sets."""
    jobs = store.jobs
    if jobs.is_preemptible.data[job] != spec.is_preemptible:
        jobs.is_preemptible.own()[job] = spec.is_preemptible
    if jobs.priority.data[job] != spec.priority:
        jobs.priority.own()[job] = spec.priority
    if jobs.created_s.data[job] != spec.created_s:
        jobs.created_s.own()[job] = spec.created_s
    if not np.isnan(spec.last_start_s) and jobs.last_start_s.data[job] != spec.last_start_s:
        jobs.last_start_s.own()[job] = spec.last_start_s
    _set_timing(store, job, spec.timing)
    jobs.set_rare(job, WORKLOAD, spec.workload)
    jobs.set_metadata(job, spec.metadata)
    jobs.queue_name[job] = spec.queue  # takes effect with the refusal, which goes by the queue too


def _set_timing(store: RowStore, job: int, timing: Timing) -> None:
    jobs = store.jobs
    jobs.set_rare(job, DELAY, timing.preemption_delay_s)
    jobs.set_rare(job, GRACE, timing.staleness_grace_s)
    jobs.set_rare(job, STALE, timing.stale_since_s)
    if not np.isnan(timing.last_evicted_s):  # else what the store itself was told of stands
        jobs.set_rare(job, EVICTED, timing.last_evicted_s)


def podset_names(store: RowStore, job: int) -> list[str]:
    """Return the names of a job's pod sets, in row order."""
    first = int(store.jobs.first_podset.data[job])
    return store.podsets.name.data[first : first + int(store.jobs.podset_count.data[job])]


def claim_of(store: RowStore, name: str) -> tuple[object, ...]:
    """Return what a job's right to room rests on: queue, priority and how many pods it needs.

    Empty for none. Two are equal while nothing of it has changed.
    """
    row = store.row_of_job(name)
    if row < 0:
        return ()
    jobs = store.jobs
    first, count = int(jobs.first_podset.data[row]), int(jobs.podset_count.data[row])
    minimums = store.podsets.minimum.data[first : first + count].tolist()
    return (jobs.queue_name[row], int(jobs.priority.data[row]), tuple(minimums))


def active_pods_of(store: RowStore, name: str) -> int:
    """Return how many pods of a job run, or are about to."""
    row = store.row_of_job(name)
    tasks = list(store.jobs.tasks.data[row]) if row >= 0 else []
    return int(ACTIVE_STATES[store.tasks.state.data[tasks]].sum()) if tasks else 0


def divide(store: RowStore, job: int, spec: JobRow) -> bool:
    """Give a job the pod sets of ``spec``; return whether its tasks must be assigned again."""
    jobs, podsets = store.jobs, store.podsets
    names = [name for name, _ in spec.podsets]
    first = int(jobs.first_podset.data[job])
    is_renamed = names != podset_names(store, job)
    if is_renamed:
        old = range(first, first + int(jobs.podset_count.data[job]))
        podsets.dropped.update(old)
        podsets.minimum.own()[old.start : old.stop] = 0
        first = podsets.size
        for name, minimum in spec.podsets:
            podsets.append(name, job, minimum)
        jobs.first_podset.own()[job] = first
        jobs.podset_count.own()[job] = len(names)
    else:
        minimums = [minimum for _, minimum in spec.podsets]
        if podsets.minimum.data[first : first + len(names)].tolist() != minimums:
            podsets.minimum.own()[first : first + len(names)] = minimums
    tree = None if spec.tree is None else placed_at(spec.tree, first)
    jobs.set_structure(job, tree)
    return is_renamed


def assign_podset(store: RowStore, row: int, podset: int) -> None:
    """Move a task to another pod set of its job."""
    if store.tasks.podset_of_task.data[row] != podset:
        store.tasks.podset_of_task.own()[row] = podset
