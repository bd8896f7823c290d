"""What a job is: as its PodGroup says, or else as its workload and its first pod do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from kaisched.cluster.grouping import Membership
from kaisched.cluster.pods import PodRow, created_s
from kaisched.core.tables import (
    INFERENCE,
    INTERACTIVE,
    NO_METADATA,
    TRAINING,
    WORKLOADS,
    Metadata,
    SubGroup,
    TopologyConstraint,
)
from kaisched.core.titles import TopOwner
from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels, wire
from kaisched.objects.gangs import GANG_API
from kaisched.objects.labels import NON_PREEMPTIBLE, PREEMPTIBLE
from kaisched.objects.pod import NEVER
from kaisched.objects.podgroup import PodGroup, PodGroupSpec, SubGroupSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import (
    Gang,
    PodSetTopology,
    PriorityClass,
    parts_of,
    pod_set_of,
    required_of_workload,
    resized,
)
from kaisched.units import parse_duration

BUILT_IN: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
WORKLOAD_OF_CLASS: Final = {
    "train": TRAINING,
    "build-preemptible": INTERACTIVE,
    "build": INTERACTIVE,
    "inference": INFERENCE,
}
"""The type of workload that a class stands for."""
DEFAULT_PRIORITY: Final = 50
FIRST_NON_PREEMPTIBLE: Final = 100
"""Jobs of this priority or more are not preemptible unless they say so."""


class PriorityClasses:
    """What a priority class's name stands for."""

    def __init__(self) -> None:
        """Know the built-in classes."""
        self._class: dict[str, PriorityClass] = {}

    def put(self, cls: PriorityClass) -> bool:
        """Add or replace a class; return whether a number may have changed."""
        old = self._class.get(cls.name)
        self._class[cls.name] = cls
        return old is None or _says(old) != _says(cls)

    def remove(self, name: str) -> bool:
        """Drop a class; return whether there was one."""
        return self._class.pop(name, None) is not None

    def find(self, name: str) -> int | None:
        """Return the value of a class, None for an unknown one."""
        cls = self._class.get(name)
        return cls.value if cls is not None else BUILT_IN.get(name)

    def value(self, name: str) -> int:
        """Return the value of a class, or the default for an unknown one."""
        value = self.find(name)
        return self.default if value is None else value

    def is_never_preempting(self, name: str) -> bool:
        """Tell whether nothing is evicted for a class, or for the default if it is unknown."""
        if self.find(name) is not None:
            return name in self._class and self._class[name].preemption_policy == NEVER
        defaults = [it for it in self._class.values() if it.global_default]
        return bool(defaults) and min(defaults, key=_says).preemption_policy == NEVER

    def forbid_preempting(self, pod: PodRow) -> bool:
        """Tell whether nothing is evicted for a pod, as it says, or its class as API servers do."""
        if pod.preemption_policy or not pod.priority_class:
            return pod.preemption_policy == NEVER
        return self.is_never_preempting(pod.priority_class)

    def is_default(self, name: str) -> bool:
        """Tell whether an API server writes a class into every pod that names none."""
        return name in self._class and self._class[name].global_default

    @property
    def default(self) -> int:
        """What holds without a known class: the global default class's value, else 50."""
        # Kubernetes forbids two global defaults and takes the lower where there are two.
        return min(
            (cls.value for cls in self._class.values() if cls.global_default),
            default=DEFAULT_PRIORITY,
        )


def _says(cls: PriorityClass) -> tuple[int, bool, str]:
    return cls.value, cls.global_default, cls.preemption_policy


def class_of(workload: int, declared: str | None, of_kind: str = "") -> str:
    """Return the class of a job that names none; empty for the cluster's default.

    Interactive work goes before training. So does what is not preemptible and does not say what it
    is. ``of_kind`` is the class of the job's kind where neither says anything else.
    """
    if workload == INTERACTIVE:
        return "build-preemptible" if declared == PREEMPTIBLE else "build"
    if workload in (TRAINING, INFERENCE):
        return "train" if workload == TRAINING else "inference"
    return of_kind or ("build" if declared == NON_PREEMPTIBLE else "")


