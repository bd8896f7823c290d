"""Structs as structural schemas: what a CustomResourceDefinition says of an object's form.

A schema follows the struct field by field; :mod:`kaisched.objects.crd_rules` adds what a type does
not say. It never refuses what the decoder accepts, but for texts, lists and maps that are absurdly
long: a server works out what a rule may cost from these bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

MAX_TEXT: Final = 1024
MAX_ENTRIES: Final = 64
MAX_ITEMS: Final = 64

_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_UNITS: Final = ("y", "w", "d", "h", "m", "s", "ms", "(us|µs|\u03bcs)", "ns")
_STEPS: Final = "".join(f"({_NUMBER}{unit})?" for unit in _UNITS)
_NOTHING: Final = (None, msgspec.NODEFAULT, "")


def duration_schema(*, may_be_negative: bool = False) -> Schema:
    """Return the schema of a duration: units in falling order, or a 0 without one."""
    sign = "[-+]?" if may_be_negative else "[+]?"
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maximum": 0,
        "minLength": 1,
        "maxLength": 80,
        "pattern": f"^(0|{sign}{_STEPS})$",
    }


def struct_schema(type_: type, rules: Mapping[type, Mapping[str, Schema]]) -> Schema:
    """Return the schema of a struct.

    Args:
        type_: a msgspec struct.
        rules: by struct and field name, what to add to the field's schema; under the empty name,
            what to add to the struct's.

    Raises:
        TypeError: a field's type has no structural schema.

    """
    return _schema(msgspec.inspect.type_info(type_), rules)


def _schema(info: Any, rules: Mapping[type, Mapping[str, Schema]]) -> Schema:
    inspect = msgspec.inspect
    match info:
        case inspect.StructType():
            return _object(info, rules)
        case inspect.UnionType():
            return _union(info, rules)
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.DictType(value_type=value):
            entry = _schema(value, rules)
            return {"type": "object", "maxProperties": MAX_ENTRIES, "additionalProperties": entry}
        case inspect.ListType(item_type=item):
            return {"type": "array", "maxItems": MAX_ITEMS, "items": _schema(item, rules)}
        case inspect.LiteralType(values=values):
            return {"type": "string", "enum": list(values)}
        case inspect.StrType():
            return {"type": "string", "maxLength": MAX_TEXT}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer"}
        case inspect.FloatType():
            return {"type": "number"}
    raise TypeError(f"no structural schema for {info}")


def _union(info: Any, rules: Mapping[type, Mapping[str, Schema]]) -> Schema:
    """Return the schema of a union; None goes: an absent field and a null are the same."""
    inspect = msgspec.inspect
    kinds = [it for it in info.types if not isinstance(it, inspect.NoneType)]
    if len(kinds) == 1:
        return _schema(kinds[0], rules)
    types = {type(it) for it in kinds}
    if types == {inspect.IntType, inspect.FloatType}:
        return {"type": "number"}
    if types == {inspect.IntType, inspect.StrType}:
        return duration_schema()
    if types == {inspect.IntType, inspect.FloatType, inspect.StrType}:
        # A structural schema has no type for this; bounds of numbers and texts still hold.
        return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"no structural schema for {info}")


def _object(info: Any, rules: Mapping[type, Mapping[str, Schema]]) -> Schema:
    added = rules.get(info.cls, {})
    properties = {}
    for field in info.fields:
        schema = {**_schema(field.type, rules), **added.get(field.name, {})}
        if not any(field.default is nothing for nothing in _NOTHING) and _is_plain(field.default):
            schema["default"] = field.default
        properties[field.encode_name] = schema
    required = [field.encode_name for field in info.fields if field.required]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        **added.get("", {}),
    }


def _is_plain(default: object) -> bool:
    return isinstance(default, str | int | float)
