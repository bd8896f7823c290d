"""Clusters of cases in which flavors are chosen: a node for each combination of flavors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from kaisched import UNLIMITED, Taint
from kaisched.core.tables import Flavor, FlavorQuota

_TAINTED = "spot-tainted"


def has_choice(objects: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether any resource of queues and cohorts has several flavors."""
    flavors: dict[str, set[str]] = {}
    for each in objects:
        for quota in each.get("quotas") or ():
            flavors.setdefault(quota["resource"], set()).add(quota["flavor"])
    return any(len(some) > 1 for some in flavors.values())


def nodes_of(queues: Sequence[Mapping[str, Any]]) -> dict[frozenset[str], str]:
    """Return a node for each combination of flavors that a queue may choose."""
    combinations = {frozenset(flavors) for queue in queues for flavors in product(*_groups(queue))}
    ordered = sorted(combinations, key=sorted)
    return {flavors: f"n{at}" for at, flavors in enumerate(ordered)}


def _groups(queue: Mapping[str, Any]) -> list[list[str]]:
    """Return the flavors of each resource group; groups of the same resources are one."""
    found: dict[tuple[str, ...], list[str]] = {}
    for group in queue["resource_groups"]:
        found.setdefault(tuple(group["covered_resources"]), []).extend(group["flavors"])
    return list(found.values())


def taints_of(flavors: Iterable[str]) -> tuple[Taint, ...]:
    """Return the taint of the tables' tainted flavors, which no workload of a case tolerates."""
    is_tainted = any(flavor.startswith(_TAINTED) for flavor in flavors)
    return (Taint("instance", "spot", "NoSchedule"),) if is_tainted else ()


def labels_of(flavors: Iterable[str]) -> dict[str, str]:
    return {f"case.io/{flavor}": "yes" for flavor in flavors}


def flavors_of(each: Mapping[str, Any], name_of: Any) -> tuple[Flavor, ...]:
    """Return the flavors of a queue or cohort with their quotas, in its order."""
    listed = [flavor for group in each.get("resource_groups") or () for flavor in group["flavors"]]
    quotas = each.get("quotas") or ()
    order = dict.fromkeys([*listed, *(quota["flavor"] for quota in quotas)])
    return tuple(
        Flavor(
            flavor,
            tuple(_quota(it, name_of) for it in quotas if it["flavor"] == flavor),
            tuple(labels_of([flavor]).items()),
        )
        for flavor in order
    )


def _quota(quota: Mapping[str, Any], name_of: Any) -> FlavorQuota:
    def bound(key: str) -> int:
        amount = quota.get(key)
        return UNLIMITED if amount is None else int(amount)

    resource = name_of(quota["resource"])
    nominal = min(quota["nominal"], UNLIMITED)
    return FlavorQuota(resource, nominal, bound("borrowing_limit"), bound("lending_limit"))


def parts_of(
    work: Mapping[str, Any], nodes: Mapping[frozenset[str], str], name_of: Any
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the node and the amounts of each pod set of a workload that holds quota."""
    for podset in dict.fromkeys(each["podset"] for each in work["usage"]):
        used = [each for each in work["usage"] if each["podset"] == podset]
        flavors = {each["flavor"] for each in used}
        node = next(node for some, node in nodes.items() if flavors <= some)
        yield node, {name_of(each["resource"]): each["amount"] for each in used}
