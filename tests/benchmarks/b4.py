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
    """Reclaim every GPU, one by one: all cycles that it takes, until the last victim is told to go.

    No victim ends meanwhile, so that each cycle keeps the promises of those before.
    """
    count = nodes * GPUS_OF_NODE
    watch = Watch()
    first, cycles, longest = 0.0, 0, 0.0
    for turn in range(1 + repeat):
        spent = _reclaim_all(Daemon(make_storm(nodes)), count, is_checked=not turn)
        if not turn:
            first = spent.times[0]
            continue
        watch.times.append(sum(spent.times))
        watch.cpu.append(sum(spent.cpu))
        watch.calibration += spent.calibration
        cycles, longest = len(spent.times), max(longest, *spent.cpu)
    rate = count / watch.summary()["median_s"]
    detail = {"evictions": count, "first_s": first, "evictions_per_s": round(rate)}
    return Measured(watch, {**detail, "cycles": cycles, "longest_cpu_s": longest})


def _reclaim_all(daemon: Daemon, count: int, *, is_checked: bool) -> Watch:
    """Run cycles until one evicts nobody; return their times."""
    watch, store = Watch(), daemon.store
    gone = 0
    while gone < count:
        snapshot = store.snapshot()
        result = daemon.cycle(watch)
        evicted = result.evict_tasks.size
        expect(evicted, f"only {gone} of {count} pods are evicted")
        gone += evicted
        check(snapshot, result, evicted=evicted, placed=gone)
        if is_checked:
            check_plan(snapshot, result)
        for task in result.evict_tasks.tolist():
            store.evict(task)
        pairs = zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True)
        for task, node in pairs:
            store.nominate(task, node)
    expect(gone == count, f"{gone} pods are evicted, not {count}")
    return watch


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
