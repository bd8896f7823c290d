"""Simulated cluster: nodes and queues as given, jobs as pods in rows, devices for their claims.

If only GPUs are given, GPUs are the scarce resource. Pods then request usual amounts of CPU and
memory, nodes have twice what the pods of their GPUs can request, and queues have no limit of
either.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, GPU_UNIT, Amounts, IntVec, RowVec, TaskState
from kaisched.core.claims.model import Claim, Identity, Slice
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.claims.table import ClaimTable, Held, held_by
from kaisched.core.constraints import ClaimUse, Constraints, Requirement
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import DELAY, EVICTED, QueueTable, SubGroup, TopologyLevel
from kaisched.errors import InvariantBroken
from kaisched.framework.intents import Bind
from kaisched.framework.report.result import CycleResult, Shares
from kaisched.sim.workload import POD_CPU, POD_MEMORY, ClusterSize, Gpus, PodKind, Workload, exact
from kaisched.units import CLAIMED_GPU

NOBODY = -1


def class_of(name: str) -> DeviceClass:
    """Return a class of devices: all those of the driver with its name."""
    return DeviceClass(name, (CelSelector(f'device.driver == "{name}"'),))


class Devices:
    """The devices of the nodes of a cluster, and who has them."""

    def __init__(self, slices: Sequence[Slice], classes: Sequence[str]) -> None:
        """Start with nothing taken."""
        self._offer = Offer(slices, {name: class_of(name) for name in classes})
        self._claims: list[Claim] = []
        self._number: dict[Claim, int] = {}
        self._selectors: dict[str, CelSelector] = {}
        self._held: dict[str, Held] = {}
        self._pods: dict[str, int] = {}
        """The job of each pod with a claim."""
        self.listed: list[Identity] = [it.identity for one in slices for it in one.devices]
        """All devices, in the order of nodes; the pool of a device is its node."""
        self._changes: list[tuple[Identity, int]] = []

    def use_of(self, claim: Claim) -> ClaimUse:
        """Return the use of a claim in the constraints of a pod."""
        number = self._number.get(claim)
        if number is None:
            number = self._number[claim] = len(self._claims)
            self._claims.append(claim)
            for ask in (it for request in claim.requests for it in request.options):
                self._selectors.update((text, CelSelector(text)) for text in ask.selectors)
        return ClaimUse(number)

    def add(self, pods: Iterable[str], job: int) -> None:
        """Take note of pods with a claim."""
        self._pods.update(dict.fromkeys(pods, job))

    def give(self, binds: Iterable[Bind]) -> None:
        """Let pods have the devices that they get with a bind."""
        for bind in binds:
            for key, allocation in bind.claims:
                held = self._held[key] = held_by(allocation)
                job = self._pods[key]
                self._changes += [(identity, job) for identity, _ in held.portions]

    def take_back(self, pods: Iterable[str]) -> None:
        """Free the devices of pods that are gone, and forget the pods."""
        for pod in pods:
            if self._pods.pop(pod, None) is not None and (held := self._held.pop(pod, None)):
                self._changes += [(identity, NOBODY) for identity, _ in held.portions]

    def changes(self) -> list[tuple[Identity, int]]:
        """Return which device went to which job since the last call, in order; to NOBODY if free.

        What was given back and given again is there twice.
        """
        changes, self._changes = self._changes, []
        return changes

    def table(self, row_of_task: Callable[[str], int]) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod has one."""
        if not self._pods:
            return None
        rows = {pod: row_of_task(pod) for pod in self._pods}
        return ClaimTable(
            offer=self._offer,
            specs=tuple(self._claims),
            selectors=MappingProxyType(self._selectors),
            held=MappingProxyType(dict(self._held)),
            consumers=MappingProxyType({}),
            claims_of_task=MappingProxyType({row: (pod,) for pod, row in rows.items()}),
            users=MappingProxyType({pod: (rows[pod],) for pod in self._held}),
        )


@dataclass(slots=True)
class DeviceUse:
    """How one device was used in a run."""

    identity: Identity
    ticks: int = 0
    """In which a job had it."""
    runs: int = 0
    """How often a job got it."""
    job: int = NOBODY
    """The job that has it now."""
    since: int = 0


