"""The kinds that are watched: their paths, how they are read, and the rights that this needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias, get_origin

import msgspec

from kaisched.cluster.kubernetes.client import Client
from kaisched.errors import ClusterUnavailable, ConfigError, ObjectError
from kaisched.objects.decode import ListAnswer, WatchEvent, decode_event, decode_list
from kaisched.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kaisched.objects.gangs import (
    GANG_API,
    GANG_API_PLURAL,
    GANG_API_VERSIONS,
    KNOWN,
    WORKLOADS,
    gang_api_row,
    gang_of,
)
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
from kaisched.objects.workloads import PartialObject, PriorityClass, Table, Workload

# -- kinds -----------------------------------------------------------------------------------------

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
    for each in msgspec.structs.fields(type_):
        if each.required:
            inner = get_origin(each.type) or each.type
            is_struct = issubclass(inner, msgspec.Struct)
            found[each.encode_name] = _least(inner) if is_struct else inner()
    return found


def whole(type_: type[KubernetesObject], plural: str, *, is_required: bool = False) -> Watched:
    """Return a kind that is read whole, with the fields of its struct; the newest version first."""

    def stub(namespace: str, name: str, uid: str) -> KubernetesObject:
        meta = {"namespace": namespace, "name": name, "uid": uid}
        return msgspec.convert({**_least(type_), "metadata": meta}, type_)

    newest = Watched(
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
    others = tuple(replace(newest, api_version=it) for it in type_.OTHER_VERSIONS)
    return replace(newest, others=others)


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


KUEUE: Final = (
    whole(WorkloadPriorityClass, "workloadpriorityclasses"),
    whole(ResourceFlavor, "resourceflavors"),
    whole(Cohort, "cohorts"),
    whole(ClusterQueue, "clusterqueues"),
    whole(LocalQueue, "localqueues"),
)
"""Kueue's kinds, which are watched only if the settings say so."""

DEVICES: Final = (
    whole(DeviceClass, "deviceclasses"),
    whole(ResourceSlice, "resourceslices"),
    whole(ResourceClaim, "resourceclaims"),
)
"""Pods wait for their claims on devices until all of these kinds can be read; they are watched only
if a shard allocates claims."""
CLAIMS: Final = DEVICES[-1]
TAINT_RULES: Final = whole(DeviceTaintRule, "devicetaintrules")
"""Watched with them; many servers do not serve it, and then there are no rules."""
SHARE_TEMPLATES: Final = whole(ResourceClaimTemplate, "resourceclaimtemplates")
"""Watched only if shares of GPUs are claims in a shard, which makes those that are missing."""

TOPOLOGIES: Final = whole(Topology, "topologies")


GANG_GROUPS: Final = tuple(owner(row) for it in GANG_API_VERSIONS if (row := gang_api_row({it})))
"""Groups of Kubernetes' own gang API in every version that can be read; at most one is watched."""


# -- which kinds are watched -----------------------------------------------------------------------

_UNAUTHORIZED, _FORBIDDEN, _ABSENT, _GONE = 401, 403, 404, 410


class AccountUnknownError(ClusterUnavailable):
    """The server does not know our account."""


def watched_kinds(
    tables: Iterable[Table],
    gangs: Workload | None,
    *,
    is_deleting: bool = False,
    has_kueue: bool = False,
    has_claims: bool = False,
    has_share_claims: bool = False,
) -> tuple[Watched, ...]:
    """Return all kinds to watch for the shards of a process.

    Owners and classes come first: pods that come before their owners are processed twice.

    Args:
        tables: the workloads of each shard.
        gangs: the row of Kubernetes' own gang API; None without it.
        is_deleting: victims are deleted, not evicted, so that budgets do not count.
        has_kueue: Kueue's objects are read.
        has_claims: a shard allocates claims on devices.
        has_share_claims: in a shard shares of GPUs are claims.

    Raises:
        ConfigError: two shards read one kind in different ways; an object is read once for all.

    """
    rows: dict[tuple[str, str], Workload] = {}
    for table in tables:
        for key, row in table.items():
            other = rows.setdefault(key, row)
            if _reading(other) != _reading(row):
                raise ConfigError(
                    f"two shards read {row.kind} of {row.api_group} in different ways",
                    path="spec.plugins",
                    fix="make their plugins read it in one way, or run a process for each shard",
                )
    owners = [owner(row) for row in rows.values()]
    owners += [] if gangs is None else [owner(gangs)]
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


def _reading(row: Workload) -> tuple[object, ...]:
    return row.api_version, row.plural, row.read, row.other_versions


ALL: Final = watched_kinds([KNOWN], None)


def find_gang_api(client: Client) -> Workload | None:
    """Return the row of Kubernetes' own gang API in the best served version; None for none.

    Raises:
        ClusterUnavailable: the server does not list its API.
        AccountUnknownError: the server does not know our account.

    """
    path = f"/apis/{GANG_API}"
    versions = {str(it.get("version", "")) for it in _asked(client, path, "versions")}
    serving = {
        version
        for version in versions & {*GANG_API_VERSIONS}
        if GANG_API_PLURAL in {it.get("name") for it in _asked(client, f"{path}/{version}")}
    }
    return gang_api_row(serving)


def _asked(client: Client, path: str, part: str = "resources") -> list[dict[str, Any]]:
    answer = client.call("GET", path)
    if answer.code in {_ABSENT, _FORBIDDEN}:
        return []
    if not answer.is_done:
        wrong = AccountUnknownError if answer.code == _UNAUTHORIZED else ClusterUnavailable
        raise wrong(f"the server does not say what it serves: {answer.text()}")
    try:
        found = msgspec.json.decode(answer.data)
    except BAD_JSON as error:
        raise ClusterUnavailable(f"an answer is no JSON: {error}") from error
    listed = found.get(part) if isinstance(found, dict) else None
    return [it for it in listed or () if isinstance(it, dict)]


