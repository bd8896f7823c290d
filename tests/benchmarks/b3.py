"""B3: a gang of whole-node pods is placed; and refused whole, when one node is missing.

The headline is the daemon's case: it has seen the cluster before, and a gang like this one. Cold is
the first cycle after a start.
"""

from collections.abc import Callable

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.engine.policy import build_policy, default_shard
from kaisched.framework.report.result import CycleResult
from tests.benchmarks.harness import (
    ONE_GPU,
    WHOLE_NODE,
    Daemon,
    Measured,
    Watch,
    add_nodes,
    check_fits,
    expect,
)

GANG = "default/gang"


def make_store(nodes: int, racks: int, busy: int) -> RowStore:
    """The first ``busy`` nodes run a single-GPU job each, so that they are not free as a whole."""
    store = RowStore()
    add_nodes(store, nodes, racks)
    store.put_queue(QueueRow("department"))
    store.put_queue(QueueRow("team", parent="department"))
    store.settle()
    shape = store.intern_shape(ONE_GPU)
    for i in range(busy):
        name = f"default/busy-{i:05}"
        row = add_gang(store, name, 1, shape)
        store.place(store.jobs.first_task.data[[row]], np.array([i]))
    return store


def add_gang(store: RowStore, name: str, pods: int, shape: int) -> int:
    return store.add_job(
        name,
        "team",
        priority=50,
        is_preemptible=True,
        created_s=0.0,
        tasks=[(f"{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )


def run(
    repeat: int, store: RowStore, pods: int, check: Callable[[Daemon, CycleResult], None]
) -> Measured:
    """Let a gang come, decide, obey, let it go: ``repeat`` times warm and as often cold."""
    # Consolidate would move the one job that stands in the way: that is B6.
    daemon = Daemon(store, build_policy(default_shard(), actions=["allocate"])[0])
    shape = store.intern_shape(WHOLE_NODE)
    first, cold, warm, snapshots, records = Watch(), Watch(), Watch(), Watch(), Watch()
    for turn in range(1 + repeat):
        add_gang(store, GANG, pods, shape)
        snapshots.time(store.snapshot)
        check(daemon, daemon.cold_cycle(cold if turn else first))
        # The first of the warm ones is what they remember.
        result = daemon.cycle(warm if turn else None)
        check(daemon, result)
        records.time(lambda: len(result.records))  # noqa: B023 - called at once
        daemon.obey(result)
        daemon.cycle()
        store.remove_job(store.row_of_job(GANG))
        daemon.cycle()
    detail = {"cold": cold.summary(), "first_s": first.times[0]}
    detail["snapshot_s"] = snapshots.summary()["median_s"]
    detail["records_s"] = records.summary()["median_s"]
    return Measured(warm, detail)


def place(repeat: int, nodes: int, pods: int, racks: int) -> Measured:
    def check(daemon: Daemon, result: CycleResult) -> None:
        expect(result.bind_tasks.size == pods, f"{result.bind_tasks.size} of {pods} pods bound")
        distinct = np.unique(result.bind_nodes).size
        expect(distinct == pods, f"{pods} pods on {distinct} nodes")
        check_fits(daemon.store.snapshot(), result)

    return run(repeat, make_store(nodes, racks, busy=0), pods, check)


def refuse(repeat: int, nodes: int, pods: int, racks: int) -> Measured:
    def check(daemon: Daemon, result: CycleResult) -> None:
        expect(result.bind_tasks.size == 0, f"{result.bind_tasks.size} pods of the gang bound")
        said = [(record.pod_group, record.reason) for record in result.records]
        expect(said == [(GANG, "GangNoRoom")], f"the records say {said}")
        numbers = dict(result.records[0].numbers)
        right = {"pods": pods, "fit": pods - 1, "nodes": nodes}
        expect(numbers == right, f"the record counts {numbers}, not {right}")

    return run(repeat, make_store(nodes, racks, busy=nodes - pods + 1), pods, check)
