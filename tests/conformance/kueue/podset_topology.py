"""Families that place pod sets on the domains of a topology: through one cycle of the product."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kaisched import Taint, TopologyConstraint, TopologyLevel
from kaisched.cluster.jobs import of_pod_set
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints, Requirement, Toleration
from kaisched.errors import ObjectError
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import CycleResult
from kaisched.objects import labels
from kaisched.objects.workloads import pod_set_of
from kaisched.testing.builder import Group, Job, Task, add_foreign, add_job, policy_of
from tests.conformance.outcome import NotBuiltError

HOST: Final = "kubernetes.io/hostname"
OVER: Final = ("Succeeded", "Failed")
_WORDS: Final = {
    "NoSuchTopologyLevel": ("unknown_level", "unknown_slice_level"),
    "UnusableSlices": ("slice_level_above_podset_level",),
    "NoDomainHasRoom": ("no_fit", "no_fit_layers", "no_domain_at_level"),
    "NoDomainIsLargeEnough": ("no_fit", "no_fit_layers", "no_domain_at_level"),
    "NoRoom": ("no_fit",),
    "GangNoRoom": ("no_fit",),
    "NoNodeAllowed": ("no_fit",),
}
"""Reason to the classes of failure that it tells."""

Case = Mapping[str, Any]


def placement(case: Case) -> str:
    """Compare the domains that pod sets get, pod by pod, or why they get none."""
    if case["in_force"]["preferred_node_affinity"]:
        raise NotBuiltError("preferred node affinity: no score of nodes counts it")
    parts = list(grouped(case["podsets"]))
    failed = next((at for at, part in enumerate(parts) if _failure(case, part)), len(parts))
    try:
        whole = _Run(case, [parts])
        told = "" if failed == len(parts) else _whole(whole)
        apart = whole if failed == len(parts) else _Run(case, [parts[:failed], [parts[failed]]])
    except ObjectError as error:
        return _unreadable(case, error)
    for part in parts[:failed]:
        told = told or apart.differs(part)
    return told or (apart.differs_in_failure(parts[failed]) if failed < len(parts) else "")


def _whole(run: "_Run") -> str:
    return "pods of a workload are placed that does not fit" if run.result.binds else ""


def _unreadable(case: Case, error: ObjectError) -> str:
    wanted = {each.get("failure", {}).get("class") for each in case["expected"]}
    is_told = "size" in str(error) and wanted & {"slice_size_missing", "level_missing"}
    return "" if is_told else f"refused: {error}"


def grouped(podsets: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield pod sets that are placed together, in the order of their first."""
    groups: dict[str, list[Case]] = {}
    for at, podset in enumerate(podsets):
        groups.setdefault(podset.get("group") or f"\n{at}", []).append(podset)
    yield from groups.values()


def _failure(case: Case, part: Sequence[Case]) -> Case | None:
    names = {podset["name"] for podset in part}
    found = [it["failure"] for it in case["expected"] if it["podset"] in names and "failure" in it]
    return found[0] if found else None


