"""Cases of one claim without fair sharing, as cases of whole cycles."""

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.kueue.cycles import arguments_of, one_cycle, preempted
from tests.conformance.outcome import NotBuiltError

_LOCAL_QUEUE: Final = "incoming"


def classical_preemption(case: dict[str, Any]) -> str:
    """Compare victims and why each goes."""
    whole = as_cycle(case)
    got = preempted(one_cycle(whole, {**arguments_of(case), "isCompatible": True}))
    wanted = {(it["workload"], it["reason"]) for it in case["expected"]["preempted"]}
    return "" if got == wanted else f"expected {sorted(wanted)}, got {sorted(got)}"


def as_cycle(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of one claim as that of a cycle, with the flavors that are chosen for it.

    Raises:
        NotBuiltError: the claim has several flavors of a resource.

    """
    chosen: dict[str, set[str]] = {}
    for each in case["assignment"]:
        chosen.setdefault(each["resource"], set()).add(each["flavor"])
    if any(len(flavors) > 1 for flavors in chosen.values()):
        raise NotBuiltError("flavors")
    pairs = {(flavor, resource) for resource, (flavor,) in chosen.items()}
    incoming = {**case["incoming"], "queue": _LOCAL_QUEUE}
    local_queue = {
        "name": _LOCAL_QUEUE,
        "namespace": incoming["namespace"],
        "cluster_queue": case["incoming_cluster_queue"],
    }
    admitted = [
        {**work, "usage": [it for it in work["usage"] if _pair(it) in pairs]}
        for work in case["admitted"]
    ]
    return {
        **case,
        "cohorts": [_narrowed(each, pairs) for each in case["cohorts"]],
        "cluster_queues": [_narrowed(each, pairs) for each in case["cluster_queues"]],
        "local_queues": [local_queue],
        "workloads": [*admitted, incoming],
    }


def _narrowed(each: Mapping[str, Any], pairs: set[tuple[str, str]]) -> dict[str, Any]:
    """Return a queue or cohort with the quotas of some pairs of flavor and resource.

    A pair without a quota was chosen, so that the queue has one of 0.
    """
    said = {_pair(it): it for it in each["quotas"]}
    none = {pair: {"flavor": pair[0], "resource": pair[1], "nominal": 0} for pair in sorted(pairs)}
    return {**each, "quotas": [said.get(pair, quota) for pair, quota in none.items()]}


def _pair(it: Mapping[str, Any]) -> tuple[str, str]:
    return it["flavor"], it["resource"]
