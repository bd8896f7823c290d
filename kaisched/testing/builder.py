"""Builder of small clusters that runs one cycle on them: for tests of plugins and policies.

::

    ran = (
        ClusterBuilder()
        .node("n0", gpu=4)
        .queue("a", deserved=2)
        .job("train", queue="a", tasks=2, gpu=1)
        .run(plugins=[MyPlugin], shard={"plugins": {"my-plugin": {"arguments": {"factor": 2}}}})
    )
    assert ran.placed == {"train-0": "n0", "train-1": "n0"}

Amounts are in GPUs, cores and GiB. Queues and jobs are listed oldest first. Jobs of any structure
are put into a row store in base units by :func:`add_job`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU_UNIT, HOLDING_STATES, TaskState
from kaisched.core.constraints import Constraints, Requirement, Taint
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import SHARING, Sharing, SubGroup, TopologyConstraint, TopologyLevel
from kaisched.core.tree import roll_up
from kaisched.core.usage import PARTS, Usage
from kaisched.engine.policy import build_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import Catalogue, Installed, installed_plugins
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.units import MEBIBYTE

# -- jobs in base units ----------------------------------------------------------------------------

_UNCONSTRAINED: Final = Constraints()


@dataclass(frozen=True, slots=True)
class Group:
    """A node of a job's tree: a leaf counts pods, an inner group its children."""

    name: str
    minimum: int | None = None
    """Pods or children needed; by default all children of an inner group."""
    children: tuple[Group, ...] = ()
    topology: TopologyConstraint | None = None

    def leaves(self) -> list[Group]:
        """Return the pod sets below, or this one."""
        if not self.children:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]


@dataclass(frozen=True, slots=True)
class Task:
    """A pod; ``request`` in base units by resource name."""

    name: str
    request: Mapping[str, int] = field(default_factory=dict)
    constraints: Constraints = _UNCONSTRAINED
    podset: str = "default"
    state: TaskState = TaskState.PENDING
    node: str = ""
    nominated: str = ""
    order_priority: int | None = None
    cards: Sequence[str] = ()
    """Names of the cards that a running pod has parts of; without any they are packed."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A pod group with its pods."""

    name: str
    queue: str
    tasks: Sequence[Task]
    priority: int = 50
    is_preemptible: bool = True
    created_s: float = 0.0
    started_s: float = math.nan
    root: Group = Group("default", 1)
    preemption_delay_s: float = 0.0
    last_evicted_s: float = math.nan
    staleness_grace_s: float = math.nan
    stale_since_s: float = math.nan
    succeeded: int = 0
    """Pods that succeeded, beside ``tasks``."""


def add_job(store: RowStore, job: Job, namespace: str = "default") -> int:
    """Add a job with pods in any state; return its row."""
    shapes = [store.intern_shape(task.request, task.constraints) for task in job.tasks]
    names = [f"{namespace}/{task.name}" for task in job.tasks]
    row = store.add_job(
        f"{namespace}/{job.name}",
        job.queue,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        created_s=job.created_s,
        tasks=list(zip(names, shapes, strict=True)),
    )
    rare = (job.preemption_delay_s, job.last_evicted_s, job.staleness_grace_s, job.stale_since_s)
    for column, number in enumerate((*rare, job.succeeded)):
        store.jobs.rare.set((row, column), number)
    podset_of_task = _structure(store, row, job)
    first = int(store.jobs.first_task.data[row])
    for task, (offset, podset) in zip(job.tasks, enumerate(podset_of_task), strict=True):
        at = first + offset
        store.tasks.podset_of_task.own()[at] = podset
        if task.order_priority is not None:
            store.tasks.order_priority.own()[at] = task.order_priority
        store.tasks.label_set_of_task.own()[at] = store.labels.intern(namespace, task.labels)
        if task.nominated:
            store.nominate(at, store.row_of_node(task.nominated))
        if task.state != TaskState.PENDING:
            node = store.row_of_node(task.node) if HOLDING_STATES[task.state] else None
            store.set_state(at, task.state, node, job.started_s)
            if task.cards:
                store.cards.name(at, tuple(task.cards))
    return row


def _structure(store: RowStore, row: int, job: Job) -> list[int]:
    """Create the pod sets and their tree; return each task's pod set."""
    podsets = store.podsets
    first = int(store.jobs.first_podset.data[row])
    number: dict[str, int] = {}
    for leaf in job.root.leaves():
        at = first if not number else podsets.append(leaf.name, row, 0)
        podsets.name.own()[at] = leaf.name
        podsets.minimum.own()[at] = 1 if leaf.minimum is None else leaf.minimum
        number[leaf.name] = at
    store.jobs.podset_count.own()[row] = len(number)
    if job.root.children or job.root.topology is not None:
        store.jobs.structure.set(row, _subgroup(job.root, number))
    return [number[task.podset] for task in job.tasks]


