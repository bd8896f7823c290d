"""Jobs without a PodGroup object of ours: what their workloads and pods say they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kaisched.cluster.constraints import (
    around,
    bound,
    constraint_in,
    constraint_of,
    pod_set_in,
    with_patience,
    with_pod_sets,
)
from kaisched.cluster.grouping import Membership
from kaisched.cluster.priorities import PriorityClasses, class_of
from kaisched.cluster.structure import (
    DEFAULT_PODSET,
    NO_TIMING,
    JobRow,
    divided,
    is_preemptible,
    timing_of,
    workload_of,
)
from kaisched.cluster.translate import PodRow, created_s
from kaisched.core.tables import SubGroup
from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import parts_of, required_of_workload, resized

_DROP_IT: Final = "leave it out"


def derived_job(pod: PodRow, member: Membership, classes: PriorityClasses, pods: int) -> JobRow:
    """Return the job that a pod without a PodGroup object is in, read from its workload.

    ``pod`` speaks for all of the job's pods, of which there are ``pods``. A pod that names a pod
    group which does not exist is in a job with a fault.
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
        podsets, tree = _structure(pod, member, pods)
        # What a template asks for is about its own pods: only owners around it speak for all.
        around_all = member.metas[: member.outer] if _is_asking(tree) else member.metas
        wish = constraint_of(member.gang.topology_constraint) or constraint_in(around_all)
        if len(podsets) == 1 and wish is None and tree is None and not member.gang.pod_sets:
            wish = pod_set_in(member.metas)
    except ObjectError as error:
        fault = fault or str(error)
    priority = _implied(pod, member, classes, workload, declared) if priority is None else priority
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
        metadata=owner,
        workload=workload,
        fault=fault,
        unsupported=next(filter(None, demands), "") or member.gang.unsupported,
    )


def _structure(
    pod: PodRow, member: Membership, pods: int
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
    if minimum is not None and gang.segments:
        path = join_path("metadata", "annotations", labels.BATCH_MIN_MEMBER)
        raise ObjectError("beside segments, which need all of their pods", path=path, fix=_DROP_IT)
    if minimum is None and gang.is_leader_first and pods == 1:
        return _whole(1), None  # the others are made when it runs
    if minimum is None and gang.sub_groups:
        parts = _parts(pod, member)
        podsets, tree = divided(parts, gang.min_sub_group)
        return podsets, with_pod_sets(tree, podsets[0][0], gang.pod_sets)
    if minimum is None and member.rule.size_annotation:
        minimum = labels.size_of(pod.meta, member.rule.size_annotation)
    return _whole(gang.minimum if minimum is None else minimum), None


def _parts(pod: PodRow, member: Membership) -> list[SubGroupSpec]:
    """Return the subgroups of a job: segments are those of the size that its own pods name.

    Raises:
        ObjectError: the size makes no sense.

    """
    gang, key = member.gang, member.rule.size_annotation
    pods = labels.size_of(pod.meta, key) if key else None
    for name, segments in gang.segments.items():
        if pods is not None and pods != segments.pods:
            return parts_of(resized(segments, pods), name)
    return gang.sub_groups


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


def _implied(
    pod: PodRow, member: Membership, classes: PriorityClasses, workload: int, declared: str | None
) -> int:
    """Return the priority of a job that names no class."""
    of_kind = "" if classes.is_default(pod.priority_class) else member.rule.priority_class
    return classes.value(class_of(workload, declared, of_kind))
