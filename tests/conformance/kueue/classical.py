"""Cases without fair sharing, as cases of whole cycles."""

from collections.abc import Mapping
from typing import Any, Final

from kaisched.framework.report.records import CycleResult
from tests.conformance.kueue.cycles import one_cycle, queue_of_work
from tests.conformance.outcome import NotBuiltError

_GATES: Final = {"PartialAdmission", "PriorityBoost"}
ARGUMENTS: Final = {"isClassical": True, "isCompatible": True}


def classical_preemption(case: dict[str, Any]) -> str:
    """Compare victims and why each goes, of a whole cycle."""
    cycle = as_cycle(case)
    got = gone(cycle, one_cycle(cycle, ARGUMENTS))
    wanted = {(it["workload"], it["reason"]) for it in case["expected"]["preempted"]}
    return "" if got == wanted else f"expected {wanted}, got {got}"


def gone(case: Mapping[str, Any], result: CycleResult) -> set[tuple[str, str]]:
    """Return evicted workloads with Kueue's word for why."""
    queue_of = {work["key"]: queue_of_work(case, work) for work in case["workloads"]}
    found = set()
    for each in result.evictions:
        queue, word = queue_of[each.pod_group], "InCohortReclamation"
        if queue == queue_of[each.beneficiary]:
            word = "InClusterQueue"
        elif f"queue {queue}, by borrowWithinCohort" in each.reason:
            word = "InCohortReclaimWhileBorrowing"
        found.add((each.pod_group, word))
    return found


def classical_cycle(case: dict[str, Any]) -> str:
    """Compare who is admitted and who is preempted in one cycle, and why.

    Raises:
        NotBuiltError: the case is about something that is not offered.

    """
    _check(case)
    result = one_cycle(case, ARGUMENTS)
    got = {bind.pod_group for bind in result.binds}, gone(case, result)
    wanted = (
        set(case["expected"]["newly_admitted"]),
        {(it["workload"], it["reason"]) for it in case["expected"]["preempted"]},
    )
    return "" if got == wanted else f"expected {wanted}, got {got}"


def _check(case: Mapping[str, Any]) -> None:
    """Refuse cases about what is not offered."""
    odd = {gate for gate, is_on in case["feature_gates"].items() if is_on} - _GATES
    if odd:
        raise NotBuiltError(f"gate {min(odd)}")
    for each in case.get("objects") or ():
        raise NotBuiltError(f"objects made by {each['make']}")
    podsets = [podset for work in case["workloads"] for podset in work["podsets"]]
    if any("Limit" in [call[0] for call in podset.get("other_calls") or ()] for podset in podsets):
        raise NotBuiltError("limits of pods against their requests")


def as_cycle(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of one claim as a case of a cycle, of the flavors that are chosen for it."""
    chosen: dict[str, set[str]] = {}
    for each in case["assignment"]:
        chosen.setdefault(each["resource"], set()).add(each["flavor"])
    if any(len(flavors) > 1 for flavors in chosen.values()):
        raise NotBuiltError("flavors")
    pairs = {(flavor, resource) for resource, (flavor,) in chosen.items()}
    incoming = {
        **case["incoming"],
        "cluster_queue": None,
        "queue": "incoming",
    }
    return {
        "feature_gates": {},
        "fair_sharing": False,
        "cohorts": [_narrowed(each, pairs) for each in case["cohorts"]],
        "cluster_queues": [_narrowed(each, pairs) for each in case["cluster_queues"]],
        "local_queues": [
            {
                "name": "incoming",
                "namespace": incoming["namespace"],
                "cluster_queue": case["incoming_cluster_queue"],
            }
        ],
        "workloads": [
            *(
                {
                    **work,
                    "usage": [
                        it for it in work["usage"] if (it["flavor"], it["resource"]) in pairs
                    ],
                }
                for work in case["admitted"]
            ),
            incoming,
        ],
        "expected": {"newly_admitted": [], "preempted": case["expected"]["preempted"]},
    }


def _narrowed(each: Mapping[str, Any], pairs: set[tuple[str, str]]) -> dict[str, Any]:
    """Return a queue or cohort with the quotas of some pairs of flavor and resource.

    A pair without a quota was chosen, so that the queue has one of 0.
    """
    said = {(it["flavor"], it["resource"]): it for it in each["quotas"]}
    none = ({"flavor": flavor, "resource": name, "nominal": 0} for flavor, name in sorted(pairs))
    return {**each, "quotas": [said.get((it["flavor"], it["resource"]), it) for it in none]}
