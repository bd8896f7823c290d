"""Which job a pod belongs to: what it says itself, or else the workload that made it.

An owner counts only if the reference's UID is that of an object that is there under that name: a
pod cannot join a gang by naming it. Owners that are not known yet are looked at when they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.cluster.priorities import PriorityClasses
from kaisched.cluster.structure import (
    DEFAULT_PODSET,
    DEFAULT_QUEUE,
    NO_TIMING,
    JobRow,
    is_preemptible,
    timing_of,
)
from kaisched.cluster.translate import PodRow, created_s
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.topology_demands import required_of_workload
from kaisched.objects.wire import ObjectMeta, OwnerReference

_MAX_CHAIN: Final = 10


@dataclass(frozen=True, slots=True)
class Rule:
    """How the pods of one kind of workload are grouped."""

    is_per_pod: bool = False
    priority_class: str = ""
    """Where nobody names one."""
    is_seen_through: bool = False
    """Never a group itself; its labels count."""


_RULES: Final = {
    ("batch", "Job"): Rule(),
    ("batch", "CronJob"): Rule(is_seen_through=True),
    ("apps", "StatefulSet"): Rule(),
    ("apps", "ReplicaSet"): Rule(is_per_pod=True, priority_class="inference"),
    ("apps", "Deployment"): Rule(is_per_pod=True, priority_class="inference", is_seen_through=True),
    ("jobset.x-k8s.io", "JobSet"): Rule(),
    ("kubeflow.org", "PyTorchJob"): Rule(),
    ("kubeflow.org", "TFJob"): Rule(),
    ("kubeflow.org", "XGBoostJob"): Rule(),
    ("kubeflow.org", "JAXJob"): Rule(),
    ("kubeflow.org", "MPIJob"): Rule(),
    ("trainer.kubeflow.org", "TrainJob"): Rule(is_seen_through=True),
    ("ray.io", "RayCluster"): Rule(),
    ("ray.io", "RayJob"): Rule(is_seen_through=True),
    ("ray.io", "RayService"): Rule(is_seen_through=True),
    ("argoproj.io", "Workflow"): Rule(is_per_pod=True, is_seen_through=True),
    ("tekton.dev", "TaskRun"): Rule(is_per_pod=True, is_seen_through=True),
    ("tekton.dev", "PipelineRun"): Rule(is_per_pod=True, is_seen_through=True),
}
_ALONE: Final = Rule(is_per_pod=True)


@dataclass(frozen=True, slots=True)
class Owner:
    """A workload that owns pods, or owns what owns them."""

    api_group: str
    kind: str
    meta: ObjectMeta
    minimum: int = 1
    """Pods that must start together, as its spec says."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The job a pod belongs to, and what that was read from."""

    job: str
    """``namespace/name``"""
    is_declared: bool
    """The pod names its pod group itself."""
    rule: Rule = _ALONE
    metas: tuple[ObjectMeta, ...] = ()
    """Of the owners from the outermost in, then of the pod: the first that says it counts."""
    owner_uids: tuple[str, ...] = ()
    """Of all owners looked for, those not found included."""
    minimum: int = 1
    """As the spec of the workload says."""


