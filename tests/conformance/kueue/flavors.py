"""Families about the choice of a flavor: what work gets of the flavors that its queue lists."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kaisched.units import parse_quantity
from kaisched_plugins.fair_sharing.flavors import (
    Chooser,
    Chosen,
    Fungibility,
    Group,
    Held,
    Hindrance,
    Mode,
    Request,
    Way,
    is_preferred,
)
from tests.conformance.kueue.podsets import PodSet, accepts, podset_of
from tests.conformance.kueue.tree import Tree, tree_of
from tests.conformance.outcome import NotBuiltError

_STOPS: Final = ("MayStopSearch", "Borrow", "Preempt")
"""The second and third are what it was called before."""
_MODES: Final = {
    "noFit": Mode.NO_FIT,
    "noPreemptionCandidates": Mode.NO_CANDIDATES,
    "preempt": Mode.PREEMPT,
    "reclaim": Mode.RECLAIM,
    "fit": Mode.FIT,
}
_SIMULATED: Final = {
    "NoCandidates": Mode.NO_CANDIDATES,
    "Preempt": Mode.PREEMPT,
    "Reclaim": Mode.RECLAIM,
}
_TOLD: Final = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "Preempt",
    Mode.PREEMPT: "Preempt",
    Mode.RECLAIM: "Preempt",
    Mode.FIT: "Fit",
}
_REASONS: Final = {
    Hindrance.NOTHING: "",
    Hindrance.WAITING: "WaitingForQuota",
    Hindrance.TOO_LARGE: "ExceedsMaxQuota",
    Hindrance.NO_MATCH: "NoMatchingFlavor",
}
_QUEUE: Final = "test-clusterqueue"
_OTHER: Final = "test-secondary-clusterqueue"


def flavor_preference(case: dict[str, Any]) -> str:
    """Compare which of two ways to have a flavor is better."""
    one, other = (
        Way(_MODES[case[side]["preemptionMode"]], case[side]["borrowingLevel"]) for side in "ab"
    )
    got = is_preferred(one, other, _fungibility(case.get("config")))
    return "" if got == case["wantPreferred"] else f"expected {case['wantPreferred']}, got {got}"


def _fungibility(given: Mapping[str, Any] | None) -> Fungibility:
    """Read the settings of a queue; keys are in the table's or in the extractor's spelling."""
    said = {key.replace("_", "").lower(): value for key, value in (given or {}).items()}
    return Fungibility(
        said.get("whencanborrow", "MayStopSearch") in _STOPS,
        said.get("whencanpreempt", "TryNextFlavor") in _STOPS,
        said.get("preference") == "PreemptionOverBorrowing",
    )


def flavor_assignment(case: dict[str, Any]) -> str:
    """Compare flavors and modes of each pod set, what they come to, and why none fits."""
    if case.get("topologies"):
        raise NotBuiltError("topology")
    queue, other = case["clusterQueue"], case.get("secondaryClusterQueue")
    tree = tree_of({"cluster_queues": [queue, *([other] if other else [])], "cohorts": []})
    usage = _used(case, "clusterQueueUsage", queue["name"])
    usage += _used(case, "secondaryClusterQueueUsage", _OTHER)
    podsets = _podsets(case)
    chosen, got = _choose(tree, queue["name"], usage, podsets, case)
    wanted = case["wantAssignment"]
    got["RepMode"] = _TOLD[min((each.mode for each in chosen), default=Mode.NO_FIT)]
    hindrances = (each.hindrance for each in chosen if each.mode == Mode.NO_FIT)
    got["NoFitReason"] = _REASONS[max(hindrances, default=Hindrance.NOTHING)]
    expected = {
        "PodSets": [(it["Name"], it["Count"], it.get("Flavors", {})) for it in wanted["PodSets"]],
        "Usage": {
            (it["flavor"], it["resource"]): it["amount"]
            for it in wanted["Usage"]["Quota"]["Assigned"]
        },
        "Borrowing": wanted.get("Borrowing", 0),
        "RepMode": case.get("wantRepMode", "NoFit"),
        "NoFitReason": wanted.get("NoFitReason", ""),
    }
    return "" if got == expected else f"expected {expected}, got {got}"


def _used(case: Mapping[str, Any], key: str, queue: str) -> list[dict[str, Any]]:
    return [{**each, "cluster_queue": queue} for each in case.get(key) or ()]


def _podsets(case: Mapping[str, Any]) -> list[PodSet]:
    """Return the pod sets of a case's workload, less the pods that are done with."""
    gates = case.get("featureGates") or {}
    done: dict[str, int] = {}
    if gates.get("ReclaimablePods", True):
        done = {it["Name"]: it["Count"] for it in case.get("wlReclaimablePods") or ()}
    return [podset_of(each, done) for each in case["wlPods"]]


