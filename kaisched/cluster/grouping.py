"""Finds the job of a pod: the group that it names, or else the workload that owns it.

An owner counts only if the reference's UID is that of an object that is there under that name: a
pod cannot join a gang by naming it. Owners that are not known yet are looked at when they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec import structs

from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.pods import PodRow
from kaisched.core.titles import TopOwner
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.gangs import GANG_API, GANG_API_KIND, GANG_API_PLURAL, KNOWN, SPARK, needed_by
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import ObjectMeta, OwnerReference
from kaisched.objects.workloads import Gang, Table, Workload, segment_of

_MAX_CHAIN: Final = 10
_POD: Final = Workload("v1", "pods", "Pod", "through")
_ALONE: Final = Workload("v1", "pods", "Pod", "each")
_SPARK: Final = Workload("v1", "pods", "Pod", role_labels=(labels.SPARK_ROLE,))
_BY_NAME: Final = Workload(f"{GANG_API}/v1", GANG_API_PLURAL, GANG_API_KIND)
_ONE: Final = Gang()
_MAKE_ONE: Final = (("ray.io", "RayJob"),)
"""Kinds whose objects own one job each, of another name: it needs none beside its owner's."""
_BUILT_IN: Final = ("", "apps", "batch")
"""API groups of owners whose pods Kubernetes itself makes: an admission policy checks the templates
of these too, but of operators' kinds the labels of the object alone."""
_QUEUE_FIX: Final = (
    f"put one queue into the label {labels.QUEUE} of what was written first, and of all that is"
    " made from it"
)
_NOBODY: Final = TopOwner("", "", "")


@dataclass(frozen=True, slots=True)
class Owner:
    """A workload that owns pods, or owns what owns them; or a group of Kubernetes' own gang API."""

    api_group: str
    kind: str
    meta: ObjectMeta
    gang: Gang = _ONE
    """As its spec says."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The job a pod belongs to, and what that was read from."""

    job: str
    """``namespace/name``"""
    is_declared: bool = False
    """The pod names its pod group itself."""
    rule: Workload = _ALONE
    metas: tuple[ObjectMeta, ...] = ()
    """Of the owners from the outermost in, then of the pod: the first that says it counts."""
    owner_uids: tuple[str, ...] = ()
    """Of all owners looked for, those not found included; also keys of named groups."""
    gang: Gang = _ONE
    """As the spec of the workload says."""
    subgroup: str = ""
    """By the labels that the rule names."""
    fault: str = ""
    """Why it is in no valid group."""
    is_single: bool = False
    """The pod is a job of its own."""
    outer: int = 0
    """How many of the metadata are of the owner that the rule is about and of those around it."""
    missing: str = ""
    """The owner that may make it a gang and is not known yet; empty for none."""
    top_owner: TopOwner = _NOBODY
    """What the job comes from, without who submitted it."""

    @property
    def is_named(self) -> bool:
        """Whether the pod names a group of Kubernetes' own gang API."""
        return self.rule is _BY_NAME


class _Link(NamedTuple):
    """One step of an owner chain."""

    reference: OwnerReference
    owner: Owner | None
    """None while it is not known."""

    @property
    def key(self) -> tuple[str, str]:
        """API group and kind."""
        return self.reference.group_kind