def _subgroup(group: Group, number: Mapping[str, int]) -> SubGroup:
    if not group.children:
        return SubGroup(group.name, number[group.name], 0, topology=group.topology)
    minimum = len(group.children) if group.minimum is None else group.minimum
    children = tuple(_subgroup(child, number) for child in group.children)
    return SubGroup(group.name, -1, minimum, children, group.topology)


def add_foreign(store: RowStore, task: Task, namespace: str = "default") -> int:
    """Add a pod of another scheduler on its node; return its row."""
    shape = store.intern_shape(task.request, task.constraints)
    store.settle()
    name = f"{namespace}/{task.name}"
    row = store.tasks.append(name, name, shape, -1, -1)
    store.tasks.label_set_of_task.own()[row] = store.labels.intern(namespace, task.labels)
    store.set_state(row, task.state, store.row_of_node(task.node))
    return row


# -- the builder -----------------------------------------------------------------------------------

NOW_S: Final = 1_000_000.0
HOSTNAME: Final = "kubernetes.io/hostname"
NON_PREEMPTIBLE_FROM: Final = 100
_CORE: Final = 1000
_GIB: Final = 1024 * MEBIBYTE

Amounts = Mapping[str, float | None]


@dataclass(frozen=True)
class Ran:
    """Outcome of a cycle."""

    snapshot: Snapshot
    result: CycleResult
    memory: Memory

    @property
    def placed(self) -> dict[str, str]:
        """Pod to node, for pods bound in this cycle."""
        return {_short(bind.pod): bind.node for bind in self.result.binds}

    @property
    def promised(self) -> dict[str, str]:
        """Pod to node, for pods that wait for room being released."""
        return {_short(move.pod): move.node for move in self.result.nominations}

    @property
    def evicted(self) -> dict[str, str]:
        """Pod to node, for evicted pods."""
        return {_short(move.pod): move.node for move in self.result.evictions}

    @property
    def reasons(self) -> dict[str, str]:
        """Job to the reason why it is pending."""
        return {_short(record.pod_group): record.reason for record in self.result.records}


def _short(name: str) -> str:
    return name.partition("/")[2]


