"""The kinds of objects, and the decoder of all of them: plain values, JSON, lists and watch events.

There are two ways with one meaning. JSON of an API server goes straight into structs, which is
fast. JSON refused there, and all texts of people, go through plain values, which gives better
errors. A bad object never spoils the rest of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from kaisched.errors import ObjectError
from kaisched.objects import kueue
from kaisched.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    claim_faults,
    slice_faults,
    template_faults,
)
from kaisched.objects.faults import (
    Fault,
    Source,
    did_you_mean,
    explain,
    is_at,
    nearest,
    to_error,
    without,
    without_unknown,
)
from kaisched.objects.kueue import (
    cluster_queue_faults,
    cohort_faults,
    flavor_faults,
    local_queue_faults,
    workload_class_faults,
)
from kaisched.objects.node import Node, Topology, topology_faults
from kaisched.objects.pod import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
    disruption_budget_faults,
)
from kaisched.objects.podgroup import PodGroup, pod_group_faults
from kaisched.objects.queue import Queue, all_queue_faults
from kaisched.objects.shard import SchedulingShard, shard_faults
from kaisched.objects.wire import BAD_JSON, KubernetesObject
from kaisched.objects.workloads import (
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
    preferred_of_workload,
)

# -- the kinds -------------------------------------------------------------------------------------

KINDS: Final[tuple[type[KubernetesObject], ...]] = (
    Queue,
    PodGroup,
    SchedulingShard,
    Topology,
    Node,
    Pod,
    PriorityClass,
    Job,
    ReplicaSet,
    Deployment,
    StatefulSet,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    *kueue.KINDS,
)
_BY_KIND: Final = {type_.KIND: type_ for type_ in KINDS}
_OWN_GROUPS: Final = ("scheduling.run.ai", "kai.scheduler")
_NOT_OURS: Final = ("BindRequest", "Config")  # KAI's, of no use here
_FAULTS: Final[dict[type[KubernetesObject], Callable[[Any], Iterator[Fault]]]] = {
    Queue: all_queue_faults,
    PodGroup: pod_group_faults,
    SchedulingShard: shard_faults,
    Topology: topology_faults,
    Pod: preferred_of_workload,
    Job: preferred_of_workload,
    ReplicaSet: preferred_of_workload,
    Deployment: preferred_of_workload,
    StatefulSet: preferred_of_workload,
    PodDisruptionBudget: disruption_budget_faults,
    ResourceSlice: slice_faults,
    ResourceClaim: claim_faults,
    ResourceClaimTemplate: template_faults,
    kueue.ClusterQueue: cluster_queue_faults,
    kueue.Cohort: cohort_faults,
    kueue.LocalQueue: local_queue_faults,
    kueue.ResourceFlavor: flavor_faults,
    kueue.WorkloadPriorityClass: workload_class_faults,
}


_ONLY_WARNED: Final = (Pod, Job, ReplicaSet, Deployment, StatefulSet, PodDisruptionBudget)
_CHECKED_BY_SERVERS: Final = (ResourceSlice, ResourceClaim, ResourceClaimTemplate)
"""What is wrong with these no API server accepts: it is looked for in files, and not in lists."""


def has_faults(type_: type[KubernetesObject]) -> bool:
    """Tell whether objects in a server can have faults beyond their form, warnings aside."""
    return type_ in _FAULTS and type_ not in (*_ONLY_WARNED, *_CHECKED_BY_SERVERS)


def faults_of(obj: KubernetesObject) -> Iterator[Fault]:
    """Yield the faults of an object on its own, warnings included."""
    check = _FAULTS.get(type(obj))
    return check(obj) if check is not None else iter(())


def type_of(api_version: str, kind: str) -> type[KubernetesObject] | Fault | None:
    """Return the struct of a kind, None for a kind that the scheduler ignores, or a fault."""
    type_ = _BY_KIND.get(kind)
    if type_ is not None and api_version in (type_.API_VERSION, *type_.OTHER_VERSIONS):
        return type_
    group = _group(api_version)
    if type_ is not None and _group(type_.API_VERSION) == group:
        return Fault(
            ("apiVersion",),
            f"this version of {kind} is not read",
            api_version,
            f'write "{type_.API_VERSION}"',
        )
    mine = [it.KIND for it in KINDS if _group(it.API_VERSION) == group]
    if group in _OWN_GROUPS and kind not in _NOT_OURS:
        elsewhere = f'its apiVersion is "{type_.API_VERSION}"' if type_ is not None else ""
        return Fault(("kind",), "no such kind", kind, elsewhere or did_you_mean(kind, mine))
    near = nearest(kind, mine)
    if near and near.lower() in (kind.lower(), kind.lower().removesuffix("s")):
        return Fault(("kind",), "no such kind", kind, f'did you mean "{near}"?')
    return None


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


# -- decoding --------------------------------------------------------------------------------------

_T = TypeVar("_T", bound=KubernetesObject)

MAX_DEPTH: Final = 100
MAX_FAULTS: Final = 20
"""Most faults reported for one object: enough to work with, not enough to flood."""
DEFAULT_NAMESPACE: Final = "default"
_NOWHERE: Final = Source()


class BadObject(Exception):  # noqa: N818 - carries several errors, for whoever collects them
    """An object with all its errors."""

    def __init__(self, errors: list[ObjectError], obj: KubernetesObject | None = None) -> None:
        super().__init__(str(errors[0]))
        self.errors = errors
        self.obj = obj
        """What is left of the object without its faults of form, if anything, for more checks."""


def decode_json(data: bytes, type_: type[_T]) -> _T:
    """Return the object of a kind from the JSON bytes of an API server.

    Raises:
        ObjectError: the first fault of the object, with its path.

    """
    obj, problem = decode_stored(data, type_)
    if problem is not None:
        raise problem
    return obj


def decode_stored(data: bytes, type_: type[_T]) -> tuple[_T, ObjectError | None]:
    """Return an object that a server has stored, and the first fault in its contents.

    Unknown keys are faults, but are left out: a later version may have written them.

    Raises:
        ObjectError: the object has not the form of its kind.

    """
    problem = None
    try:
        obj: _T = _decoder(type_).decode(data)
    except msgspec.ValidationError:
        # A fault, or merely a null somewhere: the slow way finds out.
        obj, problem = _decode_slowly(data, type_)
    except BAD_JSON as error:
        raise ObjectError(f"no JSON: {error}", kind=type_.KIND) from None
    fault = next((it for it in faults_of(obj) if not it.is_warning), None)
    if problem is None and fault is not None:
        problem = to_error(fault, _NOWHERE, type_.KIND, obj.name)
    return obj, problem


def decode_object(
    raw: object, type_: type[_T], source: Source = _NOWHERE
) -> tuple[_T, list[ObjectError]]:
    """Return the object of a kind from plain values (dicts, lists, texts, numbers), and warnings.

    A null counts as absent. An object without a namespace, of a kind that has them, is put in
    ``default``.

    Raises:
        BadObject: the object has faults, of which it holds up to MAX_FAULTS.

    """
    try:
        obj = _form(raw, type_, source)
    except BadObject as bad:
        raise _with_more(bad, raw, type_, source) from None
    faults = list(_take(faults_of(obj)))
    errors = [to_error(it, source, type_.KIND, obj.name) for it in faults if not it.is_warning]
    if errors:
        raise BadObject(errors, obj)
    return obj, [to_error(it, source, type_.KIND, obj.name) for it in faults if it.is_warning]


def _with_more(
    bad: BadObject, raw: object, type_: type[KubernetesObject], source: Source
) -> BadObject:
    """Add the faults that an object with a wrong form has where its form is right."""
    try:
        value = without_nulls(raw)
        rest = without(value, [fault.path for fault in _take(explain(value, type_))])
        obj = _form(rest, type_, source)
    except (BadObject, ValueError, RecursionError):
        return bad
    more = [it for it in _take(faults_of(obj)) if not it.is_warning and is_at(rest, it.path)]
    return BadObject(
        [*bad.errors, *(to_error(it, source, type_.KIND, obj.name) for it in more)], obj
    )


def _form(raw: object, type_: type[_T], source: Source = _NOWHERE) -> _T:
    """Return the object if its form is right, whatever its contents."""
    name = name_in(raw)
    try:
        value = without_nulls(raw)
    except ValueError as error:
        raise BadObject([to_error(Fault((), str(error)), source, type_.KIND, name)]) from None
    faults = list(_take(_shape_faults(value, type_)))
    if faults:
        raise BadObject([to_error(it, source, type_.KIND, name) for it in faults])
    if type_.IS_NAMESPACED and isinstance(value["metadata"], dict):
        value["metadata"].setdefault("namespace", DEFAULT_NAMESPACE)
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        found = list(_take(explain(value, type_))) or [Fault((), str(error))]
        raise BadObject([to_error(it, source, type_.KIND, name) for it in found]) from None


def encode(obj: KubernetesObject) -> dict[str, Any]:
    """Convert an object to plain values, for YAML or JSON; defaults are left out."""
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    return {"apiVersion": obj.API_VERSION, "kind": obj.KIND, **plain}


def name_in(raw: object) -> str:
    """Return the name in the metadata of plain values, if there is any."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return name[:253] if isinstance(name, str) else ""


