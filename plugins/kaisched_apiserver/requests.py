"""A request as the server understands it: whose, what, and on which object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from msgspec import DecodeError

from kaisched_apiserver.protobuf import PROTOBUF, read_protobuf
from kaisched_apiserver.shapes import DeleteOptions, check
from kaisched_apiserver.statuses import bad_request, unsupported_media_type
from kaisched_apiserver.storage import decode

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

    method: str
    path: str
    verb: str
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    body: bytes
    content_type: str
    accept: str
    token: str

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