def constraint_of(wish: wire.TopologyConstraint | None) -> TopologyConstraint | None:
    """Return a constraint as the tables have it; None for one that asks for nothing."""
    if wish is None or not (wish.required_topology_level or wish.preferred_topology_level):
        return None
    return TopologyConstraint(
        wish.topology, wish.required_topology_level, wish.preferred_topology_level
    )


def constraint_in(metas: Iterable[ObjectMeta]) -> TopologyConstraint | None:
    """Return the constraint of the first of some owners, or their pod, whose annotations say it."""
    found = (constraint_of(labels.topology_constraint_of(meta)) for meta in metas)
    return next((it for it in found if it is not None), None)


def pod_set_in(metas: Iterable[ObjectMeta]) -> TopologyConstraint | None:
    """Return what Kueue's annotations of the first of some owners, or their pod, ask for.

    Raises:
        ObjectError: they make no sense.

    """
    wishes = (pod_set_of(meta.annotations) for meta in metas if meta.annotations)
    wish = next((it for it in wishes if it is not None), None)
    return None if wish is None else of_pod_set(wish)


def of_pod_set(wish: PodSetTopology) -> TopologyConstraint:
    """Return what a pod set asks for as the tables have it."""
    slices = tuple(wish.slices)
    return TopologyConstraint("", wish.required, wish.preferred, slices, is_pod_set=True)


def with_patience(tree: SubGroup | None, metas: Iterable[ObjectMeta]) -> SubGroup | None:
    """Return a job's tree with its patience for the level that the whole job prefers.

    Raises:
        ObjectError: the first of the objects that says how long makes no sense.

    """
    said = (labels.topology_patience_of(meta) for meta in metas if meta.annotations)
    patience_s = next((it for it in said if it is not None), 0.0)
    wish = None if tree is None else tree.topology
    if not patience_s or tree is None or wish is None or not wish.preferred:
        return tree
    return replace(tree, topology=wish._replace(patience_s=patience_s))


def with_pod_sets(
    tree: SubGroup | None, podset: str, wishes: Mapping[str, PodSetTopology]
) -> SubGroup | None:
    """Return a job's tree with what its top-level subgroups ask for by Kueue's annotations.

    Subgroups of one group of pod sets are put into a subgroup of their own. ``podset`` names the
    only pod set of a job without a tree.
    """
    if not wishes:
        return tree
    if tree is None:
        return bound(None, podset, of_pod_set(next(iter(wishes.values()))))
    children: dict[str, list[SubGroup]] = {}
    for child in tree.children:
        wish = wishes.get(child.name)
        is_grouped = wish is not None and wish.group
        if wish is not None and not is_grouped:
            child = replace(child, topology=of_pod_set(wish))  # noqa: PLW2901
        key = f"{wish.group} (group)" if wish is not None and is_grouped else child.name
        children.setdefault(key, []).append(child)
    parts = [_together(name, some, wishes) for name, some in children.items()]
    needed = min(tree.min_subgroup, len(parts))
    return replace(tree, children=tuple(parts), min_subgroup=needed)


def _together(name: str, some: list[SubGroup], wishes: Mapping[str, PodSetTopology]) -> SubGroup:
    """Return one subgroup of some of one group; the pod set with most layers speaks for it."""
    wish = max((wishes[it.name] for it in some if it.name in wishes), key=_said, default=None)
    if wish is None or not wish.group:
        return some[0]
    if len(some) == 1:
        return replace(some[0], topology=of_pod_set(wish))
    return SubGroup(name, -1, len(some), tuple(some), of_pod_set(wish))


def _said(wish: PodSetTopology) -> int:
    return len(wish.slices)


def around(tree: SubGroup | None, podset: str, node_label: str) -> SubGroup | None:
    """Return a job's tree with all its pods on nodes with one value of a label.

    What the root asks for already counts inside of it. ``podset`` names the only pod set of a job
    without a tree; an empty label changes nothing.
    """
    if not node_label:
        return tree
    if tree is not None and tree.topology is not None:
        tree = SubGroup("", -1, 1, (tree,))
    return bound(tree, podset, TopologyConstraint("", node_label, is_label=True))


