"""What a request is answered with, in the form in which a client wants to see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Matches, Record, decode, encode

# The same object as different clients want to see it: in another version, or its metadata only.


Form = Literal["whole", "metadata", "table"]

# Events are kept as core/v1 has them; events.k8s.io/v1 calls some fields otherwise.
_EVENT_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES: Final = {core: name for name, core in _EVENT_NAMES.items()}


class _OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata: Final = msgspec.json.Decoder(_OnlyMetadata)


def form_of(accept: str) -> Form:
    """Return the form the first acceptable media type asks for."""
    for part in accept.split(","):
        parameters = [it.strip() for it in part.split(";")]
        if parameters[0] == "application/json" and "g=meta.k8s.io" in parameters:
            if "as=Table" in parameters:
                return "table"
            if any(it.startswith("as=PartialObjectMetadata") for it in parameters):
                return "metadata"
        elif parameters[0] in {"application/json", "*/*", ""}:
            return "whole"
    return "whole"


def is_as_kept(resource: Resource) -> bool:
    """Tell whether objects of a kind and version are sent as they are kept."""
    if resource.group == "events.k8s.io":
        return False
    return not resource.is_custom or resource.version == resource.stored_version


def seen(resource: Resource, body: bytes) -> bytes:
    """Return an object in the version of a resource."""
    if is_as_kept(resource):
        return body
    obj = decode(body)
    if resource.group == "events.k8s.io":
        obj = {_CORE_NAMES.get(key, key): value for key, value in obj.items()}
    obj["apiVersion"] = resource.api_version
    return encode(obj)


def kept(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object that came in the version of a resource as it is to be kept."""
    if resource.group == "events.k8s.io":
        obj = {_EVENT_NAMES.get(key, key): value for key, value in obj.items()}
        obj["apiVersion"] = "v1"
    elif not is_as_kept(resource):
        obj["apiVersion"] = f"{resource.group}/{resource.stored_version}"
    return obj


def metadata_only(body: bytes) -> bytes:
    """Return the PartialObjectMetadata of an object."""
    meta = bytes(_metadata.decode(body).metadata)
    return (
        b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + meta + b"}"
    )


# What ``kubectl get`` prints: a Table, with the columns of each kind.


Cell = Callable[[dict[str, Any], float], Any]

_STEPS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_TOKEN: Final = re.compile(
    r"\.?((?:[\w$/-]|\\\.)+)|\[(\d+|\*)\]|\['([^']+)'\]|\[\?\(@\.([\w.]+)==[\"']([^\"']*)[\"']\)\]"
)


def _at(obj: Any, *path: str) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def age(stamp: object, now_s: float) -> str:
    """Return how long ago a time was, as kubectl would say it."""
    try:
        seconds = max(int(now_s - datetime.fromisoformat(str(stamp)).timestamp()), 0)
    except ValueError:
        return "<unknown>"
    for unit, size in _STEPS:
        if seconds >= 2 * size or (size == 1):
            return f"{seconds // size}{unit}"
    return "0s"


def _name(obj: dict[str, Any], _: float) -> Any:
    return obj["metadata"]["name"]


def _age(obj: dict[str, Any], now_s: float) -> str:
    return age(_at(obj, "metadata", "creationTimestamp"), now_s)


def _field(*path: str, absent: Any = "<none>") -> Cell:
    def cell(obj: dict[str, Any], _: float) -> Any:
        value = _at(obj, *path)
        return absent if value is None else value

    return cell


