"""The kinds that are watched: their paths, how they are read, and whether they are required."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, get_origin

import msgspec

from kaisched.errors import ObjectError
from kaisched.objects.decode import ListAnswer, WatchEvent, decode_event, decode_list
from kaisched.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kaisched.objects.gangs import GANG_API_VERSIONS, WORKLOADS, gang_api_row, gang_of
from kaisched.objects.kueue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
)
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import BAD_JSON, KubernetesObject, ObjectMeta
from kaisched.objects.workloads import PartialObject, PriorityClass, Workload

Seen: TypeAlias = KubernetesObject | PartialObject
"""An object as a reflector reads it: whole, or only the metadata of an owner."""

_WHOLE: Final = "application/json"
_META: Final = "application/json;as={};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Watched:
    """One watched kind."""

    api_version: str
    plural: str
    kind: str
    is_required: bool
    """Nothing is decided before a required kind was read; other kinds may be missing."""
    list_accept: str
    watch_accept: str
    read_list: Callable[[bytes], ListAnswer[Any]]
    read_event: Callable[[bytes], WatchEvent[Any]]
    stub: Callable[[str, str, str], Seen]
    """Make an object from (namespace, name, UID), to report that it is gone."""
    others: tuple[Watched, ...] = ()
    """The same kind in other versions, to be tried if this one is not served."""

    @property
    def path(self) -> str:
        """The URL path of all objects of the kind, in every namespace."""
        root = "apis" if "/" in self.api_version else "api"
        return f"/{root}/{self.api_version}/{self.plural}"

    @property
    def group_kind(self) -> tuple[str, str]:
        """The API group, empty for the core group, and the kind."""
        return self.api_version.rpartition("/")[0], self.kind

    @property
    def qualified(self) -> str:
        """The plural with the API group, as in access rules."""
        group, _, _ = self.api_version.rpartition("/")
        return f"{self.plural}.{group}" if group else self.plural


def _least(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Return an object of which nothing is known: empty values of the fields that it must have."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(type_):
        if field.required:
            inner = get_origin(field.type) or field.type
            is_struct = issubclass(inner, msgspec.Struct)
            found[field.encode_name] = _least(inner) if is_struct else inner()
    return found


def whole(type_: type[KubernetesObject], plural: str, *, is_required: bool = False) -> Watched:
    """Return a kind that is read whole, with the fields of its struct."""

    def stub(namespace: str, name: str, uid: str) -> KubernetesObject:
        meta = {"namespace": namespace, "name": name, "uid": uid}
        return msgspec.convert({**_least(type_), "metadata": meta}, type_)

    return Watched(
        type_.API_VERSION,
        plural,
        type_.KIND,
        is_required,
        _WHOLE,
        _WHOLE,
        lambda data: decode_list(data, type_),
        lambda line: decode_event(line, type_),
        stub,
    )


def owner(row: Workload) -> Watched:
    """Return a kind of workload: its metadata are read, and for some kinds the size of the gang."""
    kind, api_version = row.kind, row.api_version

    def named(obj: _Owner) -> PartialObject:
        gang = gang_of(row.read, obj.spec, obj.metadata.annotations)
        return PartialObject(metadata=obj.metadata, api_version=api_version, kind=kind, gang=gang)

    def read_list(data: bytes) -> ListAnswer[Any]:
        try:
            answer = _METAS.decode(data)
        except BAD_JSON as error:
            raise ObjectError(f"no list: {error}", kind=kind) from None
        meta = answer.metadata
        objects: list[Any] = [named(obj) for obj in answer.items or ()]
        return ListAnswer(objects, [], meta.resource_version, meta.continue_)

    def read_event(line: bytes) -> WatchEvent[Any]:
        event = bare_event(line)
        return event if event.object is None else event._replace(object=named(event.object))

    def stub(namespace: str, name: str, uid: str) -> PartialObject:
        meta = {"namespace": namespace, "name": name, "uid": uid}
        return named(msgspec.convert({"metadata": meta}, _Owner))

    return Watched(
        api_version,
        row.plural,
        kind,
        False,
        _WHOLE if row.read else _META.format("PartialObjectMetadataList"),
        _WHOLE if row.read else _META.format("PartialObjectMetadata"),
        read_list,
        read_event,
        stub,
        tuple(owner(replace(row, api_version=it, other_versions=())) for it in row.other_versions),
    )


def bare_event(line: bytes) -> WatchEvent[Any]:
    """Return a watch event with only the metadata of its object.

    Raises:
        ObjectError: the line is no event, or has no object.

    """
    try:
        event = _META_EVENTS.decode(line)
        if event.type in {"ERROR", "BOOKMARK"}:
            return decode_event(line, Pod)
        obj: Any = msgspec.json.decode(event.object, type=_Owner)
    except BAD_JSON as error:
        raise ObjectError(f"no watch event: {error}") from None
    return WatchEvent(event.type, obj, obj.metadata.resource_version, {})


class _Owner(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: Any = None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _MetaList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[_Owner] | None = None


class _MetaEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_METAS: Final = msgspec.json.Decoder(_MetaList)
_META_EVENTS: Final = msgspec.json.Decoder(_MetaEvent)

PODS: Final = whole(Pod, "pods", is_required=True)
NODES: Final = whole(Node, "nodes", is_required=True)
QUEUES: Final = whole(Queue, "queues", is_required=True)
POD_GROUPS: Final = whole(PodGroup, "podgroups")
STORAGE: Final = (
    whole(StorageClass, "storageclasses"),
    whole(PersistentVolume, "persistentvolumes"),
    whole(PersistentVolumeClaim, "persistentvolumeclaims"),
)
"""Pods wait for their claims only if all of these kinds can be read."""
DISRUPTION_BUDGETS: Final = whole(PodDisruptionBudget, "poddisruptionbudgets")
SHARDS: Final = whole(SchedulingShard, "schedulingshards")

OWNERS: Final = tuple(owner(row) for row in WORKLOADS)


def _in_all_versions(type_: type[KubernetesObject], plural: str) -> Watched:
    """Return a kind in all versions that are read, the newest first."""
    newest = whole(type_, plural)
    return replace(
        newest, others=tuple(replace(newest, api_version=it) for it in type_.OTHER_VERSIONS)
    )


KUEUE: Final = (
    _in_all_versions(WorkloadPriorityClass, "workloadpriorityclasses"),
    _in_all_versions(ResourceFlavor, "resourceflavors"),
    _in_all_versions(Cohort, "cohorts"),
    _in_all_versions(ClusterQueue, "clusterqueues"),
    _in_all_versions(LocalQueue, "localqueues"),
)
"""Kueue's kinds, which are watched only if the settings say so."""