def without_nulls(value: object, depth: int = 0) -> Any:
    """Return a copy without the nulls in maps.

    Raises:
        ValueError: nested too deep, a key that is no text, or a text with half a character.

    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {
            _sound(key): without_nulls(entry, depth + 1)
            for key, entry in value.items()
            if entry is not None
        }
    if isinstance(value, list):
        return [without_nulls(entry, depth + 1) for entry in value]
    return _sound(value) if isinstance(value, str) else value


def _sound(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a key that is no text: {text!r:.40}")  # noqa: TRY004 - as documented
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"half a character in {text[:40]!r}") from None
    return text


def _take(faults: Iterator[Fault]) -> Iterator[Fault]:
    for number, fault in enumerate(faults):
        if number >= MAX_FAULTS:
            return
        yield fault


def _shape_faults(value: object, type_: type[KubernetesObject]) -> Iterator[Fault]:
    """Yield faults so basic that no object can be made."""
    if not isinstance(value, dict):
        yield Fault((), f"no {type_.KIND}, but a {type(value).__name__}")
        return
    meta = value.get("metadata", {})
    if isinstance(meta, dict) and not meta.get("name"):
        yield Fault(("metadata", "name"), "missing", fix="give the object a name")


def _decode_slowly(data: bytes, type_: type[_T]) -> tuple[_T, ObjectError | None]:
    """Return the object, and the faults of its form that could be left out."""
    try:
        value = msgspec.json.decode(data)
        try:
            return _form(value, type_), None
        except BadObject as bad:
            return _form(without_unknown(value, type_), type_), bad.errors[0]
    except BadObject as bad:
        raise bad.errors[0] from None
    except (RecursionError, *BAD_JSON) as error:
        raise ObjectError(f"no JSON: {error}", kind=type_.KIND) from None


@cache
def _decoder(type_: type[_T]) -> msgspec.json.Decoder[_T]:
    return msgspec.json.Decoder(type_)


# -- lists and watch events ------------------------------------------------------------------------


class ListAnswer(NamedTuple, Generic[_T]):
    """A page of a list."""

    objects: list[_T]
    problems: list[ObjectError]
    """Errors of objects that are left out, since they have not the form of their kind."""
    resource_version: str
    next_page: str
    """The ``continue`` token; empty on the last page."""
    doubts: Sequence[ObjectError] = ()
    """Errors in objects that are kept all the same."""


class WatchEvent(NamedTuple, Generic[_T]):
    """One line of a watch.

    ``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; ``object`` is None for the last two.
    """

    type: str
    object: _T | None
    resource_version: str
    status: dict[str, Any]
    """The answer of an ERROR, with ``code`` and ``reason``; otherwise empty."""
    doubt: ObjectError | None = None
    """Error in the contents of the object."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _TypedList(msgspec.Struct, Generic[_T]):
    items: list[_T]
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _RawMeta(msgspec.Struct):
    metadata: _ListMeta