def _choose(
    tree: Tree,
    queue: str,
    usage: Sequence[Mapping[str, Any]],
    podsets: Sequence[PodSet],
    case: Mapping[str, Any],
) -> tuple[list[Chosen], dict[str, Any]]:
    """Choose as the policy does; return it for each group of pod sets, and told as cases do."""
    spec = tree.spec[queue]
    flavors = sorted({flavor for flavor, _ in tree.pair})
    requested = {resource for each in podsets for resource in each.amounts}
    resources = [*tree.resources, *sorted(requested - set(tree.resources))]
    number = {name: at for at, name in enumerate(resources)}
    flavor_number = {name: at for at, name in enumerate(flavors)}
    groups = [
        Group(
            [number[name] for name in each["covered_resources"]],
            [flavor_number[name] for name in each["flavors"]],
        )
        for each in spec["resource_groups"]
    ]
    pair = {(flavor_number[it[0]], number[it[1]]): at for it, at in tree.pair.items()}
    simulated = {
        pair[flavor_number[it["flavor"]], number[it["resource"]]]: Way(
            _SIMULATED[it["amount"]["preemptionPossiblity"]],
            it["amount"].get("borrowingAfterSimulation", 0),
        )
        for it in case.get("simulationResult") or ()
    }
    preemption = spec["preemption"]
    borrowing = (preemption.get("borrow_within_cohort") or {}).get("policy", "Never") != "Never"
    reclaims = preemption["reclaim_within_cohort"] != "Never"
    chooser = Chooser(
        tree.holdings(usage),
        tree.queue(queue),
        groups,
        pair,
        _fungibility(spec.get("flavor_fungibility")),
        lambda at, _: simulated.get(at, Way(Mode.PREEMPT, 0)),
        may_borrow_after_evictions=borrowing or (bool(case.get("enableFairSharing")) and reclaims),
    )
    counts_pods = any("pods" in each["covered_resources"] for each in spec["resource_groups"])
    podsets = [each.with_pods() for each in podsets] if counts_pods else podsets
    together = [list(group) for _, group in groupby(podsets, key=lambda it: it.group or it.name)]
    requests = [
        Request(
            _summed(number, group),
            {flavor_number[name] for name in flavors if all(accepts(it, name) for it in group)},
            _held(case, group, number, flavor_number),
        )
        for group in together
    ]
    chosen, came_to = chooser.choose(requests)
    name_of = {at: flavors_and_resource for flavors_and_resource, at in tree.pair.items()}
    told = [
        (each.name, each.count, _told(each, result, resources, flavors))
        for group, result in zip(together, chosen, strict=False)
        for each in group
    ]
    ways = [assigned.way for each in chosen for assigned in each.flavors.values()]
    return chosen, {
        "PodSets": told,
        "Usage": {name_of[at]: amount for at, amount in came_to.items()},
        "Borrowing": max((way.level for way in ways), default=0),
    }


def _summed(number: Mapping[str, int], group: Sequence[PodSet]) -> dict[int, int]:
    total: dict[int, int] = {}
    for each in group:
        for name, amount in sorted(each.amounts.items()):
            total[number[name]] = total.get(number[name], 0) + amount
    return total


