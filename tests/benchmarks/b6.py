"""B6: much room in pieces. Gangs of whole nodes fit when small jobs move together.

With the default bound on how many jobs may move for one claim nothing can be done, and that is
said; without it, gangs start until the pieces are used up.
"""

from dataclasses import replace

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU
from kaisched.core.snapshot import Snapshot
from kaisched.engine.policy import default_policy
from kaisched.framework.report.result import CycleResult
from tests.benchmarks.full import add, check_plan, run_on
from tests.benchmarks.harness import GPUS_OF_NODE, Daemon, Measured, Watch, add_nodes, expect

QUEUE = "team"


def make_store(nodes: int, gangs: int, pods: int) -> RowStore:
    """Nodes with 1 to 3 free GPUs, the others held by jobs of one or two; and gangs that wait."""
    store = RowStore()
    add_nodes(store, nodes)
    store.put_queue(QueueRow(QUEUE, quota={"gpu": 1000 * GPUS_OF_NODE * nodes}))
    store.settle()
    rng = np.random.default_rng(6)
    jobs: list[int] = []
    where: list[int] = []
    for node in range(nodes):
        left = GPUS_OF_NODE - int(rng.integers(1, 4))
        while left:
            of = min(left, int(rng.integers(1, 3)))
            jobs.append(add(store, f"r{len(jobs):05}", QUEUE, 1, of))
            where.append(node)
            left -= of
    run_on(store, jobs, where)
    for at in range(gangs):
        add(store, f"gang-{at:03}", QUEUE, pods, GPUS_OF_NODE)
    return store


def least_moved(snapshot: Snapshot, count: int) -> int:
    """Return the GPUs on the ``count`` emptiest nodes: no plan for as many pods moves fewer."""
    held = snapshot.nodes.allocatable[GPU] - snapshot.nodes.idle[GPU]
    return int(np.sort(held)[:count].sum()) // 1000


def moved_gpus(snapshot: Snapshot, result: CycleResult) -> int:
    shapes = snapshot.tasks.shape_of_task[result.evict_tasks]
    return int(snapshot.shapes.request[GPU, shapes].sum()) // 1000


def consolidate(repeat: int, nodes: int, gangs: int, pods: int, most: int) -> Measured:
    """Move at most so many jobs for each gang (-1: any number)."""
    policy = replace(default_policy(), max_consolidation_preemptees=most)
    daemon = Daemon(make_store(nodes, gangs, pods), policy)
    snapshot = daemon.store.snapshot()
    first, watch = Watch(), Watch()
    for turn in range(1 + repeat):
        result = daemon.cold_cycle(watch if turn else first)
        if not turn:
            check_plan(snapshot, result)
        come = np.setdiff1d(result.nominate_tasks, result.evict_tasks).size
        started = come // pods
        expect(come == started * pods, f"{come} pods of gangs of {pods} are placed")
        if most < 0:
            expect(started > 0, "no gang is placed")
        else:
            jobs = np.unique(snapshot.tasks.job_of_task[result.evict_tasks]).size
            expect(jobs <= most * started, f"{jobs} jobs move for {started} gangs")
    moved, least = moved_gpus(snapshot, result), least_moved(snapshot, come)
    detail = {
        "gangs": started,
        "moved_gpus": moved,
        "least_gpus": least,
        "over_least": moved / least if least else 1.0,
        "first_s": first.times[0],
    }
    return Measured(watch, detail)
