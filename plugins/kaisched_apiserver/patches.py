"""The four ways to patch an object. Each returns a new object and leaves the old one alone."""

from __future__ import annotations

import copy
from typing import Any, Final

import yaml
from msgspec import DecodeError

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import (
    ApiError,
    bad_request,
    unsupported_media_type,
)
from kaisched_apiserver.storage import decode
from kaisched_apiserver.strategic import merge_strategically

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON, MERGE, STRATEGIC, APPLY)
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REJECTED: Final = "the server rejected our request due to an error in our request"


def read_patch(resource: Resource, content_type: str, body: bytes) -> Any:
    """Return the patch a request carries.

    Raises:
        ApiError: 415, no such kind of patch for this resource; 400, it cannot be read.

    """
    takes = [it for it in PATCH_TYPES if it != STRATEGIC or not resource.is_custom]
    if content_type not in takes:
        raise unsupported_media_type(content_type, takes)
    if content_type == APPLY:
        try:
            patch = yaml.load(body, _LOADER)  # noqa: S506 - a safe loader, in C where there is one
        except yaml.YAMLError as wrong:
            raise bad_request(f"error decoding YAML: {wrong}") from wrong
    else:
        try:
            patch = decode(body)
        except (DecodeError, RecursionError) as wrong:
            raise bad_request(f"error decoding patch: {wrong}") from wrong
    if not isinstance(patch, list if content_type == JSON else dict):
        raise bad_request(f"a patch of type {content_type} cannot be a {type(patch).__name__}")
    return patch


def patched(content_type: str, obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return an object with a patch applied.

    Raises:
        ApiError: 422, a JSON patch does not fit the object.

    """
    if content_type == MERGE:
        return merged(obj, patch)  # type: ignore[no-any-return]
    if content_type == JSON:
        return _json_patched(obj, patch)
    return merge_strategically(obj, patch, is_apply=content_type == APPLY)


def merged(value: Any, patch: Any) -> Any:
    """Return a value with a merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result


def _json_patched(obj: dict[str, Any], steps: list[Any]) -> dict[str, Any]:
    """Apply a JSON patch (RFC 6902)."""
    result: Any = copy.deepcopy(obj)
    try:
        for step in steps:
            result = _step(result, step)
    except (KeyError, IndexError, ValueError, TypeError) as wrong:
        raise ApiError(422, "Invalid", _REJECTED, {}) from wrong
    return result  # type: ignore[no-any-return]


def _step(root: Any, step: dict[str, Any]) -> Any:
    what, path = step["op"], step["path"]
    if what in {"move", "copy"}:
        value = copy.deepcopy(_at(root, step["from"]))
        if what == "move":
            root = _step(root, {"op": "remove", "path": step["from"]})
        return _step(root, {"op": "add", "path": path, "value": value})
    if what == "test":
        if _at(root, path) != step["value"]:
            raise ValueError("the test failed")
        return root
    *way, last = _tokens(path)
    place = root
    for token in way:
        place = _child(place, token)
    _edit(place, last, what, step)
    return root


def _edit(place: Any, last: str, what: str, step: dict[str, Any]) -> None:
    if what == "add" and isinstance(place, list):
        at = len(place) if last == "-" else int(last)
        if at > len(place):
            raise IndexError(last)
        place.insert(at, step["value"])
        return
    key: Any = int(last) if isinstance(place, list) else last
    if what != "add":
        place[key]  # what is replaced or removed must be there
    if what == "remove":
        del place[key]
    elif what in {"add", "replace"}:
        place[key] = step["value"]
    else:
        raise ValueError(what)


def _tokens(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(path)
    return [it.replace("~1", "/").replace("~0", "~") for it in path[1:].split("/")]


def _at(root: Any, path: str) -> Any:
    for token in _tokens(path):
        root = _child(root, token)
    return root


def _child(place: Any, token: str) -> Any:
    return place[int(token)] if isinstance(place, list) else place[token]