DEVICES: Final = (
    _in_all_versions(DeviceClass, "deviceclasses"),
    _in_all_versions(ResourceSlice, "resourceslices"),
    _in_all_versions(ResourceClaim, "resourceclaims"),
)
"""Pods wait for their claims on devices until all of these kinds can be read; they are watched only
if a shard allocates claims."""
CLAIMS: Final = DEVICES[-1]
TAINT_RULES: Final = _in_all_versions(DeviceTaintRule, "devicetaintrules")
"""Watched with them; many servers do not serve it, and then there are no rules."""
SHARE_TEMPLATES: Final = _in_all_versions(ResourceClaimTemplate, "resourceclaimtemplates")
"""Watched only if shares of GPUs are claims in a shard, which makes those that are missing."""

TOPOLOGIES: Final = whole(Topology, "topologies")


def kinds_with(
    owners: Iterable[Watched],
    *,
    is_deleting: bool = False,
    has_kueue: bool = False,
    has_claims: bool = False,
    has_share_claims: bool = False,
) -> tuple[Watched, ...]:
    """Return all kinds that are watched, with these kinds of workloads.

    Owners and classes come first: pods that come before their owners are processed twice. If
    victims are deleted (``is_deleting``), disruption budgets do not count and are not read.
    """
    return (
        whole(PriorityClass, "priorityclasses", is_required=True),
        QUEUES,
        *(KUEUE if has_kueue else ()),
        TOPOLOGIES,
        NODES,
        *owners,
        POD_GROUPS,
        *(() if is_deleting else (DISRUPTION_BUDGETS,)),
        *STORAGE,
        *((*DEVICES, TAINT_RULES) if has_claims else ()),
        *((SHARE_TEMPLATES,) if has_share_claims else ()),
        PODS,
    )


ALL: Final = kinds_with(OWNERS)
GANG_GROUPS: Final = tuple(owner(row) for it in GANG_API_VERSIONS if (row := gang_api_row({it})))
"""Groups of Kubernetes' own gang API in every version that can be read; at most one is watched."""
