"""B5: gangs that can never run. How soon is that said, and what do they cost the others?"""

from collections import Counter

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.framework.report.result import CycleResult
from tests.benchmarks import b1
from tests.benchmarks.harness import (
    GPUS_OF_NODE,
    WHOLE_NODE,
    Daemon,
    Measured,
    Watch,
    expect,
)

PODS = 10
REASONS = {
    "limit": "OverLimit",
    "quota": "NonPreemptibleOverQuota",
    "shape": "ExceedsAnyNode",
    "room": "GangNoRoom",
}
# One pod less than a gang asks for.
_TOO_LITTLE = {"gpu": (PODS - 1) * WHOLE_NODE["gpu"]}
_TOO_LARGE = {resource: 2 * amount for resource, amount in WHOLE_NODE.items()}


def make_store(nodes: int, queues: int) -> RowStore:
    """B1's, with a queue for each kind of gang."""
    store = b1.make_store(nodes, queues)
    store.put_queue(QueueRow("limit", parent="department", limit=_TOO_LITTLE))
    store.put_queue(QueueRow("quota", parent="department", quota=_TOO_LITTLE))
    store.put_queue(QueueRow("shape", parent="department"))
    store.put_queue(QueueRow("room", parent="department"))
    store.settle()
    return store


def add_gang(store: RowStore, kind: str, number: int, nodes: int) -> str:
    """Add a gang that came after all jobs of B1; return its name."""
    pods = nodes + 1 if kind == "room" else PODS
    shape = store.intern_shape(_TOO_LARGE if kind == "shape" else WHOLE_NODE)
    name = f"default/{kind}-{number:04}"
    store.add_job(
        name,
        kind,
        priority=50,
        is_preemptible=kind != "quota",
        created_s=1e5 + number,
        tasks=[(f"{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )
    return name


def verdict(repeat: int, nodes: int, kind: str) -> Measured:
    """Refuse one such gang, up to where its record can be read.

    In an empty cluster, because in a full one nobody would look for more than the room.
    """
    store = make_store(nodes, queues=1)
    for job in range(nodes * GPUS_OF_NODE):
        store.remove_job(job)
    daemon = Daemon(store)
    first, cold, warm, records = Watch(), Watch(), Watch(), Watch()

    def check(result: CycleResult, name: str) -> None:
        expect(result.bind_tasks.size == 0, f"{result.bind_tasks.size} pods of the gang bound")
        said = [(record.pod_group, record.reason) for record in result.records]
        expect(said == [(name, REASONS[kind])], f"the records say {said}")

    for turn in range(1 + repeat):
        name = add_gang(store, kind, turn, nodes)
        check(daemon.cold_cycle(cold if turn else first), name)
        result = daemon.cycle(warm if turn else None)
        records.time(lambda: len(result.records))  # noqa: B023 - called at once
        check(result, name)
        store.remove_job(store.row_of_job(name))
        daemon.cycle()
    detail = {"reason": REASONS[kind], "cold": cold.summary(), "first_s": first.times[0]}
    detail["record_s"] = records.summary()["median_s"]
    return Measured(warm, detail)


def loss(repeat: int, nodes: int, queues: int, gangs: int) -> Measured:
    """B1 with and without hopeless gangs behind it, in turns; both have the same queues."""
    alone, crowded = Daemon(make_store(nodes, queues)), Daemon(make_store(nodes, queues))
    kinds = [tuple(REASONS)[i % len(REASONS)] for i in range(gangs)]
    for number, kind in enumerate(kinds):
        add_gang(crowded.store, kind, number, nodes)
    jobs = nodes * GPUS_OF_NODE
    without, behind, first = Watch(), Watch(), Watch()
    for turn in range(1 + repeat):
        pair = ((alone, without), (crowded, behind))
        for daemon, watch in pair if turn % 2 else reversed(pair):
            result = daemon.cold_cycle(watch if turn else first)
            b1.check(daemon.store.snapshot(), result, jobs)
            if daemon is crowded:
                said = Counter(record.reason for record in result.records)
                right = Counter(REASONS[kind] for kind in kinds)
                expect(said == right, f"the records say {dict(said)}, not {dict(right)}")
    losses = np.array(behind.cpu) / np.array(without.cpu) - 1
    detail = {
        "jobs": jobs,
        "gangs": gangs,
        "loss": float(np.median(losses)),
        "without": without.summary(),
    }
    return Measured(behind, detail)