class Grouper:
    """The workloads that are known, by UID."""

    def __init__(self) -> None:
        """Know none."""
        self._owner: dict[str, Owner] = {}

    def put(self, owner: Owner) -> bool:
        """Add or replace a workload; return whether that may change a group."""
        is_new = self._owner.get(owner.meta.uid) != owner
        if owner.meta.uid and is_new:
            self._owner[owner.meta.uid] = owner
        return bool(owner.meta.uid) and is_new

    def remove(self, uid: str) -> bool:
        """Drop a workload; return whether there was one."""
        return self._owner.pop(uid, None) is not None

    def membership(self, pod: PodRow) -> Membership:
        """Return the job of a pod."""
        name = labels.pod_group_of(pod.meta)
        if name is not None:
            return Membership(f"{pod.namespace}/{name}", is_declared=True, metas=(pod.meta,))
        chain, uids = self._chain(pod.meta)
        rule, base, minimum = _ALONE, (pod.meta.name, pod.meta.uid, "pod"), 1
        for reference, owner in chain:
            of_kind = _RULES.get((_api_group(reference), reference.kind))
            if of_kind is None:
                break
            if not (of_kind.is_per_pod or of_kind.is_seen_through):
                base = (reference.name, reference.uid, reference.kind.lower())
                minimum = 1 if owner is None else owner.minimum
            if not of_kind.is_seen_through:
                rule = of_kind
        owners = [owner.meta for _, owner in chain if owner is not None]
        return Membership(
            job=f"{pod.namespace}/pg-{base[0]}-{base[1] or base[2]}",
            is_declared=False,
            rule=rule,
            metas=(*reversed(owners), pod.meta),
            owner_uids=uids,
            minimum=minimum,
        )

    def _chain(
        self, meta: ObjectMeta
    ) -> tuple[list[tuple[OwnerReference, Owner | None]], tuple[str, ...]]:
        chain: list[tuple[OwnerReference, Owner | None]] = []
        uids: list[str] = []
        namespace, at = meta.namespace, meta
        while len(chain) < _MAX_CHAIN:
            reference = next((one for one in at.owner_references if one.controller), None)
            if reference is None or not reference.uid or reference.uid in uids:
                break
            uids.append(reference.uid)
            owner = self._owner.get(reference.uid)
            if owner is not None and not _is_meant(reference, owner, namespace):
                break
            chain.append((reference, owner))
            if owner is None:
                break
            at = owner.meta
        return chain, tuple(uids)


def derived_job(pod: PodRow, member: Membership, classes: PriorityClasses) -> JobRow:
    """Return the job that a pod without a PodGroup object is in, read from its workload.

    ``pod`` speaks for all pods of the job. A pod that names a pod group which does not exist is in
    a job with a fault.
    """
    fault, declared, minimum = "", None, member.minimum
    if member.is_declared:
        fault = f"pod group {member.job} does not exist"
    elif any(labels.is_grouping_skipped(meta) for meta in member.metas):
        fault = f"left out of grouping ({labels.SKIP_GROUPING}), but in no pod group"
    timing = NO_TIMING
    try:
        timing = timing_of(member.metas)
        for meta in reversed(member.metas):
            declared = labels.preemptibility_of(meta) or declared
            if not member.rule.is_per_pod:
                minimum = labels.batch_min_member_of(meta) or minimum
    except ObjectError as error:
        fault = fault or str(error)
    priority = _priority(pod, member, classes)
    owner = member.metas[-2] if len(member.metas) > 1 and not member.rule.is_per_pod else pod.meta
    return JobRow(
        queue=queue_of(member.metas),
        priority=priority,
        is_preemptible=is_preemptible(declared, priority),
        created_s=created_s(owner),
        podsets=((DEFAULT_PODSET, minimum),),
        timing=timing,
        fault=fault,
        unsupported=next(filter(None, map(required_of_workload, member.metas[:-1])), ""),
    )


def queue_of(metas: Sequence[ObjectMeta]) -> str:
    """Return the queue: by its label on the owners or the pod, or else by the older label."""
    for meta in metas:
        if labels.QUEUE in meta.labels:
            return meta.labels[labels.QUEUE]
    return next((name for meta in metas if (name := labels.queue_of(meta))), DEFAULT_QUEUE)


def _priority(pod: PodRow, member: Membership, classes: PriorityClasses) -> int:
    named = [labels.priority_class_of(meta) for meta in member.metas]
    for name in (*named, pod.priority_class):
        value = classes.find(name) if name else None
        if value is not None:
            return value
    # An API server writes 0 into every pod that names no class: that is not a choice.
    if pod.priority is not None and (pod.priority_class or pod.priority):
        return pod.priority
    value = classes.find(member.rule.priority_class)
    return classes.default if value is None else value


def _api_group(reference: OwnerReference) -> str:
    return reference.api_version.rpartition("/")[0]


def _is_meant(reference: OwnerReference, owner: Owner, namespace: str) -> bool:
    return (
        owner.kind == reference.kind
        and owner.api_group == _api_group(reference)
        and owner.meta.name == reference.name
        and owner.meta.namespace == namespace
    )
