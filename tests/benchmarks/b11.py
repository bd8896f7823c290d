"""B11: fair sharing of what queues lend, in one tree: the order of heads, one search, a cycle."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kaisched import UNLIMITED
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.states import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import policy_of
from kaisched_plugins.fair_sharing.decide import decide
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import KnockOut
from kaisched_plugins.fair_sharing.quotas import Quotas
from kaisched_plugins.fair_sharing.work import Work
from tests.benchmarks.harness import NODE, ONE_GPU, Measured, Watch, expect

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
_NOMINAL = 4
_PODS = 7
"""So many pods of one GPU each queue runs on average."""


def make_quotas(queues: int, cohorts: int) -> Quotas:
    """A root, inner queues below it, and as many leaves below each of them; two resources."""
    parent = [-1]
    each = queues // cohorts
    for _ in range(cohorts):
        at = len(parent)
        parent += [0, *([at] * each)]
    count = len(parent)
    is_leaf = np.array([row > 0 and above > 0 for row, above in enumerate(parent)])
    nominal, first_leaf = np.where(is_leaf, _NOMINAL, 0), int(is_leaf.argmax())
    shape = (2, count)
    return Quotas(
        np.array(parent),
        np.vstack((nominal, nominal * 8)),
        np.full(shape, UNLIMITED),
        np.full(shape, UNLIMITED),
        # The first leaf counts much more than others, so that it is entitled to what it asks for.
        [Fraction(1000 if row < first_leaf + 1 else 1 + row % 3) for row in range(count)],
        np.arange(2),
    )


def leaves_of(quotas: Quotas) -> list[int]:
    return [row for row, below in enumerate(quotas.rows.children) if not below]


def held(quotas: Quotas, per_queue: Any) -> Holdings:
    amounts = np.zeros_like(quotas.nominal)
    for at, row in enumerate(leaves_of(quotas)):
        amounts[0, row] = per_queue(at)
        amounts[1, row] = 8 * per_queue(at)
    return Holdings(quotas, amounts)


def order(repeat: int, **size: Any) -> Measured:
    """All heads of the queues in order, each admitted before the next one is asked for."""
    quotas = make_quotas(size["queues"], size["cohorts"])
    leaves = leaves_of(quotas)
    heads = [
        Work(at, row, [(0, 1 + at % 2), (1, 8)], at % 5, float(at % 97))
        for at, row in enumerate(leaves)
    ]
    before = held(quotas, lambda at: 2 + at % 5)

    def run() -> list[int]:
        contest = KnockOut(before.copy(), heads)
        found = []
        while (work := contest.pop()) is not None:
            found.append(work.row)
            contest.passed(work, is_admitted=True)
        return found

    quotas.rows  # noqa: B018 - made once for as long as no queue changes
    watch = Watch()
    for _ in range(repeat):
        found = watch.time(run)
    expect(sorted(found) == list(range(len(heads))), "a head is missing")
    return Measured(watch, {"heads": len(heads)})


def _borrower(size: dict[str, Any]) -> Callable[[int], int]:
    each = size["queues"] // size["cohorts"] if size["cohorts"] > 1 else 1
    return lambda at: 2 * _NOMINAL * (at // each % 2)


def search(repeat: int, **size: Any) -> Measured:
    """One claim of a queue that holds nothing takes from a hundred jobs of others."""
    quotas = make_quotas(size["queues"], size["cohorts"])
    leaves = leaves_of(quotas)
    taker, wanted = leaves[0], size["victims"]
    # Every other inner queue (or leaf) lends all it has, the others hold twice their quota.
    borrowed = _borrower(size)
    holdings = held(quotas, borrowed)
    lines = {}
    number = 0
    for at, row in enumerate(leaves):
        jobs = []
        for _ in range(borrowed(at)):
            jobs.append(Work(number, row, [(0, 1), (1, 8)], 0, 0.0, float(number), str(number)))
            number += 1
        if jobs:
            lines[row] = jobs[::-1]
    ask = [(0, wanted), (1, 8 * wanted)]
    incoming = Work(-1, taker, ask, 1)

    def run() -> int:
        return len(decide(holdings, incoming, lines, [0, 1], is_guarded=size["is_guarded"]))

    watch = Watch()
    for _ in range(repeat):
        found = watch.time(run)
    expect(found == wanted, f"{found} victims")
    return Measured(watch, {"victims": found, "candidates": number})


def make_store(queues: int, cohorts: int, workloads: int) -> RowStore:
    """A full cluster in which each queue runs what it may, and the rest of the workloads wait."""
    store = RowStore()
    running = workloads * 7 // 80 * 8
    nodes = running // 8
    for at in range(nodes):
        store.put_node(NodeRow(f"n{at:05}", NODE))
    store.put_queue(QueueRow("top", quota={"gpu": queues * 3000}))
    each = queues // cohorts
    quota = max(1, -(-running // queues) - 3)
    for cohort in range(cohorts):
        store.put_queue(QueueRow(f"c{cohort:04}", "top", quota={"gpu": 0}))
        for queue in range(each):
            name = f"c{cohort:04}-q{queue:03}"
            store.put_queue(QueueRow(name, f"c{cohort:04}", quota={"gpu": quota * 1000}))
    store.settle()
    shape = store.intern_shape(ONE_GPU)
    for at in range(workloads):
        queue = at % (cohorts * each)
        name = f"c{queue // each:04}-q{queue % each:03}"
        row = store.add_job(
            f"w/job-{at:06}",
            name,
            priority=50,
            is_preemptible=True,
            created_s=float(at),
            tasks=[(f"w/job-{at:06}-0", shape)],
        )
        if at < running:
            task = int(store.jobs.first_task.data[row])
            store.set_state(task, TaskState.RUNNING, at // 8)
    return store


def _cycles(size: dict[str, Any], repeat: int) -> tuple[Watch, dict[str, Any]]:
    store = make_store(size["queues"], size["cohorts"], size["workloads"])
    _change(store, size["free"], size["late"])
    snapshot, policy = store.snapshot(), policy_of(SHARD)
    watch = Watch()
    for _ in range(repeat):
        result, _ = watch.time(lambda: run_cycle(snapshot, None, policy, 2e6, Memory()))
    expect(not result.failures, f"{result.failures[:1]}")
    expect(result.stats.tasks_bound == size["free"], f"{result.stats.tasks_bound} bound")
    expect(result.stats.tasks_evicted == size["late"], f"{result.stats.tasks_evicted} evicted")
    detail = {"bound": size["free"], "evicted": size["late"], "waiting": result.stats.jobs_pending}
    return watch, detail


def _change(store: RowStore, free: int, late: int) -> None:
    """Let some jobs end; and let as many others come late, to a queue that holds nothing yet."""
    for row in range(free):
        store.remove_job(row)
    shape = store.intern_shape(ONE_GPU)
    if late:
        store.put_queue(QueueRow("late", "top", quota={"gpu": late * 1000}))
        store.settle()
    for at in range(late):
        store.add_job(
            f"w/late-{at:06}",
            "late",
            priority=50,
            is_preemptible=True,
            created_s=1e6,
            tasks=[(f"w/late-{at:06}-0", shape)],
        )


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
