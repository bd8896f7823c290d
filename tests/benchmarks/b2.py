"""B2: a deep backlog of gangs in a tree of queues; all of it fits.

The order of the queues is asked again after each workload: the action predicts it in blocks, which
gives the same order (see ``kaisched.actions.order.predicted``).
"""

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.units import MEBIBYTE
from tests.benchmarks.harness import Daemon, Measured, Watch, add_nodes, check_fits, expect

_GPUS = (0, 0, 0, 1, 1, 1, 0, 2, 0, 1)
"""GPUs of a pod by shape, in turn: 0.6 on average, three quarters of the GPUs there are."""


def make_store(
    *, nodes: int, departments: int, queues: int, workloads: int, pods: int, shapes: int
) -> RowStore:
    store = RowStore()
    add_nodes(store, nodes)
    rng = np.random.default_rng(2)
    gpus = 8 * nodes
    for i in range(departments):
        quota = {"gpu": 1000 * (gpus // departments)}
        store.put_queue(QueueRow(f"d{i:03}", quota=quota, created_s=float(i)))
    for i in range(queues):
        store.put_queue(
            QueueRow(
                f"q{i:04}",
                parent=f"d{i % departments:03}",
                quota={"gpu": 1000 * (gpus // (2 * queues))},
                weight={"gpu": float(rng.integers(1, 5))},
                created_s=float(i),
            )
        )
    store.settle()
    shape = [
        store.intern_shape(
            {
                "gpu": 1000 * _GPUS[i % len(_GPUS)],
                "cpu": 1000 * (1 + i // 10),
                "memory": 4096 * MEBIBYTE * (1 + i % 10),
            }
        )
        for i in range(shapes)
    ]
    which, whose = rng.integers(0, shapes, workloads), rng.integers(0, queues, workloads)
    priority = rng.choice([50, 75, 100], workloads)
    for i in range(workloads):
        store.add_job(
            f"default/w{i:05}",
            f"q{whose[i]:04}",
            priority=int(priority[i]),
            is_preemptible=True,
            created_s=float(i),
            tasks=[(f"default/w{i:05}-{pod}", shape[which[i]]) for pod in range(pods)],
            minimum=pods,
        )
    return store


def backlog(repeat: int, *, workloads: int, pods: int, **size: int) -> Measured:
    daemon = Daemon(make_store(workloads=workloads, pods=pods, **size))
    snapshot = daemon.store.snapshot()
    first, watch, intents = Watch(), Watch(), Watch()
    for turn in range(1 + repeat):
        result = daemon.cold_cycle(watch if turn else first)
        tasks = result.bind_tasks
        expect(tasks.size == workloads * pods, f"{tasks.size} of {workloads * pods} pods bound")
        of_job = np.bincount(snapshot.tasks.job_of_task[tasks], minlength=workloads)
        expect((of_job == pods).all(), "a workload is not whole")
        check_fits(snapshot, result)
    intents.time(lambda: len(result.binds))
    times = watch.summary()
    detail = {
        "pods": workloads * pods,
        "first_s": first.times[0],
        "pods_per_s": round(workloads * pods / times["median_s"]),
        "p99_over_median": times["p99_s"] / times["median_s"],
        "bind_intents_s": intents.times[0],
    }
    return Measured(watch, detail)