class ClusterBuilder:
    """Collects nodes, queues and jobs; each method returns the builder."""

    def __init__(self) -> None:
        """Start empty."""
        self._nodes: list[NodeRow] = []
        self._queues: list[QueueRow] = []
        self._jobs: list[Job] = []
        self._topologies: dict[str, tuple[TopologyLevel, ...]] = {}

    def topology(self, name: str, *levels: str, **aliased: str) -> ClusterBuilder:
        """Add a topology by the node labels of its levels, the outermost first.

        Levels with an alias follow, as ``alias="label"``.
        """
        known = [TopologyLevel(label) for label in levels]
        known += [TopologyLevel(label, alias) for alias, label in aliased.items()]
        self._topologies[name] = tuple(known)
        return self

    def node(
        self,
        name: str,
        *,
        gpu: int = 0,
        cpu: int = 1000,
        memory: int = 4000,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        is_unschedulable: bool = False,
        card_mib: int = 0,
        extended: Mapping[str, int] | None = None,
    ) -> ClusterBuilder:
        """Add a node with ``gpu`` GPUs of ``card_mib`` MiB, ``cpu`` cores and ``memory`` GiB.

        ``extended`` are pieces of other resources by name, such as MIG instances.
        """
        amounts = {**_amounts(gpu, cpu, memory), "pods": pods, **(extended or {})}
        all_labels = {HOSTNAME: name, **(labels or {})}
        row = NodeRow(name, amounts, all_labels, tuple(taints), is_unschedulable=is_unschedulable)
        self._nodes.append(replace(row, card_mib=card_mib))
        return self

    def queue(
        self,
        name: str,
        *,
        parent: str = "",
        deserved: float | Amounts | None = 0,
        limit: float | Amounts | None = None,
        weight: float | Mapping[str, float] = 1,
        priority: int = 100,
        borrowing: float | Amounts | None = None,
        lending: float | Amounts | None = None,
        sharing: Sharing = SHARING,
    ) -> ClusterBuilder:
        """Add a queue. A number counts GPUs; a mapping may also name cpu (cores) and memory (GiB).

        None, or a resource that is not named, is unlimited. The last three are for policies that
        lend what queues do not use: limits, and the weight and whom its work may take from.
        """
        row = QueueRow(
            name,
            parent,
            created_s=float(len(self._queues)),
            priority=priority,
            quota=_bounds(deserved),
            limit=_bounds(limit),
            weight=dict(weight) if isinstance(weight, Mapping) else {"gpu": float(weight)},
            borrowing_limit=_bounds(borrowing),
            lending_limit=_bounds(lending),
            sharing=sharing,
        )
        self._queues.append(row)
        return self

    def job(
        self,
        name: str,
        *,
        queue: str,
        tasks: int = 1,
        gpu: float = 1,
        cards: int = 1,
        cpu: int = 1,
        memory: int = 1,
        min_tasks: int | None = None,
        priority: int = 50,
        is_preemptible: bool | None = None,
        on: Sequence[str] = (),
        running: Mapping[str, int] | None = None,
        binding: Mapping[str, int] | None = None,
        leaving: Mapping[str, int] | None = None,
        promised: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        constraints: Constraints | None = None,
        groups: Group | None = None,
        podsets: Sequence[str] = (),
        on_cards: Sequence[Sequence[str]] = (),
        topology: TopologyConstraint | None = None,
        extended: Mapping[str, int] | None = None,
        **timing: Any,
    ) -> ClusterBuilder:
        """Add a job of equal pods, named ``<name>-0`` and so on.

        ``gpu``, ``cpu`` (cores), ``memory`` (GiB), ``extended`` (pieces by resource): of each pod;
        ``gpu`` below 1 is a part of each of ``cards`` GPUs, named by ``on_cards``. ``min_tasks``
        (all) start together or not at all; ``groups`` is a tree of pod sets, ``podsets`` that of a
        pod. ``on`` lists the only nodes to use, ``constraints`` adds others. Four map nodes to pods
        running, being bound, leaving and promised room. ``timing``: ``started_s`` (0) and more.
        """
        places = _all_placed(name, tasks, _places(running, binding, leaving, promised))
        request = _amounts(int(gpu), cpu, memory) | dict(extended or {})
        pod = Task(name, request, constraints or _only(on), labels=labels or {})
        job = Job(
            name,
            queue,
            _pods(_with_part(pod, gpu, cards), places, podsets, on_cards),
            priority=priority,
            is_preemptible=_default(is_preemptible, priority < NON_PREEMPTIBLE_FROM),
            created_s=float(len(self._jobs)),
            root=_root(groups, tasks if min_tasks is None else min_tasks, topology),
            **{"started_s": 0.0, **timing},
        )
        self._jobs.append(job)
        return self

    def store(self) -> RowStore:
        """Return a new state store that holds the cluster."""
        store = RowStore()
        for name, levels in self._topologies.items():
            store.nodes.put_topology(name, levels)
        for queue in self._queues:
            store.put_queue(queue)
        for node in self._nodes:
            store.put_node(node)
        for job in self._jobs:
            add_job(store, job)
        return store

    def run(
        self,
        *actions: str,
        shard: SchedulingShard | Mapping[str, Any] | None = None,
        plugins: Sequence[type[Plugin]] = (),
        memory: Memory | None = None,
        usage: Mapping[str, float | Mapping[str, float]] | None = None,
        now_s: float = NOW_S,
    ) -> Ran:
        """Run one cycle.

        Args:
            actions: in this order; by default the shard's.
            shard: a SchedulingShard or its ``spec`` as in a file; by default all defaults.
            plugins: classes to add to the installed plugins and to enable, installed or not.
            memory: memory of the cycle before.
            usage: leaf queue to its past usage of GPUs, or by resource; 0.5 is half of the cluster
                all the time. Parent queues get their children's sum.
            now_s: the time of the cycle.

        """
        snapshot = self.store().snapshot()
        policy = policy_of(shard, plugins, actions)
        used = None if usage is None else usage_of(snapshot, usage)
        result, after = run_cycle(snapshot, used, policy, now_s, memory or Memory())
        if result.failures or result.stats.abandoned:
            raise AssertionError(f"the cycle failed: {result.failures} {result.stats.abandoned}")
        broken = violations(snapshot, result, policy, with_records=True)
        if broken:
            raise AssertionError("the cycle broke invariants: " + "; ".join(broken))
        return Ran(snapshot, result, after)


