"""Checks of Kueue's objects, each on its own: faults, and warnings of what has no meaning here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from kaisched.objects.faults import INT32_MAX, Fault, Path
from kaisched.objects.kueue.wire import (
    ClusterQueue,
    Cohort,
    FairSharing,
    FlavorResource,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    WorkloadPriorityClass,
)
from kaisched.objects.quotas import MAX_WEIGHT, MIN_WEIGHT, threshold_faults
from kaisched.units import UnitError, parse_quantity

_SPEC: Final = ("spec",)
NO_MEANING: Final[dict[str, tuple[tuple[object, ...], str]]] = {
    "queueingStrategy": (
        ("BestEffortFIFO",),
        "jobs that fit are started past one that does not, as with BestEffortFIFO",
    ),
    "admissionChecks": (([],), "nothing waits for checks"),
    "admissionChecksStrategy": (({},), "nothing waits for checks"),
    "concurrentAdmissionPolicy": (({},), "a job is tried in one flavor after the other"),
}
"""Fields of a ClusterQueue: values that need no warning, and what holds here instead."""


def cluster_queue_faults(queue: ClusterQueue) -> Iterator[Fault]:
    """Yield the faults of a ClusterQueue, and what has no meaning here."""
    spec = queue.spec
    yield from _two_names("cohort", spec.cohort, "cohortName", spec.cohort_name)
    yield from _group_faults(spec.resource_groups, has_parent=bool(spec.above))
    yield from _weight_faults(spec.fair_sharing)
    yield from threshold_faults(spec.preemption.borrow_within_cohort)
    values = {
        "queueingStrategy": spec.queueing_strategy,
        "admissionChecks": spec.admission_checks,
        "admissionChecksStrategy": spec.admission_checks_strategy,
        "concurrentAdmissionPolicy": spec.concurrent_admission_policy,
    }
    for name, value in values.items():
        as_here, instead = NO_MEANING[name]
        if value is not None and value not in as_here:
            yield _ignored((*_SPEC, name), value, instead)
    if spec.namespace_selector is None:
        fix = "in Kueue it then selects no namespace; here every LocalQueue may use the queue"
        yield Fault((*_SPEC, "namespaceSelector"), "missing", fix=fix, is_warning=True)
    elif spec.namespace_selector != {}:
        yield _ignored(
            (*_SPEC, "namespaceSelector"),
            spec.namespace_selector,
            "namespaces are not read, so every LocalQueue may use the queue",
        )


def cohort_faults(cohort: Cohort) -> Iterator[Fault]:
    """Yield the faults of a Cohort."""
    spec = cohort.spec
    yield from _two_names("parent", spec.parent, "parentName", spec.parent_name)
    yield from _group_faults(spec.resource_groups, has_parent=bool(spec.above))
    yield from _weight_faults(spec.fair_sharing)


def local_queue_faults(queue: LocalQueue) -> Iterator[Fault]:
    """Yield the faults of a LocalQueue."""
    if not queue.spec.cluster_queue:
        yield Fault(("spec", "clusterQueue"), "empty", fix="name a ClusterQueue")
    yield from _weight_faults(queue.spec.fair_sharing)


def flavor_faults(flavor: ResourceFlavor) -> Iterator[Fault]:
    """Yield what of a ResourceFlavor has no meaning here."""
    spec = flavor.spec
    values = {
        "nodeTaints": (spec.node_taints, "taints of the nodes themselves count"),
        "topologyName": (spec.topology_name, "topologies have no effect"),
    }
    for name, (value, instead) in values.items():
        if value not in (None, [], ""):
            yield _ignored((*_SPEC, name), value, instead)


def workload_class_faults(cls: WorkloadPriorityClass) -> Iterator[Fault]:
    """Yield the faults of a WorkloadPriorityClass."""
    if abs(cls.value) > INT32_MAX:
        yield Fault(("value",), "out of range", cls.value, "write at most 2^31 - 1")


def _ignored(path: Path, value: Any, instead: str) -> Fault:
    return Fault(path, "has no meaning here", value, instead, is_warning=True)


def _two_names(older: str, one: str, newer: str, other: str) -> Iterator[Fault]:
    if one and other and one != other:
        yield Fault((*_SPEC, older), f"{newer} says {other!r}", one, "keep one of the two")


def _group_faults(groups: list[ResourceGroup], *, has_parent: bool) -> Iterator[Fault]:
    covered = Counter(name for group in groups for name in group.covered_resources)
    flavors = Counter(flavor.name for group in groups for flavor in group.flavors)
    for at, group in enumerate(groups):
        path: Path = ("spec", "resourceGroups", at)
        for place, name in enumerate(group.covered_resources):
            if covered[name] > 1:
                where = (*path, "coveredResources", place)
                yield Fault(where, "a resource is covered twice", name, "cover it in one place")
        if not group.flavors:
            yield Fault((*path, "flavors"), "empty", fix="write at least one flavor")
        for number, flavor in enumerate(group.flavors):
            where = (*path, "flavors", number)
            if flavors[flavor.name] > 1:
                yield Fault((*where, "name"), "a flavor is given twice", flavor.name, "drop one")
            said = [it.name for it in flavor.resources]
            if sorted(said) != sorted(group.covered_resources):
                covers = ", ".join(group.covered_resources) or "nothing"
                fix = f"write one entry for each of coveredResources: {covers}"
                yield Fault((*where, "resources"), "not those that are covered", said, fix)
            for place, resource in enumerate(flavor.resources):
                yield from _amount_faults((*where, "resources", place), resource, has_parent)


def _amount_faults(path: Path, resource: FlavorResource, has_parent: bool) -> Iterator[Fault]:
    amounts = {
        "nominalQuota": resource.nominal_quota,
        "borrowingLimit": resource.borrowing_limit,
        "lendingLimit": resource.lending_limit,
    }
    for name, amount in amounts.items():
        if amount is None:
            continue
        try:
            parse_quantity(amount)
        except UnitError as error:
            yield Fault((*path, name), str(error), amount, error.fix)
        else:
            if name != "nominalQuota" and not has_parent:
                fix = "leave it out, or name the cohort to borrow from and to lend to"
                yield Fault((*path, name), "needs a cohort", amount, fix)


def _weight_faults(sharing: FairSharing) -> Iterator[Fault]:
    path = ("spec", "fairSharing", "weight")
    try:
        weight = parse_quantity(sharing.weight)
    except UnitError as error:
        yield Fault(path, str(error), sharing.weight, error.fix)
        return
    value = Fraction(weight.numerator, weight.denominator)
    if value > MAX_WEIGHT or 0 < value < Fraction(MIN_WEIGHT).limit_denominator(10**9):
        yield Fault(path, "out of range", sharing.weight, "write 0, or a number from 1e-9 to 1e9")