def bound(
    tree: SubGroup | None, podset: str, constraint: TopologyConstraint | None
) -> SubGroup | None:
    """Return a job's tree with the constraint of the whole job at its root.

    That of its only subgroup counts inside of it, but not what Kueue's annotations say. ``podset``
    names the only pod set of a job without a tree.
    """
    if constraint is None:
        return tree
    if tree is None:
        return SubGroup(podset, 0, 0, topology=constraint)
    if tree.topology is not None and not tree.topology.is_pod_set:
        return SubGroup("", -1, 1, (tree,), constraint)
    return SubGroup(tree.name, tree.podset, tree.min_subgroup, tree.children, constraint)


DEFAULT_PODSET: Final = "default"


@dataclass(frozen=True, slots=True)
class Timing:
    """What a job says about evictions: those it causes and those it suffers. Seconds."""

    preemption_delay_s: float = 0.0
    staleness_grace_s: float = math.nan
    """NaN: as the shard says; negative: never evicted as stale."""
    last_evicted_s: float = math.nan
    stale_since_s: float = math.nan


NO_TIMING: Final = Timing()


@dataclass(frozen=True, slots=True)
class JobRow:
    """What a job is, wherever that was read from."""

    queue: str
    priority: int
    is_preemptible: bool
    created_s: float
    podsets: tuple[tuple[str, int], ...] = ((DEFAULT_PODSET, 1),)
    """(name, minimum) of each leaf subgroup."""
    tree: SubGroup | None = None
    """Its leaves count the pod sets from 0; None for a job of one pod set and no constraint."""
    last_start_s: float = math.nan
    """As written on the object; NaN where it does not say."""
    timing: Timing = NO_TIMING
    is_never_preempting: bool = False
    """Nothing may be evicted for it, as its priority class says."""
    metadata: Metadata = NO_METADATA
    """Whose labels and annotations are the job's."""
    workload: int = -1
    """TRAINING, INTERACTIVE or INFERENCE, where it says; -1: by whether it is preemptible."""
    top_owner: TopOwner | None = None
    """What it comes from."""
    fault: str = ""
    """Why it is no valid group."""
    unsupported: str = ""
    """What it asks for that is not offered."""


def job_row(group: PodGroup, classes: PriorityClasses, fault: str = "") -> JobRow:
    """Return the job of a pod group; a group with a fault counts as one pod set."""
    spec, meta = group.spec, group.metadata
    last_start_s = None
    declared = None
    timing, workload = NO_TIMING, -1
    try:
        last_start_s = labels.last_start_of(meta)
        timing = timing_of([meta], None if fault else spec)
        declared = spec.preemptibility or labels.preemptibility_of(meta)
        labels.node_pools_of(meta)
        workload = workload_of(spec.priority_class_name, [meta])
    except ObjectError as error:
        fault = fault or str(error)
    name = spec.priority_class_name
    if classes.find(name) is None:
        name = class_of(workload, declared)
    priority = classes.value(name)
    minimum = 1 if fault or spec.min_member is None else spec.min_member
    podsets: tuple[tuple[str, int], ...] = ((DEFAULT_PODSET, minimum),)
    tree = None
    if spec.sub_groups and not fault:
        podsets, tree = divided(spec.sub_groups, spec.min_sub_group)
    if not fault:
        tree = bound(tree, podsets[0][0], constraint_of(spec.topology_constraint))
    try:
        tree = with_patience(tree, [meta])
    except ObjectError as error:
        fault = fault or str(error)
    return JobRow(
        queue=spec.queue or labels.queue_of(meta) or labels.DEFAULT_QUEUE,
        priority=priority,
        is_preemptible=is_preemptible(declared, priority),
        created_s=created_s(meta),
        podsets=podsets,
        tree=tree,
        last_start_s=math.nan if last_start_s is None else last_start_s,
        timing=timing,
        is_never_preempting=classes.is_never_preempting(name),
        metadata=meta,
        workload=workload,
        fault=fault,
    )