class _Run:
    """One cycle over jobs made of pod sets."""

    def __init__(self, case: Case, jobs: Sequence[Sequence[Sequence[Case]]]) -> None:
        self._case = case
        self._store = store = RowStore()
        self._running: Counter[tuple[str, str]] = Counter()
        store.nodes.put_topology("case", tuple(TopologyLevel(it, "") for it in case["levels"]))
        for node in case["nodes"]:
            store.put_node(node_row(node))
        store.put_queue(QueueRow("q", ""))
        self._foreign()
        for at, parts in enumerate(jobs):
            if parts:
                self._add(f"job{at}", parts, at)
        mode = case["in_force"]
        arguments = {
            "leastFree": mode["unconstrained_least_free"],
            "evenShares": mode["balanced"],
        }
        policy = policy_of({"plugins": {"topology": {"arguments": arguments}}})
        self.result: CycleResult
        self.result, _ = run_cycle(store.snapshot(), None, policy, 1e6, Memory())
        assert not self.result.failures, f"{self.result.failures[0]}"

    def _foreign(self) -> None:
        """Add the pods that take room and are in none of the jobs."""
        case, number = self._case, 0
        for pod in case["pods"]:
            if pod["phase"] not in OVER and pod["node"] in self._names():
                number += 1
                self._put(f"foreign{number}", pod["requests"], pod["node"])
        for usage in (*case["usage"], *case["usage_of_sibling_flavors"]):
            for _ in range(usage["count"] if (node := self._node_in(usage["values"])) else 0):
                number += 1
                self._put(f"used{number}", usage["requests_per_pod"], node)

    def _put(self, name: str, requests: Mapping[str, int], node: str) -> None:
        task = Task(name, amounts_of(requests), state=TaskState.RUNNING, node=node)
        add_foreign(self._store, task)

    def _names(self) -> set[str]:
        return {node["name"] for node in self._case["nodes"]}

    def _node_in(self, values: Sequence[str]) -> str:
        """Return the first node of a domain, given by its path or by its host."""
        for node in self._case["nodes"]:
            if self._path(node)[-len(values) :] == tuple(values):
                return str(node["name"])
        return ""

    def _path(self, node: Case) -> tuple[str, ...]:
        return tuple(node["labels"].get(key, "") for key in self._case["levels"])

    def _add(self, name: str, parts: Sequence[Sequence[Case]], at: int) -> None:
        leaves = [podset for part in parts for podset in part]
        tasks = [task for podset in leaves for task in self._tasks(podset)]
        groups = [group_of(part, number) for number, part in enumerate(parts)]
        root = groups[0] if len(groups) == 1 else Group("", None, tuple(groups))
        add_job(self._store, Job(name, "q", tasks, created_s=float(at), root=root))

    def _tasks(self, podset: Case) -> list[Task]:
        """Return the pods of a pod set; those that keep their place run there."""
        constraints = constraints_of(podset, self._case["flavor"])
        asked = amounts_of(podset["requests_per_pod"])
        name = podset["name"] or "main"
        places = self._kept(podset)[: podset["count"]]
        tasks = []
        for at in range(podset["count"]):
            node = places[at] if at < len(places) else ""
            state = TaskState.RUNNING if node else TaskState.PENDING
            if node:
                self._running[podset["name"], node] += 1
            tasks.append(Task(f"{name}-{at}", asked, constraints, name, state, node))
        return tasks

    def _kept(self, podset: Case) -> list[str]:
        """Return the nodes on which pods of a pod set stay, pod by pod."""
        said = None
        failed = self._case.get("failed_node")
        if failed is not None:
            said = next((it for it in failed["assigned"] if it["podset"] == podset["name"]), None)
        elif self._case["in_force"]["elastic"] and podset.get("previous_assignment"):
            said = {"assignment": podset["previous_assignment"]}
        if said is None or said.get("assignment") is None:
            return []
        lost = set(failed["unhealthy_nodes"]) if failed else set()
        keeps = self._case["in_force"]["keep_placement_of_pod_owned"]
        if failed and keeps and failed["owners"] == ["Pod"] and not failed["pod_group"]:
            lost = set()  # nobody makes the pod anew: it stays where it is
        nodes = [
            (self._node_in(it["values"]), it["count"])
            for it in said["assignment"]["domains"]
            if not lost & set(it["values"])
        ]
        if failed is None and not all(node for node, _ in nodes):
            return []
        return [node for node, count in nodes for _ in range(count if node else 0)]

    def differs(self, part: Sequence[Case]) -> str:
        """Compare what each pod set of a part has got."""
        levels = self._case["levels"]
        is_host = levels[-1] == HOST
        path = {node["name"]: self._path(node) for node in self._case["nodes"]}
        for podset in part:
            got: Counter[tuple[str, ...]] = Counter()
            for (name, node), count in self._running.items():
                got[path[node]] += count * (name == podset["name"])
            prefix = (podset["name"] or "main") + "-"
            for bind in self.result.binds:
                if bind.pod.rpartition("/")[2].startswith(prefix):
                    got[path[bind.node]] += 1
            said = next(it for it in self._case["expected"] if it["podset"] == podset["name"])
            domains = (said.get("assignment") or {"domains": []})["domains"]
            wanted = {tuple(it["values"]): it["count"] for it in domains}
            have = {it[-1:] if is_host else it: count for it, count in got.items() if count}
            if have != wanted:
                return f"{podset['name']}: expected {wanted}, got {have}"
        return ""

    def differs_in_failure(self, part: Sequence[Case]) -> str:
        """Compare why a part is not placed: the class, how much fits and how much is wanted.

        Which nodes are left out is told by records in words of their own.
        """
        wanted = _failure(self._case, part)
        assert wanted is not None
        record = next(iter(self.result.records), None)
        if record is None:
            return f"expected {wanted}, but all pods are placed"
        if wanted["class"] not in _WORDS.get(record.reason, ()):
            return f"expected {wanted['class']}, got {record.reason}: {record.message}"
        numbers = {"wanted": record.numbers.get("pods"), **record.numbers}
        numbers["fit"] = numbers.get("fit_now", numbers.get("fit"))
        got = {key: numbers.get(key) for key in ("fit", "wanted") if key in wanted}
        if "layers" in wanted:
            levels = self._case["levels"]
            layers = record.numbers.get("layers") or ()
            got["layers"] = [
                {"level": levels[at], "fit": fit, "wanted": want} for at, fit, want in layers
            ]
        same = {key: wanted[key] for key in got}
        return "" if got == same else f"expected {same}, got {got}"


