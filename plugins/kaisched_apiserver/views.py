"""The same object as different clients want to see it: in another version, or its metadata only."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.storage import decode, encode

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