_LISTS = msgspec.json.Decoder(_RawList)
_EVENTS = msgspec.json.Decoder(_RawEvent)
_METAS = msgspec.json.Decoder(_RawMeta)


@cache
def _typed_lists(type_: type[_T]) -> msgspec.json.Decoder[_TypedList[_T]]:
    return msgspec.json.Decoder(_TypedList[type_])  # type: ignore[valid-type]


def decode_list(data: bytes, type_: type[_T]) -> ListAnswer[_T]:
    """Decode the objects of a list answer, with the errors of each.

    Raises:
        ObjectError: the answer as a whole is no list.

    """
    if not has_faults(type_):
        try:
            whole = _typed_lists(type_).decode(data)
        except BAD_JSON:
            pass  # some object is bad or has a null: decode each object on its own
        else:
            meta = whole.metadata
            return ListAnswer(whole.items, [], meta.resource_version, meta.continue_)
    try:
        answer = _LISTS.decode(data)
    except BAD_JSON as error:
        raise ObjectError(f"no list: {error}", kind=type_.KIND) from None
    objects: list[_T] = []
    problems: list[ObjectError] = []
    doubts: list[ObjectError] = []
    for raw in answer.items or ():
        try:
            obj, doubt = decode_stored(raw, type_)
        except ObjectError as error:
            problems.append(error)
            continue
        objects.append(obj)
        if doubt is not None:
            doubts.append(doubt)
    meta = answer.metadata
    return ListAnswer(objects, problems, meta.resource_version, meta.continue_, doubts)


def decode_event(line: bytes, type_: type[_T]) -> WatchEvent[_T]:
    """Decode one watch event.

    Raises:
        ObjectError: the line is invalid, or its object has not the form of its kind.

    """
    try:
        event = _EVENTS.decode(line)
        if event.type == "ERROR":
            return WatchEvent("ERROR", None, "", dict(msgspec.json.decode(event.object)))
        if event.type == "BOOKMARK":
            version = _METAS.decode(event.object).metadata.resource_version
            return WatchEvent("BOOKMARK", None, version, {})
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise ObjectError(f"no watch event: {error}", kind=type_.KIND) from None
    obj, doubt = decode_stored(event.object, type_)
    return WatchEvent(event.type, obj, obj.metadata.resource_version, {}, doubt)
