"""Decoder of an API server's lists and watch events. A bad object never spoils the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kaisched.bad_json import BAD_JSON
from kaisched.errors import ObjectError
from kaisched.objects.decode import decode_stored
from kaisched.objects.kinds import has_faults
from kaisched.objects.wire import KubernetesObject

_T = TypeVar("_T", bound=KubernetesObject)


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
