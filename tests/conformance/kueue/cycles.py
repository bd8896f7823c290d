"""Families that are whole cycles: one through the product, with one head of each queue."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, Final

from kaisched import Plugin
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import Group, Job, Task, add_job, policy_of
from kaisched.units import MAX_QUOTA
from tests.conformance.kueue.flavored import (
    flavors_of,
    has_choice,
    labels_of,
    nodes_of,
    parts_of,
    taints_of,
)
from tests.conformance.kueue.tree import cohort_row, priority_of
from tests.conformance.outcome import NotBuiltError

NOW_S: Final = 1e6
MOST: Final = 1 << 40
_RECOMPUTES: Final = "RecomputeAssignmentUponPreemptionTargetsOverlap"
_GATES: Final = {_RECOMPUTES, "PriorityBoost", "PartialAdmission"}
_WORDS: Final = {
    "reclamation": "InCohortReclamation",
    "fair_sharing": "InCohortFairSharing",
    "priority": "InCohortReclaimWhileBorrowing",
}
ONE_HEAD: Final = dict.fromkeys(("allocate", "reclaim", "preempt"), 1)


def cycle(case: dict[str, Any]) -> str:
    """Compare who is admitted and who is preempted in one cycle, and why."""
    check_built(case)
    result = one_cycle(case, {**arguments_of(case), "isCompatible": True})
    got = {bind.pod_group for bind in result.binds}, preempted(result)
    wanted = (
        set(case["expected"]["newly_admitted"]),
        {(it["workload"], it["reason"]) for it in case["expected"]["preempted"]},
    )
    return "" if got == wanted else f"expected {wanted}, got {got}"


def arguments_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the policy that a case is about."""
    return {"isClassical": not case["fair_sharing"]}


def check_built(case: Mapping[str, Any]) -> None:
    """Refuse cases of a whole cycle that need what the policy does not offer.

    Raises:
        NotBuiltError: a gate of Kueue is on or off that has no equivalent, or the case is about
            what Kueue checks of objects before it decides.

    """
    gates: dict[str, bool] = case["feature_gates"]
    odd = {gate for gate, is_on in gates.items() if is_on} - _GATES
    if odd:
        raise NotBuiltError(f"gate {min(odd)}")
    if not gates.get(_RECOMPUTES, True):
        raise NotBuiltError("whom claims would share is always worked out anew")
    for each in case.get("objects") or ():
        raise NotBuiltError(f"objects made by {each['make']}")
    calls = [
        call[0]
        for work in case["workloads"]
        for podset in work["podsets"]
        for call in podset.get("other_calls") or ()
    ]
    if "Limit" in calls:
        raise NotBuiltError("limits of pods below their requests")


def one_cycle(
    case: Mapping[str, Any], arguments: Mapping[str, Any], plugins: Sequence[type[Plugin]] = ()
) -> CycleResult:
    """Return the result of one cycle over the workloads of a case.

    ``arguments`` are those of the policy; ``plugins`` take the place of installed ones.

    Raises:
        NotBuiltError: flavors are chosen in the case.

    """
    store = _store(case)
    policy = one_head_policy(arguments, plugins)
    result, _ = run_cycle(store.snapshot(), None, policy, NOW_S, Memory())
    assert not result.failures, f"{result.failures[0]}"
    return result


def one_head_policy(arguments: Mapping[str, Any], plugins: Sequence[type[Plugin]] = ()) -> Policy:
    """Return a policy that tries one head of each queue, with these arguments of fair sharing."""
    return _policy(json.dumps(arguments), tuple(plugins))


@cache
def _policy(arguments: str, plugins: tuple[type[Plugin], ...]) -> Policy:
    """Return the policy with arguments given as JSON; made once, since it takes a while."""
    return policy_of(
        {
            "plugins": {
                "proportion": {"enabled": False},
                "fair-sharing": {"enabled": True, "arguments": json.loads(arguments)},
            },
            "queueDepthPerAction": ONE_HEAD,
        },
        plugins,
        actions=("allocate", "reclaim", "preempt"),
    )


