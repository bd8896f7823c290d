"""CustomResourceDefinitions: the kinds that they bring, and the schemas of those."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kaisched_apiserver.resources import Registry, Resource
from kaisched_apiserver.statuses import FieldFault, invalid, required, wrong

# Structural schemas of custom kinds: unknown fields go, defaults come, faults are found.
#
# Rules in CEL (``x-kubernetes-validations``) are not evaluated.


_KEEP: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"
_TOP: Final = ("apiVersion", "kind", "metadata")


def prune(obj: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Remove fields that a schema does not name, in place; return their paths."""
    gone: list[str] = []
    kept: dict[str, Any] = {key: obj.pop(key) for key in _TOP if key in obj}
    _prune(obj, schema, "", gone)
    rest = dict(obj)
    obj.clear()
    obj.update(kept)
    obj.update(rest)
    return gone


def _prune(value: Any, schema: dict[str, Any], path: str, gone: list[str]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for at, item in enumerate(value):
                _prune(item, items, f"{path}[{at}]", gone)
    elif isinstance(value, dict) and not schema.get("x-kubernetes-embedded-resource"):
        known = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        for key in list(value):
            where = f"{path}.{key}" if path else key
            if key in known:
                _prune(value[key], known[key], where, gone)
            elif isinstance(others, dict):
                _prune(value[key], others, where, gone)
            elif others is not True and not schema.get(_KEEP):
                del value[key]
                gone.append(where)


def fill_in(value: Any, schema: dict[str, Any]) -> None:
    """Set what is absent and has a default, in place."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                fill_in(item, items)
    elif isinstance(value, dict):
        known = schema.get("properties") or {}
        for key, part in known.items():
            _fill_in_field(value, key, part)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            for key in value.keys() - known.keys():
                fill_in(value[key], others)


def _fill_in_field(value: dict[str, Any], key: str, schema: dict[str, Any]) -> None:
    """Set one field; a null that the schema does not allow counts as absent."""
    if value.get(key) is None and not (key in value and schema.get("nullable")):
        value.pop(key, None)
        if "default" in schema:
            value[key] = copy.deepcopy(schema["default"])
    if key in value:
        fill_in(value[key], schema)


def faults_of(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[FieldFault]:
    """Yield where a value does not fit its schema."""
    if value is None and schema.get("nullable"):
        return
    type_ = schema.get("type", "")
    if not _is_of_type(value, type_, schema):
        yield FieldFault(
            path or "<nil>",
            "FieldValueTypeInvalid",
            f'Invalid value: "{_name_of(value)}": {path} in body must be of type {type_}:'
            f' "{_name_of(value)}"',
        )
        return
    yield from _own_faults(value, schema, path)
    if isinstance(value, dict):
        yield from _faults_within(value, schema, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, item in enumerate(value):
            yield from faults_of(item, schema["items"], f"{path}[{at}]")


def _faults_within(
    value: dict[str, Any], schema: dict[str, Any], path: str
) -> Iterator[FieldFault]:
    prefix = f"{path}." if path else ""
    for key in schema.get("required") or []:
        if key not in value:
            yield required(f"{prefix}{key}")
    known = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for key, item in value.items():
        if not path and key in _TOP:
            continue
        part = known.get(key, others)
        if isinstance(part, dict):
            yield from faults_of(item, part, f"{prefix}{key}")


def _is_of_type(value: Any, type_: str, schema: dict[str, Any]) -> bool:
    if schema.get(_EITHER):
        return isinstance(value, int | str) and not isinstance(value, bool)
    if type_ in {"integer", "number"} and isinstance(value, bool):
        return False
    if type_ == "integer" and isinstance(value, float):
        return value.is_integer()
    types: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    return type_ not in types or isinstance(value, types[type_])


def _name_of(value: Any) -> str:
    names: dict[type, str] = {
        dict: "object",
        list: "array",
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
    }
    return names.get(type(value), "null")


_BOUNDS: Final[tuple[tuple[str, Callable[[Any, Any], bool], str], ...]] = (
    ("minimum", lambda value, bound: value >= bound, "should be greater than or equal to"),
    ("maximum", lambda value, bound: value <= bound, "should be less than or equal to"),
    ("minLength", lambda value, bound: len(value) >= bound, "should be at least"),
    ("maxLength", lambda value, bound: len(value) <= bound, "should be at most"),
    ("minItems", lambda value, bound: len(value) >= bound, "should have at least"),
    ("maxItems", lambda value, bound: len(value) <= bound, "should have at most"),
    ("minProperties", lambda value, bound: len(value) >= bound, "should have at least"),
    ("maxProperties", lambda value, bound: len(value) <= bound, "should have at most"),
)
_KIND_OF_BOUND: Final[dict[str, tuple[type, ...]]] = {
    "imum": (int, float),
    "ngth": (str,),
    "tems": (list,),
    "ties": (dict,),
}


def _own_faults(value: Any, schema: dict[str, Any], path: str) -> Iterator[FieldFault]:
    for name, fits, text in _BOUNDS:
        bound = schema.get(name)
        if bound is None or not isinstance(value, _KIND_OF_BOUND[name[-4:]]):
            continue
        if not fits(value, bound):
            yield wrong(path, value, f"{path} in body {text} {bound}")
    pattern = schema.get("pattern")
    if pattern is not None and isinstance(value, str) and not re.search(pattern, value):
        yield wrong(path, value, f"{path} in body should match '{pattern}'")
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        shown = ", ".join(f'"{it}"' for it in choices)
        message = f'Unsupported value: "{value}": supported values: {shown}'
        yield FieldFault(path, "FieldValueNotSupported", message)


# CustomResourceDefinitions: which kinds they bring, and how the definition itself is answered.


KEY = ("apiextensions.k8s.io", "customresourcedefinitions")


def complete_definition(resource: Resource, definition: dict[str, Any], now: str) -> None:
    """Give a definition its defaults and the status of one that is served.

    Raises:
        ApiError: 422, it is not complete.

    """
    name = definition["metadata"]["name"]
    spec = definition.get("spec")
    faults = list(_faults(name, spec))
    if faults or not isinstance(spec, dict):
        raise invalid(resource, name, faults or [required("spec")])
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names were accepted", now),
    ]
    stored = next(it["name"] for it in spec["versions"] if it.get("storage"))
    status = definition.get("status") or {}
    definition["status"] = {
        "conditions": status.get("conditions") or conditions,
        "acceptedNames": names,
        "storedVersions": sorted({*(status.get("storedVersions") or []), stored}),
    }


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _faults(name: str, spec: Any) -> Iterator[FieldFault]:
    if not isinstance(spec, dict):
        yield required("spec")
        return
    names = spec.get("names") or {}
    for part in ("plural", "kind"):
        if not names.get(part):
            yield required(f"spec.names.{part}")
    if not spec.get("group"):
        yield required("spec.group")
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        yield required("spec.scope")
    if name != f"{names.get('plural')}.{spec.get('group')}":
        yield wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    versions = spec.get("versions") or []
    if sum(bool(it.get("storage")) for it in versions) != 1:
        yield wrong("spec.versions", "", "must have exactly one version marked as storage version")
    for at, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{at}].schema.openAPIV3Schema")


def serve(registry: Registry, definition: dict[str, Any]) -> list[Resource]:
    """Serve the kind of a definition in each of its served versions; return them."""
    spec = definition["spec"]
    registry.remove(spec["group"], spec["names"]["plural"])
    served = list(_resources(spec))
    for resource in served:
        registry.add(resource)
    return served


def _resources(spec: dict[str, Any]) -> Iterator[Resource]:
    names = spec["names"]
    stored = next(it["name"] for it in spec["versions"] if it.get("storage"))
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        selectable = tuple(
            it["jsonPath"].lstrip(".") for it in version.get("selectableFields") or ()
        )
        yield Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            is_namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            has_status="status" in subresources,
            generation="all",
            singular=names["singular"],
            categories=tuple(names.get("categories") or ()),
            is_custom=True,
            stored_version=stored,
            schema=version["schema"]["openAPIV3Schema"],
            columns=version.get("additionalPrinterColumns") or (),
            selectable=selectable,
        )