class Grouper:
    """The known workloads, by UID, and the jobs of the pods that they own."""

    def __init__(
        self,
        table: Table = KNOWN,
        pod_of: Callable[[str], PodRow | None] = lambda _: None,
        *,
        checks_queues: bool = False,
    ) -> None:
        """Start without workloads.

        Args:
            table: how the pods of each kind are grouped.
            pod_of: returns a pod by ``namespace/name``, for pods that own pods.
            checks_queues: whether a pod is in a job only if both name the same queue.

        """
        self._checks_queues = checks_queues
        self._queue_of_group: dict[str, str] = {}
        """Of pod groups, by how pods know them; only if queues are checked."""
        self._table = {**table, ("", "Pod"): _POD}
        self._pod_of = pod_of
        self._by_label = [row for row in table.values() if row.name_label]
        named = (_BY_NAME, *self._by_label)
        self._named_kinds = {(row.api_group, row.kind) for row in named}
        self._owner: dict[str, Owner] = {}
        self._named: dict[str, Owner] = {}
        self._independent: dict[str, ObjectMeta] = {}
        """Pod groups whose pods are jobs of their own."""

    def put(self, owner: Owner) -> tuple[str, ...]:
        """Add or replace a workload; return the names by which affected pods refer to it."""
        uid, key = owner.meta.uid, self._key(owner)
        if not uid or self._owner.get(uid) == owner:
            return ()
        self._owner[uid] = owner
        if key:
            self._named[key] = owner
        return (uid, key) if key else (uid,)

    def remove(self, uid: str) -> tuple[str, ...]:
        """Drop a workload; return the names by which affected pods refer to it."""
        owner = self._owner.pop(uid, None)
        if owner is None:
            return ()
        key = self._key(owner)
        if key and self._named.get(key) is owner:
            del self._named[key]
        return (uid, key) if key else (uid,)

    def membership(self, pod: PodRow) -> Membership:
        """Return the job of a pod."""
        member = self._said_by(pod)
        return self._checked(pod, member) if self._checks_queues else member

    def _said_by(self, pod: PodRow) -> Membership:
        """Return the job of a pod, whatever queues it and its job name."""
        name = labels.pod_group_of(pod.meta)
        if name is not None:
            return self._declared(pod, f"{pod.namespace}/{name}")
        chain, uids = self._chain(pod.meta)
        owners = [link.owner.meta for link in reversed(chain) if link.owner is not None]
        if pod.scheduling_group:
            key = _group_key(GANG_API, pod.namespace, pod.scheduling_group)
            named = self._named.get(key)
            if named is None or not (named.gang.is_each or self._covers(chain, named.gang)):
                return self._named_group(pod, owners, uids, _BY_NAME, pod.scheduling_group)
            # It says nothing about a gang, or less: the owners say, the pod, and then the group.
            pod, uids = _with_defaults(pod, named), (*uids, key)
        for rule in self._by_label:
            if group := pod.meta.labels.get(rule.name_label):
                return self._named_group(pod, owners, uids, rule, group)
        member = self._owned(pod, chain, (*owners, pod.meta), uids)
        return replace(member, missing=self._missing_in(chain))

    def _covers(self, chain: list[_Link], gang: Gang) -> bool:
        """Tell whether the owners' gang needs as many pods as a group of the gang API."""
        top, _ = _group_of(chain, self._table)
        if top is None or top.owner is None or gang.node_label or gang.unsupported:
            return False
        needed = needed_by(top.owner.gang)
        for link in chain:  # of annotations the outermost counts
            if link.owner is not None:
                with suppress(ObjectError):  # which is told where the job is read
                    needed = labels.batch_min_member_of(link.owner.meta) or needed
        return needed >= max(gang.minimum, 2)

    def top_owner_of(self, group: ObjectMeta) -> TopOwner:
        """Return what a PodGroup comes from: itself, or what owns it if a controller made it."""
        references = group.owner_references
        reference = next((it for it in references if it.controller), next(iter(references), None))
        if reference is None:
            return TopOwner(PodGroup.KIND, group.namespace, group.name)
        owner = self._find(reference, group.namespace)
        chain = [] if owner is None else self._chain(owner.meta)[0]
        return _topmost(chain, group.namespace, reference.kind, reference.name)._replace(part="")

    def _missing_in(self, chain: list[_Link]) -> str:
        """Return the owner that may make pods a gang and is not known yet; empty for none."""
        last = chain[-1] if chain else None
        if last is None or last.owner is not None or last.key not in self._table:
            return ""
        return f"{last.reference.kind} {last.reference.name}"

    def record_group(self, key: str, group: PodGroup | None) -> tuple[str, ...]:
        """Record what of a pod group decides the jobs of its pods; return its key if that changed.

        It does if its pods are independent, and by its queue if queues are checked.
        """
        meta, queue = None, None
        if group is not None and labels.has_independent_pods(group.metadata):
            meta = _said_by_labels(group)
        if group is not None and self._checks_queues:
            queue = group.spec.queue or labels.queue_of(group.metadata) or labels.DEFAULT_QUEUE
        name = f"{PodGroup.KIND} {key}"
        if (self._independent.get(key), self._queue_of_group.get(name)) == (meta, queue):
            return ()
        set_or_drop(self._independent, key, meta)
        set_or_drop(self._queue_of_group, name, queue)
        return (name,)

    def _checked(self, pod: PodRow, member: Membership) -> Membership:
        """Return the job of a pod if its author may use the queue; else the pod alone, refused.

        Admission has checked the right to the queues in labels of pods, owners and groups, and in
        templates of built-in kinds. What it has not seen are templates of operators' kinds, and
        what belongs to what: so the owner that a person wrote has to name the queue, and all the
        others the same one.
        """
        chain, uids = self._chain(pod.meta)
        uids = tuple(dict.fromkeys((*member.owner_uids, *uids)))
        member = replace(member, owner_uids=uids, missing=self._missing_in(chain))
        owners = [link.owner for link in reversed(chain) if link.owner is not None]
        named = [(f"{it.kind} {it.meta.name}", it.meta.labels.get(labels.QUEUE)) for it in owners]
        is_named = any(queue for _, queue in named)
        named.append(("the pod", pod.meta.labels.get(labels.QUEUE)))
        group = self._group_queue(member)
        fault = ""
        if owners and owners[0].api_group not in _BUILT_IN and not named[0][1]:
            fault = f"{named[0][0]} has no label {labels.QUEUE}"
        elif group and not any(queue for _, queue in named):
            fault = f"the pod has no label {labels.QUEUE}, and its group has queue {group!r}"
        elif not group and not any(queue for _, queue in named):
            older = next(filter(None, map(labels.queue_of, member.metas)), None)
            fault = "" if older is None else f"queue {older!r} is named by an older label only"
        said = [("its group", group), *named]
        first, *others = [it for it in said if it[1]] or [("", "")]
        other = next((it for it in others if it[1] != first[1]), None)
        if other is not None:
            fault = f"{first[0]} names queue {first[1]!r}, and {other[0]} {other[1]!r}"
        if fault:
            fault += f"; {_QUEUE_FIX}"
            return replace(_alone(pod, _ALONE, (pod.meta,), uids, chain), fault=fault)
        if is_named or group or member.is_single or not first[1]:
            return member
        return replace(member, job=f"{member.job}-{first[1]}")

    def _group_queue(self, member: Membership) -> str:
        """Return the queue of the group that a pod names itself; empty for none."""
        keys = member.owner_uids
        declared = (self._queue_of_group[key] for key in keys if key in self._queue_of_group)
        by_name = (it.meta.labels.get(labels.QUEUE) for key in keys if (it := self._named.get(key)))
        return next(filter(None, (*declared, *by_name)), "")

    def _declared(self, pod: PodRow, key: str) -> Membership:
        """Return the job of a pod that names a PodGroup: it is one by itself if pods there are."""
        group, uids = self._independent.get(key), (f"{PodGroup.KIND} {key}",)
        if group is not None:
            return _alone(pod, _BY_NAME, (group, pod.meta), uids, self._chain(pod.meta)[0])
        owner = TopOwner(PodGroup.KIND, *key.split("/", 1))
        metas = (pod.meta,)
        return Membership(key, is_declared=True, metas=metas, owner_uids=uids, top_owner=owner)

    def _owned(
        self, pod: PodRow, chain: list[_Link], metas: tuple[ObjectMeta, ...], uids: tuple[str, ...]
    ) -> Membership:
        """Return the job of a pod that names no group itself."""
        top, rule = _group_of(chain, self._table)
        if top is not None and any(map(labels.has_independent_pods, metas)):
            return _alone(pod, rule, metas, uids, chain)
        if top is not None:
            return _of_owner(pod, chain, top, rule, metas, uids)
        app = pod.meta.labels.get(labels.SPARK_APP)
        if app:
            gang = SPARK if _has_driver(pod, chain) else _ONE
            return Membership(
                f"{pod.namespace}/pg-spark-app-{app}",
                rule=_SPARK,
                metas=metas,
                owner_uids=uids,
                gang=gang,
                subgroup=_subgroup(pod.meta, _SPARK, gang),
                top_owner=_topmost(chain, pod.namespace, "Pod", pod.meta.name)._replace(part=""),
            )
        return _alone(pod, rule, metas, uids, chain)

    def _key(self, owner: Owner) -> str:
        """Return what pods name a workload by that do not know its UID; empty if they must."""
        if (owner.api_group, owner.kind) not in self._named_kinds:
            return ""
        return _group_key(owner.api_group, owner.meta.namespace, owner.meta.name)

    def _named_group(
        self,
        pod: PodRow,
        owners: list[ObjectMeta],
        uids: tuple[str, ...],
        rule: Workload,
        name: str,
    ) -> Membership:
        """Return the job of a pod that names its group itself, in its spec or by a rule's label."""
        key = _group_key(rule.api_group, pod.namespace, name)
        group, uids = self._named.get(key), (*uids, key)
        if group is None:
            label = f"metadata.labels[{rule.name_label!r}]"
            where = label if rule.name_label else "spec.schedulingGroup.podGroupName"
            fault = (
                f"{where}: {rule.kind} {pod.namespace}/{name} of {rule.api_group}"
                " does not exist, or is not read; make it, or see kaisched doctor"
            )
            return Membership(
                f"{pod.namespace}/pg-{name}-{rule.api_group}",
                rule=rule,
                metas=(*owners, pod.meta),
                owner_uids=uids,
                fault=fault,
                top_owner=TopOwner(rule.kind, pod.namespace, name),
            )
        metas = (group.meta, *owners, pod.meta)
        if group.gang.is_each:
            return _alone(pod, rule, metas, uids, self._chain(pod.meta)[0], group.gang)
        return Membership(
            f"{pod.namespace}/pg-{group.meta.name}-{group.meta.uid}",
            rule=rule,
            metas=metas,
            owner_uids=uids,
            gang=group.gang,
            subgroup=_subgroup(pod.meta, rule, group.gang),
            outer=1,
            top_owner=_topmost(
                self._chain(group.meta)[0], pod.namespace, rule.kind, group.meta.name
            ),
        )

    def _chain(self, meta: ObjectMeta) -> tuple[list[_Link], tuple[str, ...]]:
        chain: list[_Link] = []
        uids: list[str] = []
        namespace, at = meta.namespace, meta
        while len(chain) < _MAX_CHAIN:
            reference = next((one for one in at.owner_references if one.controller), None)
            if reference is None or not reference.uid or reference.uid in uids:
                break
            uids.append(reference.uid)
            owner = self._find(reference, namespace)
            if owner is not None and not _is_meant(reference, owner, namespace):
                break
            chain.append(_Link(reference, owner))
            if owner is None:
                break
            at = owner.meta
        return chain, tuple(uids)

    def _find(self, reference: OwnerReference, namespace: str) -> Owner | None:
        if reference.kind == _POD.kind and reference.api_version == _POD.api_version:
            pod = self._pod_of(f"{namespace}/{reference.name}")
            is_it = pod is not None and pod.meta.uid == reference.uid
            return Owner("", _POD.kind, pod.meta) if is_it and pod is not None else None
        return self._owner.get(reference.uid)


