"""Strategic merge patches: lists of named things are merged by name, other lists are replaced.

Which key names the items of a list is part of Kubernetes' types; here it is a table of the lists
that schedulers, kubectl and controllers patch. A list that is not in it is replaced.
"""

from __future__ import annotations

from typing import Any, Final

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
