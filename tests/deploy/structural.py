"""What an API server does with an object and a structural schema, as far as the tests need it.

Rules in CEL are not evaluated: cases that only they catch are listed in ``caught.yaml``.
"""

import math
import re

KEEP = "x-kubernetes-preserve-unknown-fields"
EITHER = "x-kubernetes-int-or-string"
UNUSED = {"$ref", "$defs", "oneOf", "allOf", "not", "nullable", "title", "const"}
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def unknown(value, schema, path=""):
    """Yield the paths of keys that a server would prune."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from unknown(item, schema.get("items", {KEEP: True}), f"{path}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            where = f"{path}.{key}".lstrip(".")
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if where == "metadata":
                continue
            if part is not None:
                yield from unknown(item, part, where)
            elif not schema.get(KEEP):
                yield where


def faults(value, schema, path=""):
    """Yield where an object does not fit, with the word of the schema that says so."""
    kind = schema.get("type")
    is_bool = isinstance(value, bool)
    if schema.get(EITHER):
        fits = isinstance(value, int | str) and not is_bool
    else:
        fits = kind is None or (isinstance(value, TYPES[kind]) and is_bool == (kind == "boolean"))
    if not fits:
        yield path, "type"
        return
    yield from ((path, word) for word in _broken(value, schema))
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if value.get(key) is None:
                yield f"{path}.{key}".lstrip("."), "required"
        for key, item in value.items():
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if part is not None and item is not None:
                yield from faults(item, part, f"{path}.{key}".lstrip("."))
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), f"{path}[{at}]")


def _broken(value, schema):
    """Yield the words of a schema that a value breaks, each for the types it is about."""
    if not _is_within(value, schema):
        yield "bounds"
    if not _is_in_one(value, schema):
        yield "anyOf"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield "pattern"
    for type_, words in ((str, "Length"), (list, "Items"), (dict, "Properties")):
        if isinstance(value, type_):
            size = len(value)
            if not schema.get(f"min{words}", 0) <= size <= schema.get(f"max{words}", size):
                yield f"max{words}"
    if "enum" in schema and value not in schema["enum"]:
        yield "enum"
    kind = schema.get("x-kubernetes-list-type")
    if kind:
        keys = schema.get("x-kubernetes-list-map-keys", ())
        told = [[item.get(key) for key in keys] if kind == "map" else item for item in value]
        if any(one in told[:at] for at, one in enumerate(told)):
            yield kind


def _is_within(value, schema):
    """Tell whether a number is within its bounds; anything else is."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if schema.get("exclusiveMinimum") and value == low:
        return False
    return math.isfinite(value) and low <= value <= high


def _is_in_one(value, schema):
    """Tell whether a value fits one of the alternatives; those of types are checked elsewhere."""
    bounds = [each for each in schema.get("anyOf", ()) if "type" not in each]
    return not bounds or any(not any(_broken(value, each)) for each in bounds)


def _has_known_alternatives(schema):
    """Tell whether ``anyOf`` has bounds of numbers only, or the types of a text or a number."""
    any_of = schema.get("anyOf")
    if schema.get(EITHER):
        return any_of == [{"type": "integer"}, {"type": "string"}]
    return all(each.keys() <= {"minimum", "exclusiveMinimum", "maximum"} for each in any_of or ())


def misshapen(schema, path=""):
    """Yield what keeps a schema from being structural."""
    if UNUSED & schema.keys():
        yield f"{path}: a word that is not used here"
    if not _has_known_alternatives(schema):
        yield f"{path}: anyOf"
    if "type" not in schema and not schema.get(EITHER) and not schema.get(KEEP):
        yield f"{path}: no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties"
    if "default" in schema and list(faults(schema["default"], schema)):
        yield f"{path}: its default does not fit"
    if not set(schema.get("required", ())) <= schema.get("properties", {}).keys():
        yield f"{path}: requires what it does not know"
    for name, part in schema.get("properties", {}).items():
        yield from misshapen(part, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from misshapen(schema[word], f"{path}.{word}")
