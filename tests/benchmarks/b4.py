"""B4: a full cluster whose queue is entitled to nothing, and one that is entitled to all of it.

Thousands of small claims, one large gang, or claims that nothing could help.
"""

import numpy as np

from kaisched.cluster.rowstore import RowStore
from kaisched.framework.report.result import CycleResult
from tests.benchmarks.full import OVER, STARVED, add, check, check_plan, make_full
from tests.benchmarks.harness import GPUS_OF_NODE, Daemon, Measured, Watch, expect


def make_storm(nodes: int) -> RowStore:
    """As many one-GPU jobs wait as run."""
    store = make_full(nodes)
    for at in range(nodes * GPUS_OF_NODE):
        add(store, f"w{at:05}", STARVED, 1, 1)
    return store


def _run(
    daemon: Daemon, first: Watch, watch: Watch, repeat: int, expected: tuple[int, int]
) -> None:
    """Run a cycle again and again with nothing remembered; the first is looked at closely."""
    snapshot = daemon.store.snapshot()
    for turn in range(1 + repeat):
        result = daemon.cold_cycle(watch if turn else first)
        check(snapshot, result, evicted=expected[0], placed=expected[1])
        if not turn:
            check_plan(snapshot, result)


def storm(repeat: int, nodes: int) -> Measured:
    """Reclaim every GPU, one by one."""
    count = nodes * GPUS_OF_NODE
    first, watch = Watch(), Watch()
    _run(Daemon(make_storm(nodes)), first, watch, repeat, (count, count))
    rate = count / watch.summary()["median_s"]
    detail = {"evictions": count, "first_s": first.times[0], "evictions_per_s": round(rate)}
    return Measured(watch, detail)


def growth(repeat: int, nodes: int, base: int) -> Measured:
    """Do the same on more nodes, and tell how much more a GPU costs than on ``base`` nodes."""
    small = storm(max(repeat, 3), base)
    large = storm(repeat, nodes)
    cpu = [measured.watch.summary()["cpu_s"] for measured in (small, large)]
    detail = {"base_s": small.watch.summary()["median_s"], "growth": cpu[1] / cpu[0] * base / nodes}
    return Measured(large.watch, {**large.detail, **detail})


def large(repeat: int, nodes: int, pods: int) -> Measured:
    """Reclaim whole nodes for one gang."""
    store = make_full(nodes)
    add(store, "gang", STARVED, pods, GPUS_OF_NODE)
    first, watch = Watch(), Watch()
    _run(Daemon(store), first, watch, repeat, (pods * GPUS_OF_NODE, pods))
    return Measured(watch, {"evictions": pods * GPUS_OF_NODE, "first_s": first.times[0]})


def make_hopeless(nodes: int, kind: str) -> RowStore:
    """A queue that may lose too little, or nodes of which none can be had as a whole."""
    if kind == "protected":
        return make_full(nodes, protected=1)
    return make_full(nodes, quota=(nodes - 1) * GPUS_OF_NODE)


def hopeless(repeat: int, nodes: int, kind: str) -> Measured:
    """Refuse a gang of half the nodes: warm, as a daemon that meets it for the first time."""
    store = make_hopeless(nodes, kind)
    daemon = Daemon(store)
    first, cold, warm = Watch(), Watch(), Watch()

    def refused(result: CycleResult, name: str) -> None:
        snapshot = store.snapshot()
        check(snapshot, result, evicted=0, placed=0)
        said = [record.pod_group for record in result.records]
        expect(said == [f"default/{name}"], f"there are records of {said}")

    for turn in range(1 + repeat):
        name = f"gang-{turn}"
        add(store, name, STARVED, nodes // 2, GPUS_OF_NODE)
        refused(daemon.cold_cycle(cold if turn else first), name)
        refused(daemon.cycle(warm if turn else None), name)
        store.remove_job(store.row_of_job(f"default/{name}"))
        daemon.cycle()
    running = int(np.count_nonzero(store.snapshot().jobs.active))
    expect(running == nodes * GPUS_OF_NODE, f"{running} jobs of {OVER} run")
    return Measured(warm, {"cold": cold.summary(), "first_s": first.times[0]})
