"""Clusters of the sizes that KAI-Scheduler's own benchmarks of single actions have."""

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from tests.benchmarks.full import OVER, STARVED, add, check, check_plan, make_full, run_on
from tests.benchmarks.harness import GPUS_OF_NODE, Daemon, Measured, Watch, add_nodes


def _measured(repeat: int, store: RowStore, *, evicted: int, placed: int) -> Measured:
    daemon = Daemon(store)
    snapshot = store.snapshot()
    first, watch = Watch(), Watch()
    for turn in range(1 + repeat):
        result = daemon.cold_cycle(watch if turn else first)
        check(snapshot, result, evicted=evicted, placed=placed)
        if not turn:
            check_plan(snapshot, result)
    return Measured(watch, {"evictions": evicted, "first_s": first.times[0]})


def reclaim(repeat: int, nodes: int) -> Measured:
    """A full cluster; a queue that deserves it has two jobs of one GPU for each node."""
    store = make_full(nodes)
    for at in range(2 * nodes):
        add(store, f"w{at:05}", STARVED, 1, 1)
    return _measured(repeat, store, evicted=2 * nodes, placed=2 * nodes)


def preempt(repeat: int, nodes: int) -> Measured:
    """Do the same inside one queue, for jobs of higher priority."""
    store = make_full(nodes)
    for at in range(2 * nodes):
        add(store, f"w{at:05}", OVER, 1, 1, priority=75)
    return _measured(repeat, store, evicted=2 * nodes, placed=2 * nodes)


def consolidation(repeat: int, nodes: int, gangs: int) -> Measured:
    """Every node is half full of one-GPU jobs; each waiting job takes a whole node."""
    store = RowStore()
    add_nodes(store, nodes)
    store.put_queue(QueueRow("team"))
    store.settle()
    half = GPUS_OF_NODE // 2
    jobs = [add(store, f"r{at:05}", "team", 1, 1) for at in range(nodes * half)]
    run_on(store, jobs, [at // half for at in range(nodes * half)])
    for at in range(gangs):
        add(store, f"w{at:05}", "team", 1, GPUS_OF_NODE)
    return _measured(repeat, store, evicted=gangs * half, placed=gangs)


def cycle(repeat: int, nodes: int, jobs: int) -> Measured:
    """Allocate on half of the nodes, then reclaim on the others."""
    store = make_full(nodes)
    for node in range(0, nodes, 2):
        for at in range(GPUS_OF_NODE):
            store.remove_job(node * GPUS_OF_NODE + at)
    for at in range(jobs):
        add(store, f"w{at:05}", STARVED, 1, 1)
    idle = -(-nodes // 2) * GPUS_OF_NODE
    return _measured(repeat, store, evicted=jobs - idle, placed=jobs)
