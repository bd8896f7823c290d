"""B1: an empty cluster is filled with single-GPU jobs, by a daemon that has just started."""

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.snapshot import Snapshot
from kaisched.framework.report.result import CycleResult
from tests.benchmarks.harness import (
    GPUS_OF_NODE,
    ONE_GPU,
    Daemon,
    Measured,
    Watch,
    add_nodes,
    check_fits,
    expect,
)


def make_store(nodes: int, queues: int) -> RowStore:
    """As many jobs as GPUs, dealt to the queues in turn; half of each queue's share is quota."""
    store = RowStore()
    add_nodes(store, nodes)
    jobs = nodes * GPUS_OF_NODE
    store.put_queue(QueueRow("department"))
    quota = {"gpu": 1000 * (jobs // (2 * queues))}
    for i in range(queues):
        store.put_queue(QueueRow(f"q{i:04}", parent="department", quota=quota))
    store.settle()
    shape = store.intern_shape(ONE_GPU)
    for i in range(jobs):
        store.add_job(
            f"default/job-{i:05}",
            f"q{i % queues:04}",
            priority=50,
            is_preemptible=True,
            created_s=float(i),
            tasks=[(f"default/pod-{i:05}", shape)],
        )
    return store


def check(snapshot: Snapshot, result: CycleResult, jobs: int) -> None:
    placed = result.stats.jobs_placed
    expect(placed == jobs, f"{placed} of {jobs} jobs were placed")
    check_fits(snapshot, result)


def fill(repeat: int, nodes: int, queues: int) -> Measured:
    daemon = Daemon(make_store(nodes, queues))
    snapshot = daemon.store.snapshot()
    jobs = nodes * GPUS_OF_NODE
    # The first cycle of a process also pays for imports and compiled questions.
    first, watch = Watch(), Watch()
    check(snapshot, daemon.cold_cycle(first), jobs)
    for _ in range(repeat):
        check(snapshot, daemon.cold_cycle(watch), jobs)
    rate = jobs / watch.summary()["median_s"]
    detail = {"jobs": jobs, "first_s": first.times[0], "jobs_per_s": round(rate)}
    return Measured(watch, detail)