def group_of(part: Sequence[Case], number: int) -> Group:
    """Return the subgroup of one pod set, or of several that are placed together."""
    leaves = [Group(podset["name"] or "main", podset["count"]) for podset in part]
    wish = _wish(max(part, key=lambda it: int(it["count"])))
    if len(leaves) == 1:
        return Group(leaves[0].name, leaves[0].minimum, topology=wish)
    return Group(f"group{number}", None, tuple(leaves), wish)


def _wish(podset: Case) -> TopologyConstraint:
    """Return what a pod set asks for, by its annotations."""
    wish = pod_set_of(annotations_of(podset["topology"]))
    assert wish is not None
    return of_pod_set(wish)


def annotations_of(topology: Case | None) -> dict[str, str]:
    """Return Kueue's annotations; without a request the flavor implies any place."""
    if topology is None:
        return {labels.POD_SET_UNCONSTRAINED: "true"}
    notes = {}
    if topology.get("required"):
        notes[labels.POD_SET_REQUIRED] = topology["required"]
    if topology.get("preferred"):
        notes[labels.POD_SET_PREFERRED] = topology["preferred"]
    if topology.get("unconstrained"):
        notes[labels.POD_SET_UNCONSTRAINED] = "true"
    slices = topology.get("slices") or ()
    if len(slices) == 1:
        notes[labels.POD_SET_SLICE_LEVEL] = slices[0]["level"]
        if slices[0]["size"]:
            notes[labels.POD_SET_SLICE_SIZE] = str(slices[0]["size"])
    elif slices:
        layers = [f'{{"topology": "{it["level"]}", "size": {it["size"]}}}' for it in slices]
        notes[labels.POD_SET_SLICES] = f"[{', '.join(layers)}]"
    return notes


def amounts_of(requests: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by our names, with the pod itself."""
    return {"pods": 1, **{_name(name): amount for name, amount in requests.items() if amount}}


def _name(resource: str) -> str:
    plain = ("cpu", "memory", "pods")
    return resource if resource in plain else f"case.io/{resource.replace('/', '-')}"


def node_row(node: Case) -> NodeRow:
    return NodeRow(
        node["name"],
        {"pods": 0, **{_name(key): amount for key, amount in node["capacity"].items()}},
        node["labels"],
        tuple(Taint(it["key"], it["value"], it["effect"]) for it in node["taints"]),
        is_ready=node["ready"],
        is_unschedulable=node["unschedulable"],
    )


def constraints_of(podset: Case, flavor: Case) -> Constraints:
    tolerations = tuple(
        Toleration(
            it.get("key") or "",
            it.get("operator") or "Equal",
            it.get("value") or "",
            it.get("effect") or "",
        )
        for it in (*(podset.get("tolerations") or ()), *flavor["tolerations"])
    )
    selector = {**flavor["node_labels"], **(podset.get("node_selector") or {})}
    terms = (podset.get("node_affinity") or {}).get("required_any")
    return Constraints(
        node_selector=tuple(sorted(selector.items())),
        node_terms=tuple((_requirements(term), ()) for term in terms) if terms else None,
        tolerations=tolerations,
    )


def _requirements(term: Case) -> tuple[Requirement, ...]:
    return tuple(Requirement(it["key"], it["operator"], tuple(it["values"])) for it in term["all"])