def timing_of(metas: Sequence[ObjectMeta], spec: PodGroupSpec | None = None) -> Timing:
    """Return what a spec without faults and then annotations say; the first that says it counts.

    Raises:
        ObjectError: an annotation makes no sense.

    """
    if spec is None and not any(meta.annotations for meta in metas):
        return NO_TIMING  # most pods: four questions for each of them would be a tenth of loading
    delay, grace = (
        (None, None)
        if spec is None
        else (
            spec.preemption_delay,
            spec.staleness_grace_period,
        )
    )
    delay_s = _first(metas, labels.preemption_delay_of, 0.0)
    grace_s = _first(metas, labels.staleness_grace_of, math.nan)
    return Timing(
        preemption_delay_s=delay_s if delay is None else parse_duration(delay),
        staleness_grace_s=grace_s if grace is None else parse_duration(grace, allow_negative=True),
        last_evicted_s=_first(metas, labels.last_eviction_of, math.nan),
        stale_since_s=_first(metas, labels.stale_since_of, math.nan),
    )


def _first(
    metas: Sequence[ObjectMeta], read: Callable[[ObjectMeta], float | None], absent: float
) -> float:
    noted = [seconds for meta in metas if (seconds := read(meta)) is not None]
    return next(iter(noted), absent)


def workload_of(priority_class: str, metas: Sequence[ObjectMeta]) -> int:
    """Return the type of a workload by its priority class, else by its label; -1 without both.

    Of several objects, the outermost first, the first that has the label counts.

    Raises:
        ObjectError: the label makes no sense.

    """
    said = [name for meta in metas if (name := labels.workload_type_of(meta)) is not None]
    by_class = WORKLOAD_OF_CLASS.get(priority_class)
    if by_class is not None:
        return by_class
    return WORKLOADS.index(said[0]) if said else -1


def is_preemptible(declared: str | None, priority: int) -> bool:
    """Tell whether a job may be evicted: as it says, or else by its priority."""
    if declared:
        return declared == labels.PREEMPTIBLE
    return priority < FIRST_NON_PREEMPTIBLE


def divided(
    parts: Sequence[SubGroupSpec], min_sub_group: int | None
) -> tuple[tuple[tuple[str, int], ...], SubGroup | None]:
    """Return the pod sets of subgroups without faults, and their tree where it says anything.

    ``min_sub_group`` is how many of those at the top are needed, None for all.
    """
    children: dict[str, list[SubGroupSpec]] = {}
    for part in parts:
        children.setdefault(part.parent, []).append(part)
    podsets: list[tuple[str, int]] = []

    top = children[""]
    needed = len(top) if min_sub_group is None else min_sub_group
    tree = SubGroup("", -1, needed, tuple(_subtree(part, children, podsets) for part in top))
    is_whole = all(group.min_subgroup == len(group.children) for group in tree.groups())
    if len(podsets) > 1 or not is_whole:
        return tuple(podsets), tree
    while tree.topology is None and tree.children:  # a job of one pod set: it has its constraints
        tree = tree.children[0]
    return tuple(podsets), tree if tree.topology is not None else None


def _subtree(
    part: SubGroupSpec,
    children: Mapping[str, Sequence[SubGroupSpec]],
    podsets: list[tuple[str, int]],
) -> SubGroup:
    """Return the tree below a subgroup, and add its pod sets to those there are."""
    below = children.get(part.name)
    if not below:
        podsets.append((part.name, part.min_member or 0))
        return SubGroup(
            part.name, len(podsets) - 1, 0, topology=constraint_of(part.topology_constraint)
        )
    needed = len(below) if part.min_sub_group is None else part.min_sub_group
    parts = tuple(_subtree(child, children, podsets) for child in below)
    return SubGroup(part.name, -1, needed, parts, constraint_of(part.topology_constraint))


def placed_at(tree: SubGroup, first: int) -> SubGroup:
    """Return the tree with its pod sets counted from row ``first``."""
    return replace(
        tree,
        podset=tree.podset + first if tree.podset >= 0 else -1,
        children=tuple(placed_at(child, first) for child in tree.children),
    )


