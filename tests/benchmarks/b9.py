"""B9: how much of a cluster's GPUs is allocated when pods that share them come one after the other.

The pods of openb-2023 arrive in random order, and again at random until they ask for 130 % of all
GPUs. Nothing leaves, and who finds no room goes away: as in the study of fragmentation that
published the trace. The scheduler knows the pods that run and wait, and nothing of those to come.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, TaskState
from kaisched.core.constraints import Constraints
from kaisched.sim.traces import BUNDLED, read_nodes, read_pods
from kaisched.sim.workload import PodKind
from kaisched.testing.builder import policy_of
from tests.benchmarks.harness import Daemon, Measured, Watch, expect

TRACE: Final = BUNDLED / "openb-2023"
SHARDS: Final[Mapping[str, Mapping[str, object]]] = {
    "binpack": {},
    "gpu-fragmentation": {
        "plugins": {"gpu-fragmentation": {"enabled": True}, "binpack": {"enabled": False}}
    },
}
MOST_DEMAND: Final = 1.3
_QUEUE: Final = "team"
_EVERY: Final = 256
"""Pods that arrive between two cycles."""


def arrivals(seed: int, most: int) -> list[PodKind]:
    """Return pods in random order, and again at random, until they ask for so many GPUs."""
    pods = [replace(pod, node_labels=()) for pod in read_pods(TRACE)]
    rng = np.random.default_rng(seed)
    rows, asked = rng.permutation(len(pods)).tolist(), np.array([pod.milli_gpus for pod in pods])
    while int(asked[rows].sum()) < most:
        rows += rng.integers(len(pods), size=100).tolist()
    last = int(np.searchsorted(np.cumsum(asked[rows]), most))
    return [pods[at] for at in rows[: last + 1]]


class Cluster:
    """The nodes with GPUs; pods come and stay, or go away if they find no room."""

    def __init__(self, policy: str) -> None:
        store = RowStore()
        for node in read_nodes(TRACE, "node"):
            if node.allocatable["gpu"]:
                store.put_node(node)
        store.put_queue(QueueRow(_QUEUE, quota={"gpu": -1}))
        store.settle()
        self._store, self._daemon = store, Daemon(store, policy_of(SHARDS[policy]))
        self._shapes: dict[PodKind, int] = {}
        self._number = 0
        self.gpus = int(store.snapshot().nodes.allocatable[GPU].sum())

    def arrive(self, pods: list[PodKind], watch: Watch) -> None:
        """Let pods arrive, and run a cycle."""
        store = self._store
        jobs = [self._add(pod) for pod in pods]
        result = self._daemon.cycle(watch)
        expect(not result.failures, f"{result.failures[:1]}")
        store.cards.choose(result.bind_cards)
        store.place(result.bind_tasks, result.bind_nodes, TaskState.RUNNING, 0.0)
        for job in jobs:
            if store.tasks.state.data[store.jobs.first_task.data[job]] == TaskState.PENDING:
                store.remove_job(job)

    def _add(self, pod: PodKind) -> int:
        shape = self._shapes.get(pod)
        if shape is None:
            request = {"cpu": pod.cpu, "memory": pod.memory, "gpu": pod.gpu}
            shape = self._store.intern_shape(request, Constraints(devices=pod.devices))
            self._shapes[pod] = shape
        self._number += 1
        name = f"w/p-{self._number:05}"
        return self._store.add_job(
            name,
            _QUEUE,
            priority=50,
            is_preemptible=True,
            created_s=float(self._number),
            tasks=[(f"{name}-0", shape)],
        )

    @property
    def allocated(self) -> float:
        """The part of all GPUs that pods have."""
        nodes = self._store.snapshot().nodes
        return 1 - float(nodes.idle[GPU].sum()) / self.gpus


def fill(seed: int, policy: str, watch: Watch, most: int = -1) -> tuple[float, float]:
    """Return the part of the GPUs that is allocated when 100 % and 130 % of them were asked for.

    With ``most`` no more pods than that arrive, in both halves of the run.
    """
    cluster = Cluster(policy)
    pods = arrivals(seed, int(cluster.gpus * MOST_DEMAND))[: None if most < 0 else most]
    asked = np.cumsum([pod.milli_gpus for pod in pods])
    whole = int(np.searchsorted(asked, cluster.gpus)) + 1
    found = []
    for part in (pods[:whole], pods[whole:]):
        for begin in range(0, len(part), _EVERY):
            cluster.arrive(part[begin : begin + _EVERY], watch)
        found.append(cluster.allocated)
    return found[0], found[1]


def packing(repeat: int, policy: str, seeds: int, pods: int = -1) -> Measured:
    """Fill the cluster once for each seed, and return what is left free on average."""
    del repeat
    watch = Watch()
    free = 1 - np.mean([fill(seed, policy, watch, pods) for seed in range(seeds)], axis=0)
    return Measured(
        watch, {"free_at_100": float(free[0]), "free_at_130": float(free[1]), "seeds": seeds}
    )
