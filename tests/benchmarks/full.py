"""Full clusters: nodes whose GPUs are all held by small jobs, and checks of who had to go."""

from collections.abc import Sequence

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.framework.invariants.violations import violations
from kaisched.framework.report.result import CycleResult
from tests.benchmarks.harness import GPUS_OF_NODE, ONE_GPU, add_nodes, expect

OVER = "over"
STARVED = "starved"


def gpus(count: int) -> dict[str, int]:
    """Return what a pod of so many GPUs asks for."""
    return {resource: count * amount for resource, amount in ONE_GPU.items()}


def add(
    store: RowStore, name: str, queue: str, pods: int, of: int, *, priority: int = 50, **more: bool
) -> int:
    """Add a pending gang of pods with so many GPUs each; return its row."""
    shape = store.intern_shape(gpus(of))
    return store.add_job(
        f"default/{name}",
        queue,
        priority=priority,
        is_preemptible=more.get("is_preemptible", True),
        created_s=float(store.jobs.size),
        tasks=[(f"default/{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )


def run_on(store: RowStore, jobs: Sequence[int], nodes: Sequence[int]) -> None:
    """Let jobs of one pod run, each on its node."""
    tasks = store.jobs.first_task.data[np.array(jobs)]
    store.place(tasks, np.array(nodes), TaskState.RUNNING, 0.0)


def make_full(nodes: int, *, quota: int = 0, protected: int = 0) -> RowStore:
    """Every GPU is held by a job of its own of a queue with this quota and no weight.

    The other queue deserves the cluster. On each node ``protected`` of the jobs must not be
    preempted.
    """
    store = RowStore()
    add_nodes(store, nodes)
    count = nodes * GPUS_OF_NODE
    store.put_queue(QueueRow(OVER, quota={"gpu": 1000 * quota}, weight={"gpu": 0.0}))
    store.put_queue(QueueRow(STARVED, quota={"gpu": 1000 * count}, created_s=1.0))
    store.settle()
    jobs = [
        add(store, f"r{at:05}", OVER, 1, 1, is_preemptible=at % GPUS_OF_NODE >= protected)
        for at in range(count)
    ]
    run_on(store, jobs, [at // GPUS_OF_NODE for at in range(count)])
    return store


def check(snapshot: Snapshot, result: CycleResult, *, evicted: int, placed: int) -> None:
    """So many pods go and so many are promised their room; ``check_plan`` looks at all the rest."""
    gone = result.evict_tasks.size
    expect(gone == evicted, f"{gone} pods are evicted, not {evicted}")
    promised = np.setdiff1d(result.nominate_tasks, result.evict_tasks)
    come = promised.size + result.bind_tasks.size
    expect(come == placed, f"{come} pods are placed, not {placed}")
    state = snapshot.tasks.state[promised]
    expect((state == TaskState.PENDING).all(), "who is promised room does not wait")


def check_plan(snapshot: Snapshot, result: CycleResult) -> None:
    """No invariant is broken."""
    found = violations(snapshot, result, result.records.session.policy)
    expect(not found, f"{len(found)} violations, such as {found[0] if found else ''}")