class Dependents:
    """The pods whose job depends on owners, which may come later, change, or go; by owner."""

    def __init__(self) -> None:
        """Begin without pods."""
        self._of_owner: dict[str, set[str]] = {}

    def __contains__(self, uid: str) -> bool:
        """Tell whether a pod depends on an owner."""
        return uid in self._of_owner

    def of(self, owners: Iterable[str]) -> list[str]:
        """Return the pods that depend on one of these owners, by name."""
        return sorted({key for owner in owners for key in self._of_owner.get(owner, ())})

    def watch(self, key: str, old: Membership | None, new: Membership | None) -> None:
        """Record the owners on which a pod depends now."""
        before = set(old.owner_uids) if old else set()
        after = set(new.owner_uids) if new else set()
        for uid in after - before:
            self._of_owner.setdefault(uid, set()).add(key)
        for uid in before - after:
            pods = self._of_owner.get(uid, set())
            pods.discard(key)
            if not pods:
                self._of_owner.pop(uid, None)


def _group_of(chain: list[_Link], table: Table) -> tuple[_Link | None, Workload]:
    """Return the owner whose pods are one job, if any, and the rule: the outermost that has one."""
    top, rule = None, _ALONE
    for link in chain:
        of_kind = table.get(link.key)
        if of_kind is None:
            break
        if of_kind.pods != "through":
            is_each = link.owner is not None and link.owner.gang.is_each
            top, rule = (None if is_each or of_kind.pods == "each" else link), of_kind
    return top, rule