def usage_of(snapshot: Snapshot, used: Mapping[str, float | Mapping[str, float]]) -> Usage:
    """Return the usage vector for usage of leaf queues: of GPUs, or by resource name."""
    own = np.zeros(snapshot.allocated.shape, np.int64)
    for queue, amount in used.items():
        row = snapshot.queues.row_of_name[queue]
        for name, part in ({"gpu": amount} if isinstance(amount, float | int) else amount).items():
            own[snapshot.axis.position[name], row] = round(part * PARTS)
    return Usage(roll_up(own, snapshot.queues.tree), age_s=0.0, coverage=1.0)


def _amounts(gpu: int, cpu: int, memory: int) -> dict[str, int]:
    return {"gpu": gpu * GPU_UNIT, "cpu": cpu * _CORE, "memory": memory * _GIB}


def _root(groups: Group | None, minimum: int, topology: TopologyConstraint | None) -> Group:
    root = groups or Group("default", minimum)
    return root if topology is None else replace(root, topology=topology)


def _default(said: bool | None, otherwise: bool) -> bool:
    return otherwise if said is None else said


def _places(*nodes_by_state: Mapping[str, int] | None) -> list[tuple[TaskState, str]]:
    """Return a (state, node) for each pod, in the order of the states below."""
    states = (TaskState.RUNNING, TaskState.BINDING, TaskState.RELEASING, TaskState.PENDING)
    return [
        (state, node)
        for state, nodes in zip(states, nodes_by_state, strict=True)
        for node, count in (nodes or {}).items()
        for _ in range(count)
    ]


def _all_placed(
    job: str, tasks: int, places: list[tuple[TaskState, str]]
) -> list[tuple[TaskState, str]]:
    """Return places for all pods: those without another one are pending."""
    if len(places) > tasks:
        raise ValueError(f"job {job} has {tasks} tasks, but {len(places)} have a place")
    return places + [(TaskState.PENDING, "")] * (tasks - len(places))


def _pods(
    pod: Task,
    places: Sequence[tuple[TaskState, str]],
    podsets: Sequence[str],
    on_cards: Sequence[Sequence[str]],
) -> list[Task]:
    """Return a pod in each place, named after the job and numbered."""
    return [
        replace(
            pod,
            name=f"{pod.name}-{number}",
            podset=podsets[number] if podsets else "default",
            cards=on_cards[number] if number < len(on_cards) else (),
            state=state,
            node=node,
            nominated=node if state == TaskState.PENDING else "",
        )
        for number, (state, node) in enumerate(places)
    ]


def _with_part(pod: Task, gpu: float, cards: int) -> Task:
    if not 0 < gpu < 1:
        return pod
    devices = DeviceDemand(round(gpu * CARD), 0, cards)
    return replace(pod, constraints=replace(pod.constraints, devices=devices))


def _only(nodes: Sequence[str]) -> Constraints:
    if not nodes:
        return Constraints()
    return Constraints(node_terms=(((Requirement(HOSTNAME, "In", tuple(nodes)),), ()),))


def policy_of(
    shard: SchedulingShard | Mapping[str, Any] | None = None,
    plugins: Sequence[type[Plugin]] = (),
    actions: Sequence[str] = (),
) -> Policy:
    """Return a policy with uninstalled plugins, enabled unless the shard disables them."""
    if not isinstance(shard, SchedulingShard):
        spec = dict(shard or {})
        said: Mapping[str, Mapping[str, Any]] = spec.get("plugins", {})
        given = {plugin.name: {"enabled": True} for plugin in plugins}
        spec["plugins"] = {
            **given,
            **{name: {**given.get(name, {}), **said[name]} for name in said},
        }
        raw = {
            "apiVersion": SchedulingShard.API_VERSION,
            "kind": SchedulingShard.KIND,
            "metadata": {"name": "testing"},
            "spec": spec,
        }
        shard, _ = decode_object(raw, SchedulingShard)
    installed = [
        each
        for each in installed_plugins().by_name.values()
        if each.name not in {plugin.name for plugin in plugins}
    ]
    added = [Installed(plugin.name, "testing", "0", plugin) for plugin in plugins]
    catalogue = Catalogue([*installed, *added])
    return build_policy(shard, catalogue=catalogue, actions=actions or None)[0]


def _bounds(bound: float | Amounts | None) -> dict[str, int]:
    units = {"gpu": GPU_UNIT, "cpu": _CORE, "memory": _GIB}
    amounts: Amounts = bound if isinstance(bound, Mapping) else {"gpu": bound}
    return {
        name: int(amount * units[name]) for name, amount in amounts.items() if amount is not None
    }