def preempted(result: CycleResult) -> set[tuple[str, str]]:
    """Return evicted workloads with Kueue's word for why."""
    return {
        (
            each.pod_group,
            "InClusterQueue" if each.queue == each.beneficiary_queue else _WORDS[each.kind],
        )
        for each in result.evictions
    }


def queue_of_work(case: Mapping[str, Any], work: Mapping[str, Any]) -> str:
    if work.get("cluster_queue"):
        return str(work["cluster_queue"])
    for local in case["local_queues"]:
        if (local["name"], local["namespace"]) == (work.get("queue"), work["namespace"]):
            return str(local["cluster_queue"])
    return ""


def _store(case: Mapping[str, Any]) -> RowStore:
    """Return a store with the queues in use, the workloads, and nodes that hold anything.

    There is one node, or one for each combination of flavors if flavors are chosen.
    """
    cohorts, queues, names = _objects(case)
    nodes = nodes_of(queues) if has_choice([*cohorts, *queues]) else {}
    store = RowStore()
    room = {**dict.fromkeys(names, MOST), "pods": 10_000}
    for flavors, node in (nodes or {frozenset[str](): "n0"}).items():
        store.put_node(NodeRow(node, room, labels_of(flavors), taints_of(flavors)))
    for row in queue_rows(case):
        store.put_queue(row)
    for at, work in enumerate(case["workloads"]):
        _add(store, case, work, at, nodes)
    return store


def _objects(
    case: Mapping[str, Any],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], set[str]]:
    """Return the cohorts and queues in use, and the resources that they or workloads name."""
    used = {queue_of_work(case, work) for work in case["workloads"]}
    trees = {q["cohort"] for q in case["cluster_queues"] if q["name"] in used and q.get("cohort")}
    queues = [
        q for q in case["cluster_queues"] if q["name"] in used or (q.get("cohort") or "") in trees
    ]
    cohorts = {each["name"]: dict(each) for each in case["cohorts"]}
    for name in [q["cohort"] for q in queues if q.get("cohort")]:
        cohorts.setdefault(name, {"name": name})
    for parent in [each.get("parent") for each in list(cohorts.values())]:
        if parent:
            cohorts.setdefault(parent, {"name": parent})
    objects = [*cohorts.values(), *queues]
    names = {_name(q["resource"]) for each in objects for q in each.get("quotas") or ()}
    for work in case["workloads"]:
        for podset in work["podsets"]:
            names |= set(map(_name, podset.get("requests") or podset.get("requests_per_pod") or ()))
    return [*cohorts.values()], queues, names