_DROP_IT: Final = "leave it out"


def derived_job(
    pod: PodRow, member: Membership, classes: PriorityClasses, roles: Counter[str]
) -> JobRow:
    """Return the job that a pod without a PodGroup object is in, read from its workload.

    ``pod`` speaks for all of the job's pods, of which there are ``roles`` by subgroup. A pod that
    names a pod group which does not exist is in a job with a fault.
    """
    fault, declared = member.fault, None
    if member.is_declared:
        fault = f"pod group {member.job} does not exist"
    elif not member.is_named and any(labels.is_grouping_skipped(meta) for meta in member.metas):
        fault = f"left out of grouping ({labels.SKIP_GROUPING}), but in no pod group"
    timing, workload = NO_TIMING, -1
    name, priority = _named_class(pod, member, classes)
    podsets, tree, wish = _whole(1), None, None
    try:
        timing = timing_of(member.metas)
        workload = workload_of(name, member.metas)
        for meta in reversed(member.metas):
            declared = labels.preemptibility_of(meta) or declared
            labels.node_pools_of(meta)
            labels.node_types_of(meta)
        podsets, tree = _structure(pod, member, roles)
        # What a template asks for is about its own pods: only owners around it speak for all.
        around_all = member.metas[: member.outer] if _is_asking(tree) else member.metas
        wish = constraint_of(member.gang.topology_constraint) or constraint_in(around_all)
        if len(podsets) == 1 and wish is None and tree is None:
            wish = pod_set_in(member.metas)
    except ObjectError as error:
        fault = fault or str(error)
    is_named = bool(name) or priority is None
    if priority is None:
        of_kind = "" if classes.is_default(pod.priority_class) else member.rule.priority_class
        name = class_of(workload, declared, of_kind)
        priority = classes.value(name)
    tree = around(bound(tree, podsets[0][0], wish), podsets[0][0], member.gang.node_label)
    try:
        tree = with_patience(tree, member.metas)
    except ObjectError as error:
        fault = fault or str(error)
    owner = member.metas[-2] if len(member.metas) > 1 and not member.is_single else pod.meta
    demands = () if member.gang.segments else map(required_of_workload, member.metas[:-1])
    return JobRow(
        queue=queue_of(member.metas),
        priority=priority,
        is_preemptible=is_preemptible(declared, priority),
        created_s=created_s(owner),
        podsets=podsets,
        tree=tree,
        timing=timing,
        is_never_preempting=is_named and classes.is_never_preempting(name),
        metadata=owner,
        workload=workload,
        top_owner=member.top_owner._replace(user=labels.user_of(member.metas)),
        fault=fault,
        unsupported=next(filter(None, demands), "") or member.gang.unsupported,
    )


def _structure(
    pod: PodRow, member: Membership, roles: Counter[str]
) -> tuple[tuple[tuple[str, int], ...], SubGroup | None]:
    """Return pod sets and tree; the annotation of a minimum makes it one pod set.

    Raises:
        ObjectError: an annotation makes no sense.

    """
    if member.is_single:
        return _whole(1), None
    minimum = None
    for meta in reversed(member.metas):
        minimum = labels.batch_min_member_of(meta) or minimum
    gang = member.gang
    if minimum is not None and member.rule.api_group == GANG_API:
        minimum = max(minimum, gang.minimum)
    if minimum is not None and gang.segments:
        path = join_path("metadata", "annotations", labels.BATCH_MIN_MEMBER)
        raise ObjectError("beside segments, which need all of their pods", path=path, fix=_DROP_IT)
    if minimum is None and gang.is_leader_first and roles.total() == 1:
        return _whole(1), None  # the others are made when it runs
    if minimum is None and (parts := _parts(pod, member, roles)):
        podsets, tree = divided(parts, gang.min_sub_group)
        return podsets, with_pod_sets(tree, podsets[0][0], gang.pod_sets)
    if minimum is None and member.rule.size_annotation:
        minimum = labels.size_of(pod.meta, member.rule.size_annotation)
    return _whole(gang.minimum if minimum is None else minimum), None


