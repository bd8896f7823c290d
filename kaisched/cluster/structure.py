"""A job as its pod group says it: pod sets, the tree of subgroups, queue, priority."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kaisched.cluster.constraints import bound, constraint_of, with_patience
from kaisched.cluster.priorities import (
    FIRST_NON_PREEMPTIBLE,
    WORKLOAD_OF_CLASS,
    PriorityClasses,
    class_of,
)
from kaisched.cluster.translate import created_s
from kaisched.core.tables import NO_METADATA, WORKLOADS, Metadata, SubGroup
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.podgroup import PodGroup, PodGroupSpec, SubGroupSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.units import parse_duration

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
    metadata: Metadata = NO_METADATA
    """Whose labels and annotations are the job's."""
    workload: int = -1
    """TRAINING, INTERACTIVE or INFERENCE, where it says; -1: by whether it is preemptible."""
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
        timing = timing_of([meta], () if fault else (group.spec,))
        declared = spec.preemptibility or labels.preemptibility_of(meta)
        labels.node_pools_of(meta)
        workload = workload_of(spec.priority_class_name, [meta])
    except ObjectError as error:
        fault = fault or str(error)
    priority = classes.find(spec.priority_class_name)
    if priority is None:
        priority = classes.value(class_of(workload, declared))
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
        metadata=meta,
        workload=workload,
        fault=fault,
    )


def timing_of(metas: Sequence[ObjectMeta], specs: Sequence[PodGroupSpec] = ()) -> Timing:
    """Return what specs without faults and then annotations say; the first that says it counts.

    Raises:
        ObjectError: an annotation makes no sense.

    """
    if not specs and not any(meta.annotations for meta in metas):
        return NO_TIMING  # most pods: four questions for each of them would be a tenth of loading
    delays = [
        parse_duration(spec.preemption_delay) for spec in specs if spec.preemption_delay is not None
    ]
    graces = [
        parse_duration(spec.staleness_grace_period, allow_negative=True)
        for spec in specs
        if spec.staleness_grace_period is not None
    ]
    return Timing(
        preemption_delay_s=_first(delays, metas, labels.preemption_delay_of, 0.0),
        staleness_grace_s=_first(graces, metas, labels.staleness_grace_of, math.nan),
        last_evicted_s=_first([], metas, labels.last_eviction_of, math.nan),
        stale_since_s=_first([], metas, labels.stale_since_of, math.nan),
    )


def _first(
    said: Sequence[float],
    metas: Sequence[ObjectMeta],
    read: Callable[[ObjectMeta], float | None],
    absent: float,
) -> float:
    noted = [seconds for meta in metas if (seconds := read(meta)) is not None]
    return next(iter((*said, *noted)), absent)


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
    if len(podsets) > 1 or needed > 1:
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
