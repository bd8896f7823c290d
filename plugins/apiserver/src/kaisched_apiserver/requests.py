"""A request as the server understands it: whose, what, on which object, and of which shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import DecodeError

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import bad_request, unsupported_media_type
from kaisched_apiserver.storage import decode

# The few messages that kubectl sends in protobuf, whatever it is answered: decoded by hand.
#
# ``kubectl create namespace``, ``drain`` and ``auth`` do so; all else that kubectl does is JSON.


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MORE: Final = 0x80
_LONGEST_VARINT: Final = 70

_Message = dict[int, tuple[str, Any]]
"""Field number to name and how it is read: a schema, or one of the words below."""

_TYPE: Final[_Message] = {1: ("apiVersion", "text"), 2: ("kind", "text")}
_META: Final[_Message] = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    5: ("uid", "text"),
    6: ("resourceVersion", "text"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
}
_OPTIONS: Final[_Message] = {
    1: ("gracePeriodSeconds", "number"),
    2: ("preconditions", {1: ("uid", "text"), 2: ("resourceVersion", "text")}),
    4: ("propagationPolicy", "text"),
    5: ("dryRun", "texts"),
}
_ATTRIBUTES: Final[_Message] = {
    1: ("namespace", "text"),
    2: ("verb", "text"),
    3: ("group", "text"),
    4: ("version", "text"),
    5: ("resource", "text"),
    6: ("subresource", "text"),
    7: ("name", "text"),
}
_ACCESS: Final[_Message] = {
    1: ("resourceAttributes", _ATTRIBUTES),
    2: ("nonResourceAttributes", {1: ("path", "text"), 2: ("verb", "text")}),
}
_KINDS: Final[dict[str, _Message]] = {
    "Namespace": {1: ("metadata", _META)},
    "DeleteOptions": _OPTIONS,
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _OPTIONS)},
    "SelfSubjectAccessReview": {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    "SelfSubjectRulesReview": {1: ("metadata", _META), 2: ("spec", {1: ("namespace", "text")})},
    "SelfSubjectReview": {1: ("metadata", _META)},
}


def read_protobuf(body: bytes) -> dict[str, Any] | None:
    """Return the object in a body, None if it is of a kind that is not known here.

    Raises:
        ValueError: the body is no such message.

    """
    if not body.startswith(_MAGIC):
        raise ValueError("it does not begin as a Kubernetes message does")
    outer = _message(body[len(_MAGIC) :], {1: ("type", _TYPE), 2: ("raw", "bytes")})
    type_ = outer.get("type", {})
    schema = _KINDS.get(type_.get("kind", ""))
    if schema is None:
        return None
    return {**type_, **_message(outer.get("raw", b""), schema)}


def _message(data: bytes, schema: _Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        name, how = schema.get(number, ("", ""))
        if not name:
            continue
        if isinstance(how, dict):
            found[name] = _message(_as_bytes(value), how)
        elif how == "map":
            pair = _message(_as_bytes(value), {1: ("key", "text"), 2: ("value", "text")})
            found.setdefault(name, {})[pair.get("key", "")] = pair.get("value", "")
        elif how == "texts":
            found.setdefault(name, []).append(_as_bytes(value).decode())
        elif how == "text":
            # An empty text is an absent one: the encoding does not tell them apart.
            if value:
                found[name] = _as_bytes(value).decode()
        else:
            found[name] = value
    return found


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a text or a message was to be")  # noqa: TRY004 - of the data
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, type_ = key >> 3, key & 7
        if type_ == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if type_ == _BYTES:
            size, at = _varint(data, at)
        elif type_ in _SIZES:
            size = _SIZES[type_]
        else:
            raise ValueError(f"wire type {type_} is not known")
        if at + size > len(data):
            raise ValueError("it ends in the middle")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _LONGEST_VARINT:
        if at >= len(data):
            raise ValueError("it ends in the middle")
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if not byte & _MORE:
            return value, at
        shift += 7
    raise ValueError("a number is too long")


# The shape of what comes in, as far as it is looked at here: a text is no list, a list no text.
#
# A real server decodes into its types and refuses what does not fit; here only those fields have
# types that the server itself reads. All others are kept as they come.


_Object = dict[str, Any]
_Texts = dict[str, str]


class _Shape(msgspec.Struct, rename="camel", kw_only=True):
    pass


class _Owner(_Shape):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(_Shape):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Any(_Shape):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


class _Resources(_Shape):
    limits: _Object | None = None
    requests: _Object | None = None


class _Container(_Shape):
    name: str | None = None
    image: str | None = None
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _PodSpec(_Shape):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    tolerations: list[_Object] | None = None
    scheduling_gates: list[_Object] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    termination_grace_period_seconds: int | None = None


class _Status(_Shape):
    phase: str | None = None
    conditions: list[_Object] | None = None
    capacity: _Object | None = None
    allocatable: _Object | None = None
    node_info: _Object | None = None
    disrupted_pods: _Object | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0


class _Pod(_Any):
    spec: _PodSpec | None = None
    status: _Status | None = None


class _Taint(_Shape):
    key: str


class _NodeSpec(_Shape):
    taints: list[_Taint] | None = None


class _Node(_Any):
    spec: _NodeSpec | None = None
    status: _Status | None = None


class _Requirement(_Shape):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(_Shape):
    match_labels: _Texts | None = None
    match_expressions: list[_Requirement] | None = None


class _BudgetSpec(_Shape):
    selector: _Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class _Budget(_Any, kw_only=True):
    spec: _BudgetSpec
    status: _Status | None = None


class _Class(_Any):
    value: int = 0
    global_default: bool = False


class _Template(_Any):
    spec: _PodSpec | None = None


class _WorkloadSpec(_Shape):
    replicas: int = 1
    parallelism: int = 1
    completions: int = 1
    template: _Template | None = None


class _Workload(_Any):
    spec: _WorkloadSpec | None = None
    status: _Object | None = None


class _Namespace(_Any):
    spec: _Object | None = None
    status: _Status | None = None


class _Target(_Shape):
    name: str | None = None


class Binding(_Any):
    """A Binding."""

    target: _Target | None = None


class _Preconditions(_Shape):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(_Shape):
    """What a deletion may say."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


