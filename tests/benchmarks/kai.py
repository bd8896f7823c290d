"""The clusters of KAI-Scheduler's own benchmarks, and clusters of the sizes of its actions.

Where a row has its cluster, nodes, jobs, queues and who runs where are the same; what its jobs ask
for beside GPUs is left out on both sides of the comparison, since nothing there is short of it.
"""

from dataclasses import replace

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.engine.policy import default_policy
from tests.benchmarks.b4 import make_storm
from tests.benchmarks.full import OVER, STARVED, add, check, check_plan, make_full, run_on
from tests.benchmarks.harness import GPUS_OF_NODE, Daemon, Measured, Watch, add_nodes


def _measured(
    repeat: int, store: RowStore, *, evicted: int, placed: int, only: str = ""
) -> Measured:
    """Time cycles with nothing remembered, with all actions or only that one."""
    policy = default_policy()
    if only:
        policy = replace(policy, actions=tuple(it for it in policy.actions if it.name == only))
    daemon = Daemon(store, policy)
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


def beside(
    repeat: int, nodes: int, jobs: int, pods: int, queues: int, running: int, only: str
) -> Measured:
    """Four queues, or more, share the cluster by quota; of so many jobs one runs, on its node.

    There is room for all that wait, which reclaim and preempt leave to others. ``running`` 0 means
    that none runs.
    """
    store = RowStore()
    add_nodes(store, nodes)
    gpus, departments = 1000 * nodes * GPUS_OF_NODE, max(2, -(-queues // 4))
    for at in range(departments):
        store.put_queue(QueueRow(f"d{at}", quota={"gpu": gpus // departments}))
    for at in range(queues):
        department = f"d{at * departments // queues}"
        store.put_queue(QueueRow(f"q{at}", department, float(at), quota={"gpu": gpus // queues}))
    store.settle()
    rows = [add(store, f"j{at:05}", f"q{at % queues}", pods, 1) for at in range(jobs)]
    chosen = range(0, jobs, running) if running else ()
    if chosen:
        run_on(store, [rows[at] for at in chosen], [at % nodes for at in chosen])
    waiting = (jobs - len(chosen)) * pods
    placed = 0 if only in {"reclaim", "preempt"} else waiting
    return _measured(repeat, store, evicted=0, placed=placed, only=only)


def storm(repeat: int, nodes: int) -> Measured:
    """Every GPU is reclaimed for a job of its own."""
    count = nodes * GPUS_OF_NODE
    return _measured(repeat, make_storm(nodes), evicted=count, placed=count)


def refused(repeat: int, nodes: int, pods: int) -> Measured:
    """A gang of whole nodes, for which its queue may take one GPU less than it needs."""
    spared = (nodes - pods) * GPUS_OF_NODE + 1
    store = make_full(nodes, quota=spared)
    add(store, "gang", STARVED, pods, GPUS_OF_NODE)
    return _measured(repeat, store, evicted=0, placed=0)
