"""B11: fair sharing of what queues lend, in one tree: all heads start, one claim, whole cycles."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import policy_of
from tests.benchmarks.harness import GPUS_OF_NODE, NODE, ONE_GPU, Measured, Watch, expect

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
_NOMINAL: Final = 4
"""GPUs of each queue's own quota."""


def make_tree(queues: int, cohorts: int, held: Callable[[int], int]) -> tuple[RowStore, list[str]]:
    """Return a store of queues that hold so many GPUs, below cohorts and a root; and their names.

    The nodes have what the queues have a quota of. Two resources are lent. The first cohort and its
    first queue count much more than others, so that they are entitled to what they ask for.
    """
    store = RowStore()
    _add_nodes(store, -(-queues * _NOMINAL // GPUS_OF_NODE))
    store.put_queue(QueueRow("top", quota={"gpu": 0, "cpu": 0}))
    quota = {name: ONE_GPU[name] * _NOMINAL for name in ("gpu", "cpu")}
    each, names = queues // cohorts, []
    for cohort in range(cohorts):
        first = Sharing(weight=Fraction(1000 if not cohort else 1))
        above = f"c{cohort:04}"
        store.put_queue(QueueRow(above, "top", quota={"gpu": 0, "cpu": 0}, sharing=first))
        for queue in range(each):
            sharing = first if not queue else Sharing(weight=Fraction(1 + queue % 3))
            names.append(f"{above}-q{queue:03}")
            store.put_queue(QueueRow(names[-1], above, quota=quota, sharing=sharing))
    store.settle()
    number = 0
    for at, name in enumerate(names):
        for _ in range(held(at)):
            row = add(store, f"old-{number:06}", name, float(number))
            task = int(store.jobs.first_task.data[row])
            store.set_state(task, TaskState.RUNNING, number // GPUS_OF_NODE, float(number))
            number += 1
    return store, names


def _add_nodes(store: RowStore, count: int) -> None:
    for at in range(count):
        store.put_node(NodeRow(f"n{at:05}", NODE))


def add(
    store: RowStore, name: str, queue: str, created_s: float, *, priority: int = 50, pods: int = 1
) -> int:
    """Add a gang of pods of one GPU; return its row."""
    shape = store.intern_shape(ONE_GPU)
    return store.add_job(
        f"w/{name}",
        queue,
        priority=priority,
        is_preemptible=True,
        created_s=created_s,
        tasks=[(f"w/{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )


def starts(repeat: int, **size: Any) -> Measured:
    """A cycle of allocate in which the heads of all queues start, each compared after the last."""
    queues = size["queues"]
    store, names = make_tree(queues, size["cohorts"], lambda at: 1 + at % 4)
    for at, name in enumerate(names):
        add(store, f"new-{at:06}", name, 1e6 + at % 97, priority=50 + at % 5)
    watch, result = _run(store, repeat, ("allocate",))
    expect(result.stats.tasks_bound == queues, f"{result.stats.tasks_bound} bound")
    return Measured(watch, {"heads": queues})


def claim(repeat: int, **size: Any) -> Measured:
    """A cycle of reclaim in which a gang of a queue that holds nothing takes from many jobs."""
    queues, cohorts, wanted = size["queues"], size["cohorts"], size["victims"]
    each = queues // cohorts
    # Every other cohort lends all it has, the others hold twice their quota.
    store, names = make_tree(queues, cohorts, lambda at: 2 * _NOMINAL * (at // each % 2))
    add(store, "claim", names[0], 1e6, pods=wanted)
    watch, result = _run(store, repeat, ("reclaim",))
    expect(result.stats.tasks_evicted == wanted, f"{result.stats.tasks_evicted} evicted")
    return Measured(watch, {"victims": wanted, "candidates": queues * _NOMINAL})


def _run(store: RowStore, repeat: int, actions: tuple[str, ...] = ()) -> tuple[Watch, CycleResult]:
    snapshot, policy = store.snapshot(), policy_of(SHARD, actions=actions)
    watch = Watch()
    for _ in range(repeat):
        result, _ = watch.time(lambda: run_cycle(snapshot, None, policy, 2e6, Memory()))
    expect(not result.failures, f"{result.failures[:1]}")
    return watch, result


def make_store(queues: int, cohorts: int, workloads: int) -> RowStore:
    """A full cluster in which each queue runs what it may, and the rest of the workloads wait."""
    store = RowStore()
    running = workloads * 7 // 80 * 8
    nodes = running // GPUS_OF_NODE
    _add_nodes(store, nodes)
    store.put_queue(QueueRow("top", quota={"gpu": queues * 3000}))
    each = queues // cohorts
    quota = max(1, -(-running // queues) - 3)
    for cohort in range(cohorts):
        store.put_queue(QueueRow(f"c{cohort:04}", "top", quota={"gpu": 0}))
        for queue in range(each):
            name = f"c{cohort:04}-q{queue:03}"
            store.put_queue(QueueRow(name, f"c{cohort:04}", quota={"gpu": quota * 1000}))
    store.settle()
    for at in range(workloads):
        queue = at % (cohorts * each)
        name = f"c{queue // each:04}-q{queue % each:03}"
        row = add(store, f"job-{at:06}", name, float(at))
        if at < running:
            task = int(store.jobs.first_task.data[row])
            store.set_state(task, TaskState.RUNNING, at // GPUS_OF_NODE)
    return store


def _cycles(size: dict[str, Any], repeat: int) -> tuple[Watch, dict[str, Any]]:
    store = make_store(size["queues"], size["cohorts"], size["workloads"])
    _change(store, size["free"], size["late"])
    watch, result = _run(store, repeat)
    expect(result.stats.tasks_bound == size["free"], f"{result.stats.tasks_bound} bound")
    expect(result.stats.tasks_evicted == size["late"], f"{result.stats.tasks_evicted} evicted")
    detail = {"bound": size["free"], "evicted": size["late"], "waiting": result.stats.jobs_pending}
    return watch, detail


def _change(store: RowStore, free: int, late: int) -> None:
    """Let some jobs end; and let as many others come late, to a queue that holds nothing yet."""
    for row in range(free):
        store.remove_job(row)
    if late:
        store.put_queue(QueueRow("late", "top", quota={"gpu": late * 1000}))
        store.settle()
    for at in range(late):
        add(store, f"late-{at:06}", "late", 1e6)


def cycle(repeat: int, **size: Any) -> Measured:
    """A whole cycle of a full cluster in which jobs ended, or others came that are entitled."""
    return Measured(*_cycles(size, repeat))


def growth(repeat: int, **size: Any) -> Measured:
    """How much more a cycle takes for each workload in a cluster ten times as large."""
    base = {**size, **{name: size[name] // 10 for name in ("queues", "cohorts", "workloads")}}
    small, _ = _cycles(base, repeat)
    large, detail = _cycles(size, repeat)
    ratio = np.median(large.cpu) / np.median(small.cpu) / 10
    return Measured(large, {**detail, "growth": float(ratio)})