class DeviceLog:
    """How all devices are used, over time."""

    def __init__(self, clusters: Iterable[Devices | None]) -> None:
        """Start with nothing used; clusters without devices may be among them."""
        self._clusters = [it for it in clusters if it is not None]
        listed = [identity for it in self._clusters for identity in it.listed]
        self._uses = {identity: DeviceUse(identity) for identity in listed}

    def look(self, tick: int) -> None:
        """Take note of what has changed hands by a tick."""
        for identity, job in (it for cluster in self._clusters for it in cluster.changes()):
            use = self._uses[identity]
            self._count(use, tick)
            use.job = job
            use.runs += job != NOBODY

    def until(self, tick: int) -> list[DeviceUse]:
        """Return the use of all devices up to a tick, in the order of nodes."""
        for use in self._uses.values():
            self._count(use, tick)
        return list(self._uses.values())

    @staticmethod
    def _count(use: DeviceUse, tick: int) -> None:
        if use.job != NOBODY:
            use.ticks += tick - use.since
        use.since = tick


Decide = Callable[[Snapshot, float], CycleResult]
"""Cycle that decides on a snapshot of a cluster at an instant in seconds."""

TOPOLOGY: Final = "scenario"
"""The name of the only topology."""
NODE_PODS: Final = 110
_NO_ROW: Final = -1
_PREFIX: Final = "trace/job-"
_NO_CARDS: Final[Mapping[int, tuple[int, ...]]] = {}