def _held(
    case: Mapping[str, Any],
    group: Sequence[PodSet],
    number: Mapping[str, int],
    flavor_number: Mapping[str, int],
) -> dict[int, Held]:
    """Return what the slice of a growing workload holds that this one takes the place of."""
    held = {}
    names = {each.name for each in group}
    for each in (case.get("preemptWorkloadSlice") or {}).get("TotalRequests") or ():
        if each["Name"] in names:
            for name, flavor in each["Flavors"].items():
                held[number[name]] = Held(flavor_number[flavor], each["Requests"][name])
    return held


def _told(
    podset: PodSet, chosen: Chosen, resources: Sequence[str], flavors: Sequence[str]
) -> dict[str, Any]:
    return {
        resources[at]: {
            "Mode": _TOLD[each.way.mode],
            "Name": flavors[each.flavor],
            "TriedFlavorIdx": each.tried,
        }
        for at, each in chosen.flavors.items()
        if resources[at] in podset.amounts
    }


def flavor_reclaim_first(case: dict[str, Any]) -> str:
    """Compare the flavor and its mode for one pod set, where quotas are those of the table."""
    listed = case.get("testClusterQueueFlavors")
    tree = _hierarchy(listed, case) if listed else _flat(case)
    usage = _used(case, "testClusterQueueUsage", _QUEUE)
    usage += _used(case, "otherClusterQueueUsage", _OTHER)
    chosen, got = _choose(tree, _QUEUE, usage, [podset_of(case["workloadRequests"], {})], case)
    told = {name: each["Name"] for name, each in got["PodSets"][0][2].items()}
    mode = _TOLD[chosen[0].mode]
    if (told, mode) == (case.get("wantAssigment") or {}, case.get("wantMode", "NoFit")):
        return ""
    return f"expected {case.get('wantAssigment')} {case.get('wantMode')}, got {told} {mode}"


def _flat(case: Mapping[str, Any]) -> Tree:
    """Return a queue with 10 of each of three flavors, and one beside it that only borrows."""
    quotas = [
        {"flavor": flavor, "resource": resource, "nominal": 10}
        for flavor in ("uno", "due", "tre")
        for resource in ("gpu", "compute")
    ]
    group = {"covered_resources": ["gpu", "compute"], "flavors": ["uno", "due", "tre"]}
    borrower = [{**quota, "nominal": 0} for quota in quotas]
    return tree_of(
        {
            "cluster_queues": [
                _table_queue(_QUEUE, "all", quotas, group, case),
                _table_queue(_OTHER, "all", borrower, group, {}),
            ]
        }
    )


def _hierarchy(listed: Sequence[Mapping[str, Any]], case: Mapping[str, Any]) -> Tree:
    """Return a tree whose cohorts have 4 of each flavor, each flavor at another height."""
    quotas = [
        {
            "flavor": flavor["args"][0],
            "resource": arguments[0],
            "nominal": parse_quantity(arguments[1]).times(1000, 1, round_up=True),
        }
        for flavor in listed
        for _, arguments in flavor["calls"]
    ]
    names = [flavor["args"][0] for flavor in listed]
    group = {"covered_resources": ["cpu"], "flavors": names}
    holders = dict(zip(names, ("root", "middle", "low"), strict=False))
    cohorts = [
        {
            "name": cohort,
            "parent": parent,
            "weight": None,
            "quotas": [
                {"flavor": flavor, "resource": "cpu", "nominal": 4000}
                for flavor, holder in holders.items()
                if holder == cohort
            ],
        }
        for cohort, parent in (("root", None), ("middle", "root"), ("low", "middle"))
    ]
    borrower = [{**quota, "nominal": 0} for quota in quotas]
    return tree_of(
        {
            "cohorts": cohorts,
            "cluster_queues": [
                _table_queue(_QUEUE, "low", quotas, group, case),
                _table_queue(_OTHER, "low", borrower, group, {}),
            ],
        }
    )


def _table_queue(
    name: str, cohort: str, quotas: Any, group: Mapping[str, Any], case: Mapping[str, Any]
) -> dict[str, Any]:
    preemption = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
    return {
        "name": name,
        "cohort": cohort,
        "weight": None,
        "quotas": quotas,
        "resource_groups": [group],
        "preemption": preemption,
        "flavor_fungibility": case.get("flavorFungibility"),
    }