def _topmost(chain: Sequence[_Link], namespace: str, kind: str, name: str) -> TopOwner:
    """Return the topmost owner in the chain above an object, or else the object.

    It says which object it is, if the owner may have several.
    """
    if not chain:
        return TopOwner(kind, namespace, name)
    top = chain[-1].reference
    is_only = name == top.name or chain[-1].key in _MAKE_ONE
    return TopOwner(top.kind, namespace, top.name, "" if is_only else name)


def _of_owner(
    pod: PodRow,
    chain: list[_Link],
    top: _Link,
    rule: Workload,
    metas: tuple[ObjectMeta, ...],
    uids: tuple[str, ...],
) -> Membership:
    reference, owner = top
    job = f"{pod.namespace}/pg-{reference.name}-{reference.uid or reference.kind.lower()}"
    fault, name = "", reference.name
    if rule.index_label:
        try:
            index = labels.index_of(pod.meta, rule.index_label)
            fault = "" if index is not None else f"has no label {rule.index_label}"
        except ObjectError as error:
            index, fault = None, str(error)
        name = pod.meta.name if index is None else f"{name}-{index}"
        job += f"-{pod.meta.name if index is None else index}"
    gang = _ONE if owner is None else owner.gang
    return Membership(
        job,
        rule=rule,
        metas=metas,
        owner_uids=uids,
        gang=gang,
        subgroup=_subgroup(pod.meta, rule, gang),
        fault=fault,
        outer=sum(link.owner is not None for link in chain[chain.index(top) :]),
        top_owner=_topmost(chain, pod.namespace, reference.kind, name),
    )