class Cluster:
    """Cluster that names jobs by their position in the workload; rows of the store stay inside."""

    def __init__(
        self,
        workload: Workload,
        nodes: Sequence[NodeRow],
        queues: Sequence[QueueRow],
        origin_s: float = 0.0,
        levels: tuple[TopologyLevel, ...] = (),
        devices: Devices | None = None,
    ) -> None:
        """Set up empty nodes and queues, which must include the queues of jobs that come here.

        ``origin_s`` is the start of virtual time in seconds since 1970, ``levels`` are those of the
        only topology, ``devices`` are what pods may claim.
        """
        self.devices = devices
        self._frozen: tuple[Snapshot, Snapshot] | None = None
        """The last snapshot without claims, and the same with them."""
        self._evicted_s: dict[int, float] = {}
        """When jobs that wait for a better place were last evicted: they then wait anew."""
        self._work = workload
        self._origin_s = origin_s
        self._store = RowStore()
        self._nodes = {node.name: node for node in nodes}
        self._shape: dict[PodKind, int] = {}
        self._store.nodes.put_topology(TOPOLOGY, levels)
        for node in nodes:
            self._store.put_node(node)
        for queue in queues:
            self._store.put_queue(queue)
        self._queue = [self._store.row_of_queue(name) for name in workload.queue_names]
        self._row: list[int] = []
        self._job_of_row: list[int] = []
        self._compactions = self._store.compactions

    def name_of(self, job: int) -> str:
        """Return the name of a job in decisions."""
        return f"{_PREFIX}{job:07d}"

    def job_of_name(self, name: str) -> int:
        """Return the job that decisions name."""
        return int(name.removeprefix(_PREFIX))

    def _pods_of(self, job: int) -> list[str]:
        name = self.name_of(job)
        return [f"{name}-{at}" for at in range(len(self._work.kind[job].pods))]

    def has_node(self, name: str) -> bool:
        """Tell whether a node is here."""
        return name in self._nodes

    def add(self, job: int, eviction_delay_s: float = 0.0) -> None:
        """Add a job with pending pods, which may evict only so long after it was created."""
        work = self._work
        name = self.name_of(job)
        kind = work.kind[job]
        missing = job + 1 - len(self._row)
        if missing > 0:
            self._row += [_NO_ROW] * missing
        self._row[job] = self._store.add_job(
            name,
            self._queue[work.queue[job]],
            priority=kind.priority,
            is_preemptible=kind.is_preemptible,
            created_s=self._origin_s + work.submitted_s[job],
            tasks=list(zip(self._pods_of(job), map(self._shape_of, kind.pods), strict=True)),
            minimum=len(kind.pods),
        )
        if self.devices is not None and kind.pods[0].claim is not None:
            self.devices.add(self._pods_of(job), job)
        if kind.topology is not None:
            first = int(self._store.jobs.first_podset.data[self._row[job]])
            root = SubGroup("default", first, 0, topology=kind.topology)
            self._store.jobs.structure.set(self._row[job], root)
            self._store.jobs.rare.set((self._row[job], EVICTED), self._evicted_s.get(job, math.nan))
        self._job_of_row.append(job)
        if eviction_delay_s:
            self._store.jobs.rare.set((self._row[job], DELAY), eviction_delay_s)

    def remove(self, job: int) -> None:
        """Remove a job and free its room."""
        if self.devices is not None:
            self.devices.take_back(self._pods_of(job))
        self._store.remove_job(self._row[job])
        self._row[job] = _NO_ROW

    def renew(self, job: int, eviction_delay_s: float = 0.0) -> None:
        """Replace the pods of an evicted job by new, pending ones in its old place."""
        self.remove(job)
        self.add(job, eviction_delay_s)

    def place(
        self,
        tasks: RowVec,
        nodes: RowVec,
        at_s: float,
        cards: Mapping[int, tuple[int, ...]] = _NO_CARDS,
        claims: Iterable[Bind] = (),
    ) -> None:
        """Run pods on nodes; fail if a node would then hold more than its capacity.

        ``cards`` has the cards of pods with parts of GPUs, ``claims`` what claims of pods get.
        """
        self._store.cards.choose(cards)
        if self.devices is not None:
            self.devices.give(claims)
        self._store.place(tasks, nodes, TaskState.RUNNING, at_s)
        there = np.unique(nodes)
        full = there[self._store.idle_on(there).min(axis=1, initial=0) < 0]
        if len(full):
            raise InvariantBroken(f"node {self._store.nodes.name[full[0]]} is over capacity")

    def gpus_on(self, tasks: RowVec, nodes: RowVec) -> dict[int, Gpus]:
        """Return the GPUs of each job with these pods on nodes, where that depends on the nodes."""
        shapes = self._store.shapes.table()
        if shapes.by_card is None:
            return {}
        sizes, milli = self._store.nodes.cards()[1], Counter[int]()
        shape = self._store.tasks.shape_of_task.data[tasks]
        of_pods = shapes.charge[GPU, shape] - shapes.by_card.saved(shape, sizes[nodes])
        for job, amount in zip(self.jobs_of(tasks), of_pods.tolist(), strict=True):
            milli[job] += amount
        return {job: exact(amount) for job, amount in milli.items()}

    def release(self, job: int, at_s: float) -> None:
        """Begin to stop a job's pods, which still hold their room."""
        wish = self._work.kind[job].topology
        if wish is not None and wish.patience_s:
            self._evicted_s[job] = at_s
        for task in self._store.jobs.tasks.data[self._row[job]]:
            self._store.set_state(task, TaskState.RELEASING)

    def nominate(self, tasks: RowVec, nodes: RowVec) -> None:
        """Nominate a node for each of some pending pods."""
        for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
            self._store.nominate(task, node)

    def set_ready(self, node: str, *, is_ready: bool) -> None:
        """Let a node fail or return. The caller stops the jobs on it."""
        self._nodes[node] = replace(self._nodes[node], is_ready=is_ready)
        self._store.put_node(self._nodes[node])

    def jobs_on(self, node: str) -> list[int]:
        """Return the jobs with a pod that holds room on a node, in order."""
        tasks = self._store.tasks
        row = self._store.row_of_node(node)
        there = np.flatnonzero(tasks.node_of_task.data[: tasks.size] == row)
        return sorted(set(self.jobs_of(there)))

    def jobs_of(self, tasks: RowVec) -> list[int]:
        """Return the job of each pod."""
        rows = self._store.tasks.job_of_task.data[tasks].tolist()
        return [self._job_of_row[row] for row in rows]

    def snapshot(self) -> Snapshot:
        """Freeze the present state."""
        snapshot = self._store.snapshot()
        if self._compactions != self._store.compactions:
            self._renumber()
        return snapshot if self.devices is None else self._with_claims(snapshot, self.devices)

    def _with_claims(self, bare: Snapshot, devices: Devices) -> Snapshot:
        """Return a snapshot with the claims of its pods; the same object while nothing happens."""
        if self._frozen is None or self._frozen[0] is not bare:
            claims = devices.table(self._store.row_of_task)
            self._frozen = bare, bare if claims is None else replace(bare, claims=claims)
        return self._frozen[1]

    def fair_shares(self, result: CycleResult) -> list[int]:
        """Return the fair share of each queue of the workload in thousandths of a GPU.

        Queues of other pools have none here.
        """
        shares = result.shares
        if isinstance(shares, Shares):
            share = shares.fair_share_of("gpu")
            return [share[row] if row >= 0 else 0 for row in self._queue]
        by_name = {queue.name: queue.fair_share["gpu"] for queue in shares}
        return [by_name.get(name, 0) for name in self._work.queue_names]

    # -- amounts held, for usage history -----------------------------------------------------------

    @property
    def queues(self) -> QueueTable:
        """All queues, in the order of columns by queue."""
        self._store.settle()
        return self._store.queues.table

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources, in the order of rows."""
        return self._store.axis.names

    def held(self) -> Amounts:
        """Return a copy of the amounts ``(R, Q)`` that the pods of each leaf hold now."""
        return self.snapshot().allocated.copy()

    def total(self) -> Amounts:
        """Return the amounts ``(R,)`` that are divided now."""
        return self.snapshot().total

    def node_labels(self) -> Sequence[Mapping[str, str]]:
        """Return the labels of all nodes, in the order of :meth:`node_names`."""
        return [self._nodes[name].labels for name in self.node_names()]

    def gpus_in_use(self) -> IntVec:
        """Return milli-GPUs ``(N,)`` in use on each node, in the order of :meth:`node_names`."""
        nodes = self.snapshot().nodes
        used = nodes.allocatable - nodes.idle
        in_use: IntVec = self._store.axis.charged(used)[GPU]
        return in_use

    def node_names(self) -> tuple[str, ...]:
        """Return the names of all nodes, in order."""
        self._store.settle()
        return self._store.nodes.name

    def node_gpus(self) -> list[float]:
        """Return the GPUs of all nodes, failed ones too."""
        there = self._store.axis.charged(self._store.nodes.allocatable())
        gpus: list[float] = (there[GPU] / GPU_UNIT).tolist()
        return gpus

    def _shape_of(self, pod: PodKind) -> int:
        shape = self._shape.get(pod)
        if shape is None:
            request = {"cpu": pod.cpu, "memory": pod.memory, "gpu": pod.gpu}
            limits = _constraints_of(pod)
            if pod.claim is not None and self.devices is not None:
                request[CLAIMED_GPU] = GPU_UNIT * pod.claimed_gpus
                limits = replace(limits, claims=(self.devices.use_of(pod.claim),))
            shape = self._shape[pod] = self._store.intern_shape(request, limits)
        return shape

    def _renumber(self) -> None:
        self._compactions = self._store.compactions
        remap = self._store.remap
        assert remap is not None
        jobs = [_NO_ROW] * self._store.jobs.size
        for job, row in zip(self._job_of_row, remap.job.tolist(), strict=True):
            if row != _NO_ROW:
                jobs[row] = job
                self._row[job] = row
        self._job_of_row = jobs


def _constraints_of(pod: PodKind) -> Constraints:
    wanted = tuple(Requirement(label, "In", values) for label, values in pod.node_labels)
    return Constraints(node_terms=((wanted, ()),) if wanted else None, devices=pod.devices)


def equal_nodes(size: ClusterSize) -> list[NodeRow]:
    """Return the equal nodes of a cluster of this size."""
    row = node_amounts(size.gpus_per_node)
    return [NodeRow(f"node-{node:05d}", row) for node in range(size.nodes)]


def node_amounts(
    gpus: int, cpu: int | None = None, memory: int | None = None, devices: int = 0
) -> dict[str, int]:
    """Return a node's amounts; CPU and memory by default exceed what its GPUs' pods request.

    So they do what the pods request that claim its devices.
    """
    return {
        "cpu": 2 * POD_CPU * (gpus + devices) if cpu is None else cpu,
        "memory": 2 * POD_MEMORY * (gpus + devices) if memory is None else memory,
        "gpu": GPU_UNIT * gpus,
        "pods": NODE_PODS,
    }


def equal_queues(workload: Workload) -> list[QueueRow]:
    """Return the queues of a trace: siblings that share only GPUs."""
    named = zip(workload.queue_names, workload.weights, workload.quotas, strict=True)
    return [
        QueueRow(name, quota={"gpu": quota * GPU_UNIT}, weight={"gpu": weight})
        for name, weight, quota in named
    ]
