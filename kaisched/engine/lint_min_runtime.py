"""Jobs larger than their queue's part: past usage lets them run, and nothing protects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kaisched.core.axis import GPU
from kaisched.objects.shard import TIME_BASED_FAIRSHARE
from kaisched.units import UNLIMITED, format_amount, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.core.axis import BoolVec, FloatVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import QueueTable
    from kaisched.framework.policy import Policy


class Core(NamedTuple):
    """What a preemptible job needs at least, in thousandths of a GPU."""

    job: str
    queue: int
    gpus: int


class Advice(NamedTuple):
    """A queue for which a minimum runtime is advisable."""

    queue: str
    message: str
    fix: str


def advice(
    policy: Policy, queues: QueueTable, total: int, cores: Iterable[Core]
) -> Iterator[Advice]:
    """Yield advice for each queue with such a job, about the largest.

    Args:
        policy: whose plugins are enabled; without fairness over time there is nothing to advise.
        queues: the queues of the jobs.
        total: what is divided, in thousandths of a GPU.
        cores: of jobs that run for long, or nobody knows for how long.

    """
    if not _counts_history(policy):
        return
    part, is_safe = _parts(queues, total), _protected(policy, queues)
    largest: dict[int, Core] = {}
    for core in cores:
        most = min(total, int(queues.limit[GPU, core.queue]))
        is_large = part[core.queue] < core.gpus <= most and not is_safe[core.queue]
        if is_large and core.gpus > largest.get(core.queue, Core("", -1, 0)).gpus:
            largest[core.queue] = core
    for row, core in sorted(largest.items()):
        name = queues.name[row]
        needs, has, of = (format_amount("gpu", int(it)) for it in (core.gpus, part[row], total))
        yield Advice(
            name,
            f"job {core.job} needs {needs} GPUs at once, and by quota and weight queue {name} has"
            f" {has} of {of}: past usage decides when it runs, and others may take the room back"
            " before it ends, once they owe its queue nothing more",
            f"set reclaimMinRuntime of queue {name} to about its run time, or handOver: timeSlices"
            f" of {TIME_BASED_FAIRSHARE}",
        )


def cores_of(snapshot: Snapshot) -> Iterator[Core]:
    """Yield what the preemptible jobs of a snapshot need whose pods are all alike."""
    jobs, podsets = snapshot.jobs, snapshot.podsets
    gpus = snapshot.shapes.request[GPU]
    for job, name in enumerate(jobs.name):
        shape, queue = int(jobs.shape_of_job[job]), int(jobs.queue_of_job[job])
        lives = int(jobs.active[job]) + int(jobs.pending[job]) > 0
        if shape >= 0 and queue >= 0 and lives and jobs.is_preemptible[job]:
            first = int(jobs.first_podset[job])
            pods = int(podsets.minimum[first : first + int(jobs.podset_count[job])].sum())
            yield Core(name, queue, pods * int(gpus[shape]))


def _counts_history(policy: Policy) -> bool:
    """Tell whether past usage changes shares, and large jobs do not take turns anyway."""
    arguments = _arguments(policy, TIME_BASED_FAIRSHARE)
    return bool(arguments and arguments.k_value) and arguments.hand_over == "none"


def _arguments(policy: Policy, name: str) -> Any:
    found = [each.plugin for each in policy.plugins if each.plugin.name == name]
    return found[0].arguments if found else None


def _parts(queues: QueueTable, total: int) -> FloatVec:
    """Return ``(Q,)`` what each queue has by quota and weight, if all want everything."""
    part = np.zeros(len(queues))
    deserved, weight = queues.deserved[GPU], np.maximum(queues.weight[GPU], 0.0)
    parents = queues.tree.parent_of_queue
    for level in queues.tree.levels:
        for parent in np.unique(parents[level]).tolist():
            rows = level[parents[level] == parent]
            whole = float(total) if parent < 0 else part[parent]
            quota = np.where(deserved[rows] == UNLIMITED, whole, deserved[rows])
            rest = max(whole - float(quota.sum()), 0.0)
            summed = float(weight[rows].sum())
            part[rows] = quota + (rest * weight[rows] / summed if summed else 0.0)
    return part


def _protected(policy: Policy, queues: QueueTable) -> BoolVec:
    """Return ``(Q,)`` whether jobs are safe from reclaim for a while after they start."""
    arguments = _arguments(policy, "minruntime")
    if arguments is None:
        return np.zeros(len(queues), np.bool_)
    least_s = parse_duration(arguments.default_reclaim_min_runtime)
    safe_s = np.append(queues.reclaim_min_runtime_s, least_s)  # above a root: row -1
    for level in queues.tree.levels:
        above = safe_s[queues.tree.parent_of_queue[level]]
        safe_s[level] = np.where(safe_s[level] < 0, above, safe_s[level])
    return safe_s[:-1] > 0