def _has_driver(pod: PodRow, chain: list[_Link]) -> bool:
    """Tell whether the driver of a Spark application is a pod: it owns the executors.

    A pod that is known and is no driver is one in which a person has started the application.
    """
    role = pod.meta.labels.get(labels.SPARK_ROLE)
    if not chain or chain[0].key != ("", _POD.kind):
        return role == "driver"
    owner = chain[0].owner
    return owner is None or owner.meta.labels.get(labels.SPARK_ROLE) == "driver"


def _subgroup(meta: ObjectMeta, rule: Workload, gang: Gang) -> str:
    """Return the subgroup of a pod by its labels, empty if they do not say it."""
    if rule.role_labels:
        roles = {part.name for part in gang.sub_groups if not part.parent}
        said = (meta.labels.get(key) for key in rule.role_labels)
        name = next((role for role in said if role in roles), None) or ""
    else:
        parts = [meta.labels.get(key, "") for key in rule.subgroup_labels]
        name = "/".join(parts) if all(parts) else ""
    if not gang.segments:
        return name
    if not rule.subgroup_labels and not rule.role_labels:
        name = next(iter(gang.segments))
    segments = gang.segments.get(name)
    if segments is None:
        return name
    try:
        index = labels.index_of(meta, rule.segment_label)
        pods = labels.size_of(meta, rule.size_annotation) if rule.size_annotation else None
    except ObjectError:
        return ""
    if index is None:
        return ""
    return segment_of(structs.replace(segments, pods=pods or segments.pods), name, index)


def _alone(
    pod: PodRow,
    rule: Workload,
    metas: tuple[ObjectMeta, ...],
    uids: tuple[str, ...],
    chain: Sequence[_Link],
    gang: Gang = _ONE,
) -> Membership:
    """Return the job of a pod by itself."""
    return Membership(
        f"{pod.namespace}/pg-{pod.meta.name}-{pod.meta.uid or 'pod'}",
        rule=rule,
        metas=metas,
        owner_uids=uids,
        gang=gang,
        is_single=True,
        top_owner=_topmost(chain, pod.namespace, "Pod", pod.meta.name),
    )


def _with_defaults(pod: PodRow, group: Owner) -> PodRow:
    """Return a pod with what the labels and annotations of a group say where its own do not."""
    cls = group.gang.priority_class
    said = {**({labels.PRIORITY_CLASS: cls} if cls else {}), **group.meta.labels}
    meta = structs.replace(
        pod.meta,
        labels={**said, **pod.meta.labels},
        annotations={**group.meta.annotations, **pod.meta.annotations},
    )
    return replace(pod, meta=meta)


def _said_by_labels(group: PodGroup) -> ObjectMeta:
    """Return the metadata of a pod group, with labels and annotations for what its spec says."""
    spec, meta = group.spec, group.metadata
    said = {
        labels.QUEUE: spec.queue,
        labels.PRIORITY_CLASS: spec.priority_class_name,
        labels.PREEMPTIBILITY: spec.preemptibility,
    }
    delay = {} if (it := spec.preemption_delay) is None else {labels.PREEMPTION_DELAY: str(it)}
    return structs.replace(
        meta,
        labels={**meta.labels, **{key: text for key, text in said.items() if text}},
        annotations={**meta.annotations, **delay},
    )


def _group_key(api_group: str, namespace: str, name: str) -> str:
    return f"{api_group} {namespace}/{name}"  # a space: no UID looks like it


def _is_meant(reference: OwnerReference, owner: Owner, namespace: str) -> bool:
    return (
        (owner.api_group, owner.kind) == reference.group_kind
        and owner.meta.name == reference.name
        and owner.meta.namespace == namespace
    )