class Eviction(_Any):
    """An Eviction."""

    delete_options: DeleteOptions | None = None


class _Attributes(_Shape):
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _ReviewSpec(_Shape):
    resource_attributes: _Attributes | None = None
    user: str | None = None


class Review(_Shape):
    """A question about access."""

    spec: _ReviewSpec | None = None


class _Names(_Shape):
    plural: str
    kind: str
    singular: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Column(_Shape):
    name: str
    type: str
    json_path: str
    priority: int = 0


class _Selectable(_Shape):
    json_path: str


class _Schema(_Shape):
    open_apiv3_schema: _Object | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(_Shape):
    name: str
    served: bool
    storage: bool
    schema: _Schema | None = None
    subresources: _Object | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_Selectable] | None = None


class _DefinitionSpec(_Shape):
    group: str
    scope: str
    names: _Names
    versions: list[_Version]


class _Definition(_Any, kw_only=True):
    spec: _DefinitionSpec


_SHAPES: Final[dict[tuple[str, str], type[_Any]]] = {
    ("", "pods"): _Pod,
    ("", "nodes"): _Node,
    ("", "namespaces"): _Namespace,
    ("policy", "poddisruptionbudgets"): _Budget,
    ("scheduling.k8s.io", "priorityclasses"): _Class,
    ("apps", "replicasets"): _Workload,
    ("apps", "deployments"): _Workload,
    ("batch", "jobs"): _Workload,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _Definition,
}


def check_object(resource: Resource, obj: dict[str, Any]) -> None:
    """Refuse an object whose fields are not of their types.

    Raises:
        ApiError: 400.

    """
    shape = _Any if resource.is_custom else _SHAPES.get(resource.key, _Any)
    check(shape, obj, resource.kind)


def check(shape: type[msgspec.Struct], obj: dict[str, Any], kind: str) -> None:
    """Refuse what does not have a shape.

    Raises:
        ApiError: 400.

    """
    try:
        msgspec.convert(obj, shape)
    except (msgspec.ValidationError, RecursionError) as wrong:
        raise bad_request(f"{kind} cannot be handled: {wrong}") from wrong


