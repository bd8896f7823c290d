"""The few messages that kubectl sends in protobuf, whatever it is answered: decoded by hand.

``kubectl create namespace``, ``drain`` and ``auth`` do so; all else that kubectl does is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MORE: Final = 0x80
_LONGEST_VARINT: Final = 70

_Schema = dict[int, tuple[str, Any]]
"""Field number to name and how it is read: a schema, or one of the words below."""

_TYPE: Final[_Schema] = {1: ("apiVersion", "text"), 2: ("kind", "text")}
_META: Final[_Schema] = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    5: ("uid", "text"),
    6: ("resourceVersion", "text"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
}
_OPTIONS: Final[_Schema] = {
    1: ("gracePeriodSeconds", "number"),
    2: ("preconditions", {1: ("uid", "text"), 2: ("resourceVersion", "text")}),
    4: ("propagationPolicy", "text"),
    5: ("dryRun", "texts"),
}
_ATTRIBUTES: Final[_Schema] = {
    1: ("namespace", "text"),
    2: ("verb", "text"),
    3: ("group", "text"),
    4: ("version", "text"),
    5: ("resource", "text"),
    6: ("subresource", "text"),
    7: ("name", "text"),
}
_ACCESS: Final[_Schema] = {
    1: ("resourceAttributes", _ATTRIBUTES),
    2: ("nonResourceAttributes", {1: ("path", "text"), 2: ("verb", "text")}),
}
_KINDS: Final[dict[str, _Schema]] = {
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


def _message(data: bytes, schema: _Schema) -> dict[str, Any]:
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
