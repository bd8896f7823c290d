"""The order of heads without fair sharing: of a cycle in which all of them start."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.kueue.cycles import one_cycle
from tests.conformance.outcome import NotBuiltError

_ONE = {"flavor": "default", "resource": "cpu"}


def entry_order(case: dict[str, Any]) -> str:
    """Compare in which order heads start that borrow at given levels of one tree.

    Raises:
        NotBuiltError: the order is one that is not offered.

    """
    gates = case["featureGates"]
    if gates.get("PrioritizePreemptorWorkloads"):
        raise NotBuiltError("gate PrioritizePreemptorWorkloads: promises are kept before all else")
    if not gates.get("PrioritySortingWithinCohort", True):
        raise NotBuiltError("priorities always count between queues")
    heads = [_head(case, entry) for entry in case["input"]]
    cohorts: list[dict[str, Any]] = [{"name": "top", "quotas": [{**_ONE, "nominal": 100}]}]
    queues = []
    for head in heads:
        above = f"above-{head['name']}"
        cohort, queue = _places(head, above)
        cohorts.append(cohort)
        queues.append(queue)
    result = one_cycle(
        {
            "cohorts": cohorts,
            "cluster_queues": queues,
            "local_queues": [
                {"name": queue["name"], "namespace": "", "cluster_queue": queue["name"]}
                for queue in queues
            ],
            "workloads": heads,
        },
        {"isClassical": True, "isCompatible": True},
    )
    got = [bind.pod_group.removeprefix("/") for bind in result.binds]
    return "" if got == case["wantOrder"] else f"expected {case['wantOrder']}, got {got}"


def _places(head: Mapping[str, Any], above: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a cohort and a queue below it in which a head borrows at its level."""
    level = head["level"]
    if level > 2:
        raise NotBuiltError(f"a head that borrows at level {level}")
    cohort = {
        "name": above,
        "parent": "top",
        "quotas": [{**_ONE, "nominal": int(level == 1)}],
    }
    queue = {
        "name": head["name"],
        "cohort": above,
        "quotas": [{**_ONE, "nominal": int(level == 0)}],
    }
    return cohort, queue


def _head(case: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as a workload that waits since its queue time."""
    it = entry["Head"]["Info"]["Obj"]
    name, spec = it["ObjectMeta"]["Name"], it.get("Spec") or {}
    created = it["ObjectMeta"]["CreationTimestamp"]["at"]
    if (case.get("workloadOrdering") or {}).get("PodsReadyRequeuingTimestamp") != "Creation":
        created = max([created, *_evicted(it)])
    return {
        "name": name,
        "namespace": "",
        "key": f"/{name}",
        "queue": name,
        "priority": spec.get("Priority", 0),
        "created_at": created,
        "podsets": [{"name": "main", "count": 1, "requests": {"cpu": 1}}],
        "level": (entry.get("assignment") or {}).get("Borrowing", 0),
    }


def _evicted(it: Mapping[str, Any]) -> Iterator[float]:
    """Yield when work was evicted because its pods were not ready."""
    for each in (it.get("Status") or {}).get("Conditions") or ():
        if each["Type"] == "Evicted" and each.get("Reason") == "PodsReadyTimeout":
            yield each["LastTransitionTime"]["at"]