def _pod_status(pod: dict[str, Any], _: float) -> str:
    if _at(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    phase = str(_at(pod, "status", "phase"))
    conditions = _at(pod, "status", "conditions") or []
    if any(it.get("reason") == "SchedulingGated" for it in conditions):
        return "SchedulingGated"
    return "Completed" if phase == "Succeeded" else phase


def _pod_ready(pod: dict[str, Any], _: float) -> str:
    found = _at(pod, "status", "containerStatuses") or []
    return f"{sum(bool(it.get('ready')) for it in found)}/{len(pod['spec']['containers'])}"


def _claim_state(claim: dict[str, Any], _: float) -> str:
    words = ["deleted"] if _at(claim, "metadata", "deletionTimestamp") else []
    if _at(claim, "status", "allocation") is None:
        return ",".join(words or ["pending"])
    words.append("allocated")
    return ",".join([*words, "reserved"] if _at(claim, "status", "reservedFor") else words)


def _node_status(node: dict[str, Any], _: float) -> str:
    conditions = _at(node, "status", "conditions") or []
    ready = next((it for it in conditions if it.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if _at(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _event_object(event: dict[str, Any], _: float) -> str:
    about = _at(event, "involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _last_seen(event: dict[str, Any], now_s: float) -> str:
    series = _at(event, "series", "lastObservedTime")
    stamp = series or event.get("lastTimestamp") or event.get("eventTime")
    return age(stamp or _at(event, "metadata", "creationTimestamp"), now_s)


_NAME: Final[tuple[str, str, Cell]] = ("Name", "string", _name)
_AGE: Final[tuple[str, str, Cell]] = ("Age", "string", _age)
# A title that begins with "+" is shown by `-o wide` only.
_COLUMNS: Final[dict[tuple[str, str], tuple[tuple[str, str, Cell], ...]]] = {
    ("", "pods"): (
        _NAME,
        ("Ready", "string", _pod_ready),
        ("Status", "string", _pod_status),
        ("Restarts", "string", lambda _obj, _now: "0"),
        _AGE,
        ("+IP", "string", _field("status", "podIP")),
        ("+Node", "string", _field("spec", "nodeName")),
        ("+Nominated Node", "string", _field("status", "nominatedNodeName")),
    ),
    ("", "nodes"): (
        _NAME,
        ("Status", "string", _node_status),
        ("Roles", "string", lambda _obj, _now: "<none>"),
        _AGE,
        ("Version", "string", _field("status", "nodeInfo", "kubeletVersion", absent="")),
    ),
    ("", "namespaces"): (_NAME, ("Status", "string", _field("status", "phase")), _AGE),
    ("", "events"): (
        ("Last Seen", "string", _last_seen),
        ("Type", "string", _field("type")),
        ("Reason", "string", _field("reason")),
        ("Object", "string", _event_object),
        ("Message", "string", _field("message", absent="")),
    ),
    ("batch", "jobs"): (
        _NAME,
        (
            "Completions",
            "string",
            lambda job, _: (
                f"{_at(job, 'status', 'succeeded') or 0}/{_at(job, 'spec', 'completions') or 1}"
            ),
        ),
        _AGE,
    ),
    ("coordination.k8s.io", "leases"): (
        _NAME,
        ("Holder", "string", _field("spec", "holderIdentity", absent="")),
        _AGE,
    ),
    ("resource.k8s.io", "resourceclaims"): (
        _NAME,
        ("State", "string", _claim_state),
        _AGE,
    ),
    ("policy", "poddisruptionbudgets"): (
        _NAME,
        ("Min Available", "string", _field("spec", "minAvailable", absent="N/A")),
        ("Max Unavailable", "string", _field("spec", "maxUnavailable", absent="N/A")),
        ("Allowed Disruptions", "integer", _field("status", "disruptionsAllowed", absent=0)),
        _AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        _NAME,
        ("Value", "integer", _field("value", absent=0)),
        ("Global-Default", "boolean", _field("globalDefault", absent=False)),
        _AGE,
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        _NAME,
        ("Created At", "date", _field("metadata", "creationTimestamp")),
    ),
}


def _columns_of(resource: Resource) -> list[tuple[str, str, Cell]]:
    if not resource.is_custom:
        return list(_COLUMNS.get(resource.key, (_NAME, _AGE)))
    own = [
        (("+" if it.get("priority") else "") + it["name"], it["type"], _custom(it))
        for it in resource.columns
    ]
    return [_NAME, *(own or [_AGE])]


def _custom(column: dict[str, Any]) -> Cell:
    steps = _TOKEN.findall(column["jsonPath"])

    def cell(obj: dict[str, Any], now_s: float) -> Any:
        values: list[Any] = [obj]
        for step in steps:
            values = [found for value in values for found in _step(value, step)]
        if not values:
            return None
        if column["type"] == "date":
            return age(values[0], now_s)
        return values[0] if column["type"] != "string" else str(values[0])

    return cell


def _step(value: Any, step: tuple[str, str, str, str, str]) -> list[Any]:
    word, number, quoted, tested, wanted = step
    if isinstance(value, dict):
        found = value.get(word.replace("\\.", ".") or quoted)
        return [] if found is None else [found]
    if not isinstance(value, list):
        return []
    if tested:
        return [it for it in value if str(_at(it, *tested.split("."))) == wanted]
    if number == "*":
        return value
    return value[int(number) : int(number) + 1] if number else []


def definitions_of(resource: Resource) -> list[dict[str, Any]]:
    """Return the columnDefinitions of a kind."""
    return [
        {
            "name": title.removeprefix("+"),
            "type": type_,
            "format": "name" if title == "Name" else "",
            "description": title.removeprefix("+"),
            "priority": 1 if title.startswith("+") else 0,
        }
        for title, type_, _ in _columns_of(resource)
    ]


def row_of(resource: Resource, body: bytes, include: str, now_s: float) -> dict[str, Any]:
    """Return a row; with the whole object, its metadata or nothing, as ``includeObject`` says."""
    obj = decode(body)
    row: dict[str, Any] = {"cells": [cell(obj, now_s) for _, _, cell in _columns_of(resource)]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row


def table_of(
    resource: Resource, rows: list[dict[str, Any]], metadata: dict[str, Any], *, is_titled: bool
) -> dict[str, Any]:
    """Return a Table; later events of a watch are sent without the titles."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions_of(resource) if is_titled else None,
        "rows": rows,
    }


# What a request is answered with: a page, or a watch that goes on.


JSON_TYPE = "application/json"


class Answer(NamedTuple):
    """A page."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """A stream of the changes after a version.

    ``replay`` is what the stream begins with: changes that have happened, or objects that exist
    already. With ``error`` it says that and ends.
    """

    resource: Resource
    namespace: str
    matches: Matches | None
    form: Form
    include: str
    has_bookmarks: bool
    is_marking_start: bool
    """A bookmark tells where the objects end that existed already."""
    timeout_s: float
    version: int
    """Only changes after it belong to the stream, beside the replayed ones."""
    replay: Sequence[Change | Record] = ()
    error: ApiError | None = None


def refused(error: ApiError) -> Answer:
    """Return the page of an error."""
    headers = (("Retry-After", str(error.retry_after_s)),) if error.retry_after_s else ()
    return Answer(error.code, error.body(), headers=headers)