def queue_rows(
    case: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[QueueRow]:
    """Yield the rows of the cohorts and queues in use.

    ``labels`` are those of the nodes of each flavor; without them flavors have labels of their own.
    """
    cohorts, queues, names = _objects(case)
    is_choice = has_choice([*cohorts, *queues])
    for each in (*cohorts, *queues):
        is_queue = each in queues
        parent = each.get("cohort" if is_queue else "parent")
        name = each["name"] if is_queue else cohort_row(each["name"])
        row = _queue(each, name, cohort_row(parent) if parent else "", names)
        if not is_choice:
            yield row
            continue
        row = _with_flavors(each, row)
        if labels is not None:
            flavors = tuple(
                it._replace(labels=tuple(sorted(labels[it.name].items())))
                for it in row.sharing.flavors
            )
            row = replace(row, sharing=replace(row.sharing, flavors=flavors))
        yield row


def _with_flavors(each: Mapping[str, Any], row: QueueRow) -> QueueRow:
    """Return a queue's row with its quotas by flavor."""
    said = each.get("flavor_fungibility") or {}
    sharing = replace(
        row.sharing,
        flavors=flavors_of(each, _name),
        when_can_borrow=said.get("when_can_borrow", "MayStopSearch"),
        when_can_preempt=said.get("when_can_preempt", "TryNextFlavor"),
        flavor_preference=said.get("preference", "BorrowingOverPreemption"),
    )
    return replace(row, sharing=sharing)


def _name(resource: str) -> str:
    return resource if resource in ("cpu", "memory") else f"case.io/{resource.replace('/', '-')}"


def _queue(each: Mapping[str, Any], name: str, parent: str, names: set[str]) -> QueueRow:
    """Return a queue's row; what it lists no quota of it cannot have."""
    is_cohort = name.startswith("/")
    quotas = {_name(quota["resource"]): quota for quota in each.get("quotas") or ()}
    borrowing = {} if is_cohort else dict.fromkeys(names - quotas.keys(), 0)
    lending = {}
    for resource, quota in quotas.items():
        if quota.get("borrowing_limit") is not None:
            borrowing[resource] = quota["borrowing_limit"]
        if quota.get("lending_limit") is not None:
            lending[resource] = quota["lending_limit"]
    preemption = each.get("preemption") or {}
    borrow = preemption.get("borrow_within_cohort") or {}
    weight = each.get("weight")
    return QueueRow(
        name,
        parent,
        quota={resource: quotas.get(resource, {}).get("nominal", 0) for resource in names},
        borrowing_limit=borrowing,
        lending_limit=lending,
        sharing=Sharing(
            weight=Fraction("1" if weight is None else weight),
            within=preemption.get("within_cluster_queue", "Never"),
            across=preemption.get("reclaim_within_cohort", "Never"),
            borrowing=borrow.get("policy", "Never"),
            borrowing_up_to=borrow.get("max_priority_threshold"),
        ),
    )


def _conditions(work: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return work.get("conditions") or ()


def _add(
    store: RowStore,
    case: Mapping[str, Any],
    work: Mapping[str, Any],
    at: int,
    nodes: Mapping[frozenset[str], str],
) -> None:
    """Add a workload as a gang; all its pods together hold or ask what it says.

    If flavors are chosen, each pod set that holds some is a pod on a node of its flavors.
    """
    leaves = any(it["type"] == "Evicted" and it["status"] == "True" for it in _conditions(work))
    runs = TaskState.RELEASING if leaves else TaskState.RUNNING
    namespace, _, name = work["key"].partition("/")
    if not work.get("cluster_queue"):
        tasks = [Task(f"{name}-0", _bounded(_asked(work)))]
    else:
        parts = list(parts_of(work, nodes, _name)) if nodes else [("n0", _used(work))]
        tasks = [
            Task(f"{name}-{number}", _bounded(amounts), state=runs, node=node)
            for number, (node, amounts) in enumerate(parts)
        ]
    created = work.get("created_at")
    job = Job(
        name,
        queue_of_work(case, work),
        tuple(tasks),
        priority=priority_of(case, work),
        is_preemptible=True,
        created_s=at * 1e-3 if created is None else NOW_S + created,
        root=Group("default", len(tasks)),
        started_s=work.get("quota_reserved_at") or 0.0,
    )
    add_job(store, job, namespace)


def _bounded(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts cut off as when they are decoded."""
    return {name: min(amount, MAX_QUOTA - 1) for name, amount in amounts.items()}


def _used(work: Mapping[str, Any]) -> dict[str, int]:
    """Return what a workload holds, by resource."""
    total: dict[str, int] = {}
    for each in work["usage"]:
        resource = _name(each["resource"])
        total[resource] = total.get(resource, 0) + each["amount"]
    return total


def _asked(work: Mapping[str, Any]) -> dict[str, int]:
    """Return what all pods of a workload ask for together.

    Raises:
        NotBuiltError: the workload may start with some of its pods.

    """
    total: dict[str, int] = {}
    for podset in work["podsets"]:
        if podset.get("min_count"):
            raise NotBuiltError("partial admission")
        for resource, amount in podset["requests"].items():
            name = _name(resource)
            total[name] = total.get(name, 0) + amount * podset["count"]
    return total
