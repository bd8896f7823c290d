"""A case's cluster as rows of a state store."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kaisched.cluster.claims.device_claims import DeviceClaims
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pods import PodRow
from kaisched.cluster.queues import UNSET_S, QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU_UNIT, HOLDING_STATES, TaskState
from kaisched.core.constraints import Constraints, PodTerm, Requirement
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.core.refusals import Refusal
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import TopologyConstraint, TopologyLevel
from kaisched.testing.builder import Group, Job, Task, add_job
from kaisched.units import MEMORY_UNIT
from tests.conformance.claims import CaseClaims, pod_of, with_gpus
from tests.conformance.outcome import NotBuiltError

NOW_S = 1_000_000.0
NODE_LABEL = "kai.scheduler/type"
UNBOUNDED_PODS = 1 << 20
STATES = {state.name.title(): state for state in TaskState} | {
    "Succeeded": TaskState.GONE,
    "Failed": TaskState.GONE,
    "Deleted": TaskState.GONE,
    "Unknown": TaskState.GONE,
    "StuckInReleasing": TaskState.STUCK,
}
STARTED = ("Allocated", "Binding", "Bound", "Running")


@dataclass
class TaskCopy:
    """What changes of a task from session to session."""

    state: str
    node: str | None
    cards: tuple[str, ...] = ()
    """The groups of the cards that a running task shares."""


def copies(cluster: Mapping[str, Any]) -> dict[str, TaskCopy]:
    """Return the mutable part of all tasks by id."""
    return {
        task["id"]: TaskCopy(task["state"], task["node"], tuple(task["gpu_groups"] or ()))
        for job in cluster["jobs"]
        for task in job["tasks"]
    }


class Builder:
    """Makes stores of one case."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        """Check that the case needs nothing we lack, and choose the unit of memory."""
        self._cluster = case["cluster"]
        self._checks_nodes = any(p["name"] == "predicates" for p in case["config"]["plugins"])
        for feature in missing_features(self._cluster):
            raise NotBuiltError(feature)
        self.claims = CaseClaims(self._cluster)
        self._known: DeviceClaims | None = None
        self._unit = math.gcd(MEMORY_UNIT, *self._memory())
        """Bytes that one base unit of memory stands for: exact for every amount of the case."""

    def _memory(self) -> Iterable[int]:
        for node in self._cluster["nodes"]:
            yield node["memory_bytes"]
        for job in self._cluster["jobs"]:
            for task in job["tasks"]:
                yield task["request"]["memory_bytes"]

    def store(self, tasks: Mapping[str, TaskCopy]) -> RowStore:
        """Build the cluster with its tasks as they are now."""
        self._known = self.claims.started([pod for pod in self._pods(tasks) if pod.device_claims])
        store = RowStore(mig_slices_of_gpu=1)  # KAI counts each slice as a GPU
        for queue in self._cluster["queues"]:
            store.put_queue(self._queue(queue))
        for node in self._cluster["nodes"]:
            store.put_node(with_gpus(self._known, self._node(node)))
        for topology in self._cluster["topologies"] or ():
            levels = tuple(TopologyLevel(each) for each in topology["levels"])
            store.nodes.put_topology(topology["name"], levels)
        for job in self._cluster["jobs"]:
            row = add_job(store, self._job(store, job, tasks), job["namespace"] or "default")
            for task in job["tasks"]:
                if is_share(task) and HOLDING_STATES[_state(tasks[task["id"]])]:
                    at = store.row_of_task(f"{job['namespace'] or 'default'}/{task['id']}")
                    store.cards.name(at, tasks[task["id"]].cards or (task["id"],))
            if any(task["legacy_mig"] for task in job["tasks"]):
                store.refuse(row, Refusal.UNSUPPORTED)
        return store

    def frozen(self, store: RowStore) -> Snapshot:
        """Return the snapshot of a store, with the claims of its tasks."""
        assert self._known is not None
        claims = self._known.table(store.row_of_task)
        bare = store.snapshot()
        return bare if claims is None else replace(bare, claims=claims)

    def _pods(self, tasks: Mapping[str, TaskCopy]) -> Iterable[PodRow]:
        for job in self._cluster["jobs"]:
            for task in job["tasks"]:
                yield self._pod(job, task, tasks[task["id"]], {}, Constraints())

    def _pod(
        self,
        job: Mapping[str, Any],
        task: Mapping[str, Any],
        copy: TaskCopy,
        request: Mapping[str, int],
        constraints: Constraints,
    ) -> PodRow:
        state = TaskState.PENDING if copy.state == "Pipelined" else STATES[copy.state]
        namespace, created_s = job["namespace"] or "default", NOW_S + job["created_offset_s"]
        node = "" if state == TaskState.PENDING else copy.node or ""
        return pod_of(task, namespace, created_s, request, constraints, state, node)

    def _node(self, node: Mapping[str, Any]) -> NodeRow:
        return NodeRow(
            node["name"],
            {
                "cpu": node["cpu_millis"],
                "memory": node["memory_bytes"] // self._unit,
                "gpu": int(node["allocatable_gpus"] * GPU_UNIT),
                "pods": node["max_pods"] if self._checks_nodes else UNBOUNDED_PODS,
                **(node["mig_instances"] or {}),
            },
            labels={**(node["labels"] or {}), NODE_LABEL: node["name"]},
            card_mib=int(node["gpu_memory_mib"] or 0) if node["gpu_memory_known"] else 0,
            can_share=node["mig_strategy"] != "single",
        )

    def _queue(self, queue: Mapping[str, Any]) -> QueueRow:
        scales = {"gpu": ("gpu", GPU_UNIT), "cpu": ("cpu_millis", 1)}
        scales["memory"] = ("memory_mb", 1_000_000 / self._unit)

        def bounds(field: str) -> dict[str, int]:
            return {
                ours: math.floor(queue[theirs][field] * scale)
                for ours, (theirs, scale) in scales.items()
                if queue[theirs][field] != -1
            }

        return QueueRow(
            queue["name"],
            queue["parent"] or "",
            created_s=NOW_S + queue["created_offset_s"],
            priority=queue["priority"],
            quota=bounds("quota"),
            limit=bounds("limit"),
            weight={
                ours: max(0.0, float(queue[theirs]["over_quota_weight"]))
                for ours, (theirs, _) in scales.items()
            },
            preempt_min_runtime_s=_or_unset(queue.get("preempt_min_runtime_s")),
            reclaim_min_runtime_s=_or_unset(queue.get("reclaim_min_runtime_s")),
        )

    def _job(self, store: RowStore, job: Mapping[str, Any], tasks: Mapping[str, TaskCopy]) -> Job:
        started = any(tasks[task["id"]].state in STARTED for task in job["tasks"])
        start = job["last_start_offset_s"]
        stale_for = job["stale_for_s"]
        succeeded = (task for task in job["tasks"] if tasks[task["id"]].state == "Succeeded")
        done = Counter(task["pod_set"] for task in succeeded)
        start = -60.0 if start is None and started else start
        return Job(
            job["name"],
            job["queue"],
            [self._task(store, job, task, tasks[task["id"]]) for task in job["tasks"]],
            priority=job["priority"],
            is_preemptible=job["preemptible"],
            created_s=NOW_S + job["created_offset_s"],
            started_s=math.nan if start is None else NOW_S + start,
            root=_root(job["root"], done),
            stale_since_s=math.nan if stale_for is None else NOW_S - stale_for,
            preemption_delay_s=job.get("preemption_delay_s") or 0.0,
            staleness_grace_s=_or_nan(job.get("staleness_grace_s")),
            succeeded=done.total(),
        )

    def _task(
        self, store: RowStore, job: Mapping[str, Any], task: Mapping[str, Any], copy: TaskCopy
    ) -> Task:
        request = task["request"]
        amounts = {
            "cpu": request["cpu_millis"],
            "memory": request["memory_bytes"] // self._unit,
            "gpu": 0 if request["mig"] or is_share(task) else int(request["gpus"] * GPU_UNIT),
            **(request["mig"] or {}),
        }
        state = _state(copy)
        amounts = {name: amount for name, amount in amounts.items() if amount}
        constraints = _constraints(store, task, job["namespace"] or "default")
        pod = self._pod(job, task, copy, amounts, constraints)
        if pod.device_claims:
            assert self._known is not None
            resolved, _ = self._known.noted(pod)
            amounts, constraints = dict(resolved.request), resolved.constraints
        return Task(
            task["id"],
            amounts,
            constraints,
            podset=task["pod_set"],
            state=state,
            node=copy.node or "",
            order_priority=task["order_priority"],
            labels=task["labels"] or {},
        )


def _state(copy: TaskCopy) -> TaskState:
    return TaskState.PENDING if copy.state == "Pipelined" else STATES[copy.state]


def is_share(task: Mapping[str, Any]) -> bool:
    """Tell whether a task asks for a part of a GPU."""
    return bool(task["request"]["gpu_fraction"] or task["request"]["gpu_memory_mib"])


def _devices(task: Mapping[str, Any]) -> DeviceDemand | None:
    request = task["request"]
    if not is_share(task) and not task["legacy_mig"]:
        return None
    return DeviceDemand(
        fraction=round((request["gpu_fraction"] or 0) * CARD),
        memory_mib=int(request["gpu_memory_mib"] or 0),
        cards=int(request["gpu_devices"] or 1),
        legacy_slices=int(task["legacy_mig"]),
    )


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _or_unset(number: float | None) -> float:
    return UNSET_S if number is None else float(number)


def _root(group: Mapping[str, Any], done: Counter[str]) -> Group:
    """Return the structure of a job; as in the store, a leaf needs so many less as are done."""
    leaves = [
        Group(
            leaf["name"],
            max(leaf["min_available"] - done[leaf["name"]], 0),
            topology=_constraint(leaf),
        )
        for leaf in group["pod_sets"]
    ]
    inner = [_root(child, done) for child in group["groups"]]
    own = _constraint(group)
    if len(leaves) == 1 and not inner and (own is None or leaves[0].topology is None):
        return replace(leaves[0], topology=own or leaves[0].topology)
    return Group(group["name"], group.get("min_sub_group"), tuple(inner + leaves), own)


def _constraint(group: Mapping[str, Any]) -> TopologyConstraint | None:
    wish = group.get("topology")
    if not wish:
        return None
    return TopologyConstraint(
        wish["topology"], wish["required_level"] or "", wish["preferred_level"] or ""
    )


def _constraints(store: RowStore, task: Mapping[str, Any], namespace: str) -> Constraints:
    names = tuple(task["node_affinity_any_of"] or ())
    near, far = (_terms(task[kind], namespace) for kind in ("pod_affinity", "pod_anti_affinity"))
    labels = task["labels"] or {}
    claims = task.get("persistent_volume_claims")
    missing = f"claim {claims[0]} does not exist" if claims else ""
    return Constraints(
        devices=_devices(task),
        wait=(int(Refusal.VOLUME_CLAIM), missing) if missing else None,
        node_terms=(((Requirement(NODE_LABEL, "In", names),), ()),) if names else None,
        pod_affinity=near,
        pod_anti_affinity=far,
        label_set=store.labels.intern(namespace, labels) if near or far else -1,
    )


def _terms(term: Mapping[str, Any] | None, namespace: str) -> tuple[PodTerm, ...]:
    if not term:
        return ()
    selector = tuple(
        Requirement(key, "In", (value,)) for key, value in sorted(term["match_labels"].items())
    )
    return (PodTerm(term["topology_key"], (namespace,), False, selector),)


def missing_features(cluster: Mapping[str, Any]) -> list[str]:
    """Return the features a cluster needs that are not built, by looking at what it has."""
    found = []
    for node in cluster["nodes"]:
        found += ["NUMA"] * bool(node.get("numa"))
    for job in cluster["jobs"]:
        for task in job["tasks"]:
            found += ["NUMA"] * bool(task.get("numa_observed"))
    return sorted(set(found))