def _parts(pod: PodRow, member: Membership, roles: Counter[str]) -> Sequence[SubGroupSpec]:
    """Return the subgroups of a job; none where its pods are one pod set.

    Segments are those of the size that its own pods name.

    Raises:
        ObjectError: the size makes no sense.

    """
    gang, key = member.gang, member.rule.size_annotation
    pods = labels.size_of(pod.meta, key) if key else None
    for name, segments in gang.segments.items():
        if pods is not None and pods != segments.pods:
            return parts_of(resized(segments, pods), name)
    if gang.segments or not member.rule.role_labels:
        return _led(gang, roles)
    return _roles(gang, roles)


def _led(gang: Gang, there: Mapping[str, int]) -> Sequence[SubGroupSpec]:
    """Return the subgroups, of which those need one pod whose leader is there alone."""
    alone = {name for name in gang.leader_first if there.get(name, 0) <= 1}
    return [
        structs.replace(part, min_member=min(part.min_member or 0, 1))
        if part.name in alone
        else part
        for part in gang.sub_groups
    ]


def _roles(gang: Gang, there: Mapping[str, int]) -> Sequence[SubGroupSpec]:
    """Return the subgroups of a gang of roles, of whose pods so many are ``there``.

    Pods of no role, under the empty name, stand for those that a role lacks: then there are no
    subgroups. Else they are one more, of which nothing is needed.
    """
    parts = [
        structs.replace(part, min_member=0)
        if part.name in gang.later and not there.get(part.name)
        else part
        for part in gang.sub_groups
    ]
    if not there.get("") or not parts:
        return parts
    if any((part.min_member or 0) > there.get(part.name, 0) for part in parts):
        return ()
    is_taken = any(part.name == DEFAULT_PODSET for part in parts)
    return parts if is_taken else [*parts, SubGroupSpec(name=DEFAULT_PODSET, min_member=0)]


def shape_of(member: Membership, roles: Counter[str]) -> object:
    """Return what decides on a job's subgroups beside its workload; equal ones need no new look."""
    gang = member.gang
    if gang.is_leader_first:
        return roles.total() == 1
    if gang.leader_first:
        return tuple(roles[name] <= 1 for name in gang.leader_first)
    is_fixed = not gang.later and not roles[""]
    if is_fixed or gang.segments or not member.rule.role_labels:
        return None
    return tuple((part.name, part.min_member) for part in _roles(gang, roles))


def _is_asking(tree: SubGroup | None) -> bool:
    """Tell whether a job or a subgroup of it has a constraint by the annotations of a template."""
    if tree is None:
        return False
    wish = tree.topology
    return (wish is not None and not wish.is_pod_set) or any(map(_is_asking, tree.children))


def _whole(minimum: int) -> tuple[tuple[str, int], ...]:
    return ((DEFAULT_PODSET, minimum),)


def queue_of(metas: Sequence[ObjectMeta]) -> str:
    """Return the queue: by its label on the owners or the pod, or else by the older label."""
    for meta in metas:
        if labels.QUEUE in meta.labels:
            return meta.labels[labels.QUEUE]
    return next((name for meta in metas if (name := labels.queue_of(meta))), labels.DEFAULT_QUEUE)


def _named_class(
    pod: PodRow, member: Membership, classes: PriorityClasses
) -> tuple[str, int | None]:
    """Return the known priority class that a job names, empty for none, and its priority, if any.

    A global default is no choice: API servers write it, or 0, into every pod that names no class.
    """
    label = member.rule.priority_label
    named = [
        meta.labels.get(labels.PRIORITY_CLASS) or meta.labels.get(label) for meta in member.metas
    ]
    own = "" if classes.is_default(pod.priority_class) else pod.priority_class
    for name in (member.gang.priority_class, *named, own):
        value = classes.find(name) if name else None
        if value is not None:
            return str(name), value
    is_chosen = pod.priority is not None and own == pod.priority_class
    return "", pod.priority if is_chosen and (own or pod.priority) else None
