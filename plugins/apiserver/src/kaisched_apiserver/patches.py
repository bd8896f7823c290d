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

# Strategic merge patches: lists of named things are merged by name, other lists are replaced.
#
# Which key names the items of a list is part of Kubernetes' types; here it is a table of the lists
# that schedulers, kubectl and controllers patch. A list that is not in it is replaced.


_KEYS: Final[dict[str, str]] = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "ownerReferences": "uid",
    "addresses": "type",
    "podIPs": "ip",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "secrets": "name",
}
_BY_PATH: Final[dict[tuple[str, str], str]] = {
    ("containers", "ports"): "containerPort",
    ("spec", "ports"): "port",
}
_SETS: Final = ("finalizers",)
_DIRECTIVE: Final = "$patch"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"


def merge_strategically(
    obj: dict[str, Any], patch: dict[str, Any], *, is_apply: bool = False
) -> dict[str, Any]:
    """Return an object with a strategic merge patch applied.

    Server-side apply (``is_apply``) merges alike, except that nothing is removed: ownership of
    fields is not kept.
    """
    return _map(obj, patch, "", is_apply=is_apply)


def _map(old: Any, patch: dict[str, Any], parent: str, *, is_apply: bool) -> dict[str, Any]:
    if not isinstance(old, dict) or patch.get(_DIRECTIVE) == "replace":
        old = {}
    result = dict(old)
    if _RETAIN in patch:
        result = {key: value for key, value in result.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            name = key.removeprefix(_DELETE)
            result[name] = [it for it in result.get(name) or [] if it not in value]
        elif key in {_DIRECTIVE, _RETAIN} or key.startswith(_ORDER):
            continue
        elif value is None:
            if not is_apply:
                result.pop(key, None)
        else:
            result[key] = _value(result.get(key), value, (parent, key), is_apply=is_apply)
    for key, order in patch.items():
        if key.startswith(_ORDER):
            _reorder(result, key.removeprefix(_ORDER), order)
    return result


def _value(old: Any, patch: Any, path: tuple[str, str], *, is_apply: bool) -> Any:
    if isinstance(patch, dict):
        return _map(old, patch, path[1], is_apply=is_apply)
    if isinstance(patch, list):
        if path[1] in _SETS and not is_apply:
            return [*(old or []), *(it for it in patch if it not in (old or []))]
        key = _BY_PATH.get(path) or _KEYS.get(path[1])
        if key is not None and all(isinstance(it, dict) for it in patch):
            return _items(old or [], patch, key, path[1], is_apply=is_apply)
    return patch


def _items(
    old: list[Any], patch: list[dict[str, Any]], key: str, parent: str, *, is_apply: bool
) -> list[Any]:
    if any(it.get(_DIRECTIVE) == "replace" and len(it) == 1 for it in patch):
        return [it for it in patch if it.get(_DIRECTIVE) != "replace"]
    result = list(old)
    for item in patch:
        at = next((i for i, it in enumerate(result) if it.get(key) == item.get(key)), -1)
        if item.get(_DIRECTIVE) == "delete":
            if at >= 0:
                del result[at]
        elif at < 0:
            result.append(_map({}, item, parent, is_apply=is_apply))
        else:
            result[at] = _map(result[at], item, parent, is_apply=is_apply)
    return result


def _reorder(result: dict[str, Any], name: str, order: list[Any]) -> None:
    """Sort a merged list as the patch says; what it does not name keeps its place at the end."""
    items = result.get(name)
    if not isinstance(items, list):
        return
    key = _KEYS.get(name, "")
    names = [it.get(key) if isinstance(it, dict) else it for it in order]

    def rank(item: Any) -> int:
        mine = item.get(key) if isinstance(item, dict) else item
        return names.index(mine) if mine in names else len(names)

    result[name] = sorted(items, key=rank)


# The four ways to patch an object. Each returns a new object and leaves the old one alone.


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