# -- rights ----------------------------------------------------------------------------------------
# ``deploy/requests.yaml`` lists the same for the roles; a test compares them.


class Right(NamedTuple):
    """One verb on one resource; a subresource is written ``pods/binding``."""

    group: str
    resource: str
    verb: str

    @property
    def text(self) -> str:
        """The right in words, such as ``list queues.scheduling.run.ai``."""
        resource, _, part = self.resource.partition("/")
        name = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {name}{'/' if part else ''}{part}"


def to_watch(kind: Watched) -> tuple[Right, ...]:
    """Return the rights to list and watch a kind, in any version."""
    group, _, _ = kind.api_version.rpartition("/")
    return tuple(Right(group, kind.plural, verb) for verb in ("list", "watch"))


_RUN: Final = "scheduling.run.ai"
_DEVICES: Final = "resource.k8s.io"
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "read": (
        *(right for kind in (*ALL, SHARDS, GANG_GROUPS[0]) for right in to_watch(kind)),
        Right("", "pods", "get"),
        Right("", "persistentvolumeclaims", "get"),
        Right("", "persistentvolumes", "get"),
    ),
    "review": (
        Right("authentication.k8s.io", "tokenreviews", "create"),
        Right("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    "write": (
        Right("", "pods/binding", "create"),
        Right("", "pods/eviction", "create"),
        Right("", "pods/status", "patch"),
        Right("", "persistentvolumeclaims", "patch"),
        Right("", "persistentvolumes", "patch"),
        Right(_RUN, "podgroups/status", "patch"),
        Right(_RUN, "queues/status", "patch"),
        Right("kai.scheduler", "schedulingshards/status", "patch"),
        Right("events.k8s.io", "events", "create"),
    ),
    "lease": (
        Right("coordination.k8s.io", "leases", "get"),
        Right("coordination.k8s.io", "leases", "update"),
    ),
    "sharing": (Right("", "pods", "create"), Right("", "pods", "delete")),
    "lookups": tuple(Right("", "configmaps", verb) for verb in ("create", "get", "update")),
    "kueue": tuple(right for kind in KUEUE for right in to_watch(kind)),
    "claims": (
        *(right for kind in (*DEVICES, TAINT_RULES) for right in to_watch(kind)),
        Right(_DEVICES, "resourceclaims", "create"),
        Right(_DEVICES, "resourceclaims", "delete"),
        Right(_DEVICES, "resourceclaims", "get"),
        Right(_DEVICES, "resourceclaims", "patch"),
        Right(_DEVICES, "resourceclaims/status", "update"),
        Right(_DEVICES, "resourceclaims/binding", "update"),
    ),
    "share-claims": (
        *to_watch(SHARE_TEMPLATES),
        Right(_DEVICES, "resourceclaimtemplates", "create"),
    ),
    "delete": (Right("", "pods", "delete"),),
}
"""Rights by role: reading, authenticating scrapes, writing decisions, the lease in our own
namespace by name, reservation pods in their namespace, which only shards need that share GPUs of a
device plugin, the ConfigMaps in which pods look up their GPU, which only ``configMaps: true`` there
needs, reading Kueue's queues, which only ``kueue: true`` needs, allocating claims on devices, which
only shards with ``resourceClaims: true`` need, making templates of claims, which only shards need
where shares of GPUs are claims, and deleting pods, which no shard needs with
``disruptionBudgets: always`` unless ``evictionMode`` is ``delete``."""


# -- one list of everything, for tools that run once -----------------------------------------------

_PAGE: Final = 500


@dataclass(slots=True)
class Listed:
    """The objects of a cluster, and what could not be read."""

    objects: list[Seen] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """The kinds that could be read, in the form of access rules."""


def list_cluster(client: Client, kinds: Iterable[Watched] = ALL) -> Listed:
    """List all objects of all kinds that are served.

    Raises:
        ClusterUnavailable: the server does not answer, or a required kind may not be read.
        ObjectError: an answer is no list.

    """
    found = Listed()
    for watched in kinds:
        _list(client, watched, found)
    return found


def _list(client: Client, watched: Watched, found: Listed) -> None:
    """List a kind in the first of its versions that is served."""
    for version in (watched, *watched.others):
        if _list_version(client, version, found):
            return


def _list_version(client: Client, watched: Watched, found: Listed) -> bool:
    """List a kind in one version; return False if another version has to be tried."""
    query = {"limit": str(_PAGE)}
    objects: list[Seen] = []
    while True:
        answer = client.call("GET", watched.path, query=query, accept=watched.list_accept)
        if answer.code == _GONE and "limit" in query:
            query, objects = {}, []  # the pages have expired: read all at once
            continue
        if answer.code in {_ABSENT, _FORBIDDEN} and not watched.is_required:
            if answer.code == _FORBIDDEN:
                found.warnings.append(f"{watched.qualified} may not be listed: left out")
            return answer.code == _FORBIDDEN
        if not answer.is_done:
            raise ClusterUnavailable(
                f"{watched.qualified} cannot be listed: {answer.text()}",
                fix="apply deploy/crds" if answer.code == _ABSENT else "see kaisched doctor",
            )
        page = watched.read_list(answer.data)
        found.warnings.extend(f"left out: {problem}" for problem in page.problems)
        objects.extend(page.objects)
        if not page.next_page:
            found.objects.extend(objects)
            found.kinds.add(watched.qualified)
            return True
        query = {**query, "continue": page.next_page}
