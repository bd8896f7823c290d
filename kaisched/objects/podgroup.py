"""Pod groups: jobs whose pods start together or not at all, and checks of them."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from kaisched.objects.faults import INT32_MAX, Fault, Path, did_you_mean, duration_faults
from kaisched.objects.labels import NON_PREEMPTIBLE, PREEMPTIBLE
from kaisched.objects.wire import Condition, KubernetesObject, StrictWire, TopologyConstraint, Wire


class SubGroupSpec(StrictWire, frozen=True, kw_only=True):
    """A part of a job: a leaf counts pods, an inner one counts its children."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str = ""
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(StrictWire, frozen=True, kw_only=True):
    """Needs and treatment of a job."""

    min_member: int | None = None
    """Pods needed to start; by default 1 (without subgroups)."""
    min_sub_group: int | None = None
    """Top-level subgroups needed; by default all of them."""
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    """``preemptible``, ``non-preemptible``, or empty: preemptible if the priority is below 100."""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: list[SubGroupSpec] = []
    mark_unschedulable: bool = True
    scheduling_backoff: int = -1
    preemption_delay: str | int | None = None
    staleness_grace_period: str | int | None = None
    """Negative: never evicted as stale."""


class PodGroupStatus(Wire, frozen=True, kw_only=True):
    """Last report on the job."""

    conditions: list[Condition] = []
    scheduling_conditions: list[dict[str, Any]] = []
    """Why node pools could not take the job, whole: entries of other pools are written back."""
    resources_status: Any = None
    """Conditions as stored, unchecked."""


class PodGroup(KubernetesObject, frozen=True, kw_only=True):
    """A job."""

    API_VERSION = "scheduling.run.ai/v2alpha2"
    KIND = "PodGroup"

    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()


# -- checks ----------------------------------------------------------------------------------------

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_BACKOFFS: Final = (-1, 1)


def pod_group_faults(group: PodGroup) -> Iterator[Fault]:
    """Yield the faults of a pod group and its tree of subgroups."""
    spec = group.spec
    yield from _minimum_faults(spec)
    if spec.preemptibility not in ("", PREEMPTIBLE, NON_PREEMPTIBLE):
        yield Fault(
            ("spec", "preemptibility"),
            "no such choice",
            spec.preemptibility,
            did_you_mean(spec.preemptibility, (PREEMPTIBLE, NON_PREEMPTIBLE)),
        )
    if spec.scheduling_backoff not in _BACKOFFS:
        yield Fault(
            ("spec", "schedulingBackoff"),
            "no such choice",
            spec.scheduling_backoff,
            "write -1 or 1, or leave it out: it has no effect here",
        )
    yield from _topology_faults(("spec", "topologyConstraint"), spec.topology_constraint)
    yield from duration_faults({("spec", "preemptionDelay"): spec.preemption_delay})
    yield from duration_faults(
        {("spec", "stalenessGracePeriod"): spec.staleness_grace_period}, allow_negative=True
    )
    yield from _tree_faults(spec.sub_groups)


def _minimum_faults(spec: PodGroupSpec) -> Iterator[Fault]:
    pods: Path = ("spec", "minMember")
    groups: Path = ("spec", "minSubGroup")
    if spec.min_member is not None and spec.min_sub_group is not None:
        yield Fault(groups, "conflicts with minMember", spec.min_sub_group, "keep one of the two")
    if spec.min_member is not None and not 0 <= spec.min_member <= INT32_MAX:
        fix = "write how many pods must start together; 0 if each may start by itself"
        yield Fault(pods, "out of range", spec.min_member, fix)
    if spec.min_sub_group is not None and not spec.sub_groups:
        fix = "write minMember, or list subGroups"
        yield Fault(groups, "there are no subgroups to count", spec.min_sub_group, fix)
    tops = sum(not part.parent for part in spec.sub_groups)
    yield from _child_minimum_faults(groups, spec.min_sub_group, tops)


def _child_minimum_faults(path: Path, minimum: int | None, children: int) -> Iterator[Fault]:
    if minimum is None:
        return
    if not 0 <= minimum <= INT32_MAX:
        yield Fault(path, "out of range", minimum, "write at least 0, or leave it out for all")
    elif minimum > children > 0:
        yield Fault(
            path,
            f"more than its {children} subgroups, so the job can never start",
            minimum,
            f"write at most {children}",
            is_warning=True,
        )


def _tree_faults(parts: list[SubGroupSpec]) -> Iterator[Fault]:
    number_of_children = Counter(part.parent for part in parts)
    names = {part.name for part in parts}
    seen: set[str] = set()
    for at, part in enumerate(parts):
        path: Path = ("spec", "subGroups", at)
        if not DNS_LABEL.fullmatch(part.name):
            fix = "write 1 to 63 lower-case letters, digits and hyphens"
            yield Fault((*path, "name"), "no name for a subgroup", part.name, fix)
        if part.name in seen:
            yield Fault((*path, "name"), "given twice", part.name, "give each its own name")
        seen.add(part.name)
        if part.parent and part.parent not in names:
            near = did_you_mean(part.parent, sorted(names))
            yield Fault((*path, "parent"), "no such subgroup", part.parent, near)
        yield from _part_faults(path, part, number_of_children[part.name])
    yield from _cycle_faults(parts)


def _part_faults(path: Path, part: SubGroupSpec, children: int) -> Iterator[Fault]:
    pods, groups = part.min_member, part.min_sub_group
    if children:
        if pods is not None:
            fix = "write minSubGroup, or leave it out to need all"
            yield Fault((*path, "minMember"), "it has subgroups, not pods", pods, fix)
        yield from _child_minimum_faults((*path, "minSubGroup"), groups, children)
    else:
        if groups is not None:
            fix = "write minMember"
            yield Fault((*path, "minSubGroup"), "it has pods, not subgroups", groups, fix)
        if pods is None:
            fix = "write how many of its pods the job needs; 0 for none"
            yield Fault((*path, "minMember"), "missing", fix=fix)
        elif not 0 <= pods <= INT32_MAX:
            yield Fault((*path, "minMember"), "out of range", pods, "write at least 0")
    yield from _topology_faults((*path, "topologyConstraint"), part.topology_constraint)


def _cycle_faults(parts: list[SubGroupSpec]) -> Iterator[Fault]:
    parent = {part.name: part.parent for part in parts}
    for cycle in cycles(parent):
        at = next(at for at, part in enumerate(parts) if part.name == cycle[0])
        path: Path = ("spec", "subGroups", at, "parent")
        chain = " -> ".join([*cycle, cycle[0]])
        yield Fault(path, f"subgroups inside each other: {chain}", fix="let one have no parent")


def cycles(parent: dict[str, str]) -> list[list[str]]:
    """Return the cycles of a child-to-parent map, each from its first member in the map's order."""
    found: list[list[str]] = []
    trip_of: dict[str, int] = {}
    for trip, start in enumerate(parent):
        node, path = start, []
        while node in parent and node not in trip_of:
            trip_of[node] = trip
            path.append(node)
            node = parent[node]
        if trip_of.get(node) == trip:
            found.append(path[path.index(node) :])
    return found


def _topology_faults(path: Path, constraint: TopologyConstraint | None) -> Iterator[Fault]:
    if constraint is None:
        return
    levels = constraint.required_topology_level or constraint.preferred_topology_level
    if levels and not constraint.topology:
        yield Fault((*path, "topology"), "missing", fix="name the Topology the levels belong to")
    if constraint.topology and not levels:
        fix = "add requiredTopologyLevel or preferredTopologyLevel"
        yield Fault(path, "names no level", constraint.topology, fix)