# A request as the server understands it: whose, what, and on which object.


_ON_ALL: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_ON_ONE: Final = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACE: Final = ("status", "finalize")
_TAKES: Final = ("application/json", "", "application/x-www-form-urlencoded", "*/*")
"""What curl says without being asked is taken for JSON, too, as by a real server."""
_TRUE: Final = ("1", "true", "True", "t", "T", "TRUE")


@dataclass(frozen=True, slots=True)
class Request:
    """A request on a resource; ``verb`` is empty where the method means nothing there."""

    method: str = ""
    path: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    token: str = ""

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be kept."""
        return "dryRun" in self.query

    def is_set(self, name: str) -> bool:
        """Tell whether a flag of the query is on."""
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int | None:
        """Return a number of the query, None if it is absent.

        Raises:
            ApiError: 400, it is no number.

        """
        text = self.query.get(name, "")
        if not text:
            return None
        if not text.isascii() or not text.isdecimal():
            raise bad_request(f'invalid value for {name}: "{text}" is no number')
        return int(text)

    def object(self) -> dict[str, Any]:
        """Return the object in the body.

        Raises:
            ApiError: 400, the body is no JSON object; 415, it says that it is something else.

        """
        if self.content_type == PROTOBUF:
            return self._protobuf()
        if self.content_type not in _TAKES:
            raise unsupported_media_type(self.content_type, _TAKES[:1])
        try:
            obj = decode(self.body)
        except (DecodeError, RecursionError) as wrong:
            raise bad_request(f"the object provided is unrecognized: {wrong}") from wrong
        if not isinstance(obj, dict):
            raise bad_request("the object provided is unrecognized: it must be a JSON object")
        return obj

    def _protobuf(self) -> dict[str, Any]:
        try:
            obj = read_protobuf(self.body)
        except ValueError as wrong:
            raise bad_request(f"the object provided is unrecognized: {wrong}") from wrong
        if obj is None:
            raise unsupported_media_type(self.content_type, _TAKES[:1])
        return obj

    def options(self) -> dict[str, Any]:
        """Return the DeleteOptions in the body; the query may say the grace, too.

        Raises:
            ApiError: 400, the body is no object.

        """
        options = self.object() if self.body.strip() else {}
        check(DeleteOptions, options, "DeleteOptions")
        grace_s = self.number("gracePeriodSeconds")
        return options if grace_s is None else {"gracePeriodSeconds": grace_s, **options}


def request_of(
    method: str, target: str, body: bytes, content_type: str, accept: str, token: str
) -> Request | None:
    """Return what a request means, None if its path is not one of a resource.

    Args:
        method: such as GET.
        target: path and query.
        body: as sent.
        content_type: without parameters.
        accept: the header, empty for none.
        token: the bearer token, empty for none.

    """
    path, _, query_text = target.partition("?")
    place = _place_of(path)
    if place is None:
        return None
    group, version, namespace, plural, name, subresource = place
    query = dict(parse_qsl(query_text, keep_blank_values=True)) if query_text else {}
    verb = (_ON_ONE if name else _ON_ALL).get(method, "")
    if verb in {"get", "list"} and query.get("watch", "") in _TRUE and not subresource:
        verb = "watch"
    return Request(
        method,
        path,
        verb,
        group,
        version,
        plural,
        namespace,
        name,
        subresource,
        query,
        body,
        content_type,
        accept,
        token,
    )


def _place_of(path: str) -> tuple[str, str, str, str, str, str] | None:
    """Return group, version, namespace, plural, name and subresource of a path."""
    parts = [unquote(it) if "%" in it else it for it in path.split("/") if it]
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    match rest:
        case ["namespaces", within, *inner] if inner and inner[0] not in _OF_NAMESPACE:
            namespace, rest = within, inner
        case _:
            pass
    plural, name, subresource, *more = (*rest, "", "")
    return None if any(more) else (group, version, namespace, plural, name, subresource)
