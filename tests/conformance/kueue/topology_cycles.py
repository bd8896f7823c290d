"""Families that are whole cycles over nodes with topologies: one cycle of the product."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kaisched import TopologyLevel
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import Group, Job, Task, add_foreign, add_job
from tests.conformance.kueue.cycles import (
    NOW_S,
    one_head_policy,
    queue_of_work,
    queue_rows,
)
from tests.conformance.kueue.podset_topology import (
    HOST,
    OVER,
    amounts_of,
    constraints_of,
    group_of,
    grouped,
    node_row,
)
from tests.conformance.kueue.tree import priority_of
from tests.conformance.outcome import NotBuiltError

Case = Mapping[str, Any]
Domains = dict[tuple[str, ...], int]
_ELSEWHERE: Final = "elsewhere"
"""A node for pods whose place the case does not know."""


def cycle(case: Case) -> str:
    """Compare who is placed where in one cycle, and who is preempted."""
    _check_built(case)
    told = _compared(case)
    if told and not case["in_force"]["recompute_within_cycle"]:
        raise NotBuiltError("whom an earlier workload leaves no place is always placed anew")
    return told


def _compared(case: Case) -> str:
    run = _Run(case)
    wanted = dict(_expected(case))
    got = {
        key: {name: it for name, it in some.items() if name in wanted.get(key, some)}
        for key, some in run.placed().items()
    }
    if got != wanted:
        return f"expected {wanted}, got {got}"
    evicted = {each.pod_group for result in run.results for each in result.evictions}
    preempted = {it["workload"] for it in case["expected"].get("preempted") or ()}
    return "" if evicted == preempted else f"expected {preempted} preempted, got {evicted}"


def _check_built(case: Case) -> None:
    """Refuse cases that need what the policy does not offer.

    Raises:
        NotBuiltError: the case is about such a thing.

    """
    if case.get("resource_transformations"):
        raise NotBuiltError("transformations of resources")
    if any(podset.get("min_count") for work in case["workloads"] for podset in work["podsets"]):
        raise NotBuiltError("partial admission")
    if "delayed" in str(case["workloads"]) or "delayed" in str(case["expected"]):
        raise NotBuiltError("a second pass once admission checks are ready")
    if case["in_force"]["preferred_node_affinity"]:
        raise NotBuiltError("preferred node affinity: no score of nodes counts it")


def _expected(case: Case) -> Iterator[tuple[str, dict[str, Domains]]]:
    """Yield what each workload has that is placed, or of which a pod is placed anew."""
    for key, admission in case["expected"]["new_assignments"].items():
        yield key, _of_admission(admission)


def _of_admission(admission: Case) -> dict[str, Domains]:
    return {
        it["podset"]: {tuple(d["values"]): d["count"] for d in it["assignment"]["domains"]}
        for it in admission["podsets"]
        if it.get("assignment")
    }


class _Run:
    """One cycle over the workloads of a case."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._store = store = RowStore()
        self._flavor = {flavor["name"]: flavor for flavor in case["flavors"]}
        self._path: dict[str, tuple[str, ...]] = {}
        self._podset: dict[str, tuple[str, str, str]] = {}
        """The workload and the pod set of each pod, and its node."""
        for each in case["topologies"]:
            levels = tuple(TopologyLevel(it, "") for it in each["levels"])
            store.nodes.put_topology(each["name"], levels)
        lost = {it for work in case["workloads"] for it in work.get("unhealthy_nodes") or ()}
        for node in case["nodes"]:
            is_lost = node["labels"].get(HOST, node["name"]) in lost
            store.put_node(node_row({**node, "ready": node["ready"] and not is_lost}))
        elsewhere = NodeRow(_ELSEWHERE, amounts_of({"cpu": 1 << 40}), is_unschedulable=True)
        store.put_node(elsewhere)
        labels = {name: flavor["node_labels"] for name, flavor in self._flavor.items()}
        for row in queue_rows(case, labels):
            store.put_queue(row)
        for at, pod in enumerate(case["pods"]):
            if pod["phase"] not in OVER and store.nodes.is_known(pod["node"]):
                asked = amounts_of(pod["requests"])
                task = Task(f"foreign{at}", asked, state=TaskState.RUNNING, node=pod["node"])
                add_foreign(store, task)
        self.results: list[CycleResult] = []
        works = list(enumerate(case["workloads"]))
        second = [it for it in works if it[1].get("admission")]
        heads = [it for it in works if not it[1].get("admission")]
        # Workloads that lack a node of theirs are placed before the heads of the queues are.
        for some in (second, heads) if lost and heads else (works,):
            for at, work in some:
                self._add(work, at)
            self._cycle()

    def _cycle(self) -> None:
        """Run a cycle, and let the store hear of it."""
        store, policy = self._store, one_head_policy({"isClassical": True, "isCompatible": True})
        result, _ = run_cycle(store.snapshot(), None, policy, NOW_S, Memory())
        assert not result.failures, f"{result.failures[0]}"
        self.results.append(result)
        store.place(result.bind_tasks, result.bind_nodes, TaskState.BINDING, at_s=NOW_S)
        for row in result.evict_tasks.tolist():
            store.evict(row, NOW_S)

    def _add(self, work: Case, at: int) -> None:
        parts = list(grouped([it for it in work["podsets"] if it["count"]]))
        groups = [self._group(part, number, work) for number, part in enumerate(parts)]
        tasks = [task for part in parts for it in part for task in self._tasks(work, it)]
        created = work.get("created_at")
        job = Job(
            work["name"],
            queue_of_work(self._case, work),
            tasks,
            priority=priority_of(self._case, work),
            is_preemptible=True,
            created_s=at * 1e-3 if created is None else NOW_S + created,
            started_s=NOW_S + (work.get("quota_reserved_at") or 0.0),
            root=groups[0] if len(groups) == 1 else Group("", None, tuple(groups)),
        )
        add_job(self._store, job, work["namespace"])

    def _group(self, part: Sequence[Case], number: int, work: Case) -> Group:
        """Return the subgroup of a part; without a topology in its flavors it asks for nothing."""
        found = group_of(part, number)
        topologies = [flavor["topology"] for flavor in self._flavors_of(work)]
        if any(it["topology"] for it in part) or all(topologies):
            return found
        return replace(found, topology=None)

    def _flavors_of(self, work: Case) -> list[Case]:
        """Return the flavors that a workload may have."""
        name = queue_of_work(self._case, work)
        queue = next(it for it in self._case["cluster_queues"] if it["name"] == name)
        names = [it for group in queue["resource_groups"] for it in group["flavors"]]
        return [self._flavor[it] for it in dict.fromkeys(names) if it in self._flavor]

    def _tasks(self, work: Case, podset: Case) -> list[Task]:
        flavors = self._flavors_of(work)
        only = flavors[0] if len(flavors) == 1 else {"node_labels": {}, "tolerations": []}
        constraints = constraints_of(podset, only)
        places = self._places(work, podset)
        tasks = []
        for at in range(podset["count"]):
            name = f"{work['name']}-{podset['name'] or 'main'}-{at}"
            node = places[at] if places is not None and at < len(places) else ""
            self._podset[name] = work["key"], podset["name"], node
            state = TaskState.RUNNING if node else TaskState.PENDING
            asked = amounts_of(podset["requests_per_pod"])
            leaf = podset["name"] or "main"
            tasks.append(Task(name, asked, constraints, leaf, state, node))
        return tasks

    def _places(self, work: Case, podset: Case) -> list[str] | None:
        """Return the nodes of the pods that run, pod by pod; None for a workload that waits."""
        if not work.get("admission"):
            return None
        lost = set(work.get("unhealthy_nodes") or ())
        of = next(it for it in work["admission"]["podsets"] if it["podset"] == podset["name"])
        if not of.get("assignment"):
            return [_ELSEWHERE] * of["count"]
        found = []
        for each in of["assignment"]["domains"]:
            if not lost & set(each["values"]):
                found += [self._node_in(each["values"])] * each["count"]
        return found

    def _node_in(self, values: Sequence[str]) -> str:
        return next(
            (
                node["name"]
                for topology in self._case["topologies"]
                for node in self._case["nodes"]
                if self._values(topology["levels"], node)[-len(values) :] == tuple(values)
            ),
            _ELSEWHERE,
        )

    def _values(self, levels: Sequence[str], node: Case) -> tuple[str, ...]:
        return tuple(node["labels"].get(key, "") for key in levels)

    def placed(self) -> dict[str, dict[str, Domains]]:
        """Return the domains of workloads that have started, or lack a node of theirs."""
        binds = [bind for result in self.results for bind in result.binds]
        node_of = {bind.pod.partition("/")[2]: bind.node for bind in binds}
        nodes = {node["name"]: node for node in self._case["nodes"]}
        wanted = {key for name, (key, _, _) in self._podset.items() if name in node_of}
        failed = [it for it in self._case["workloads"] if it.get("unhealthy_nodes")]
        stuck = {it["key"] for it in failed} - wanted
        found: dict[str, dict[str, Counter[tuple[str, ...]]]] = {}
        for name, (key, podset, old) in self._podset.items():
            node = nodes.get(node_of.get(name, old))
            if key in wanted and node is not None:
                levels = self._levels(key, node)
                path = self._values(levels, node)
                path = path[-1:] if levels and levels[-1] == HOST else path
                found.setdefault(key, {}).setdefault(podset, Counter())[path] += 1
        placed = {key: {name: dict(it) for name, it in some.items()} for key, some in found.items()}
        # Kueue keeps on record what a workload had that finds no other place.
        kept = [it for it in failed if it["key"] in stuck]
        return placed | {it["key"]: _of_admission(it["admission"]) for it in kept}

    def _levels(self, key: str, node: Case) -> Sequence[str]:
        """Return the levels of the topology of the flavor of a node."""
        work = next(it for it in self._case["workloads"] if it["key"] == key)
        for flavor in self._flavors_of(work):
            of_flavor = flavor["node_labels"].items() <= node["labels"].items()
            for topology in self._case["topologies"] if of_flavor else ():
                if topology["name"] == flavor["topology"]:
                    return list(topology["levels"])
        return ()
