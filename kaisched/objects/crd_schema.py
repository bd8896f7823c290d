"""Structural schemas of structs, for the form of objects in CustomResourceDefinitions.

A schema follows its struct field by field; :mod:`kaisched.objects.crd_rules` adds what types do not
say. It accepts all that the decoder accepts, except absurdly long texts, lists and maps: a server
computes the cost of a rule from these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]
Rules: TypeAlias = Mapping[type, Mapping[str, Schema]]
"""Additions to the schema of a field, by struct and field name; the empty name means the struct's
own schema."""

MAX_TEXT: Final = 1024
MAX_ENTRIES: Final = 64
MAX_ITEMS: Final = 64

_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
QUANTITY: Final = rf"^([+]?{_NUMBER}|-(0+(\.0*)?|\.0+))([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
"""A text that the parser of amounts reads; below zero there is none."""
_UNITS: Final = ("y", "w", "d", "h", "m", "s", "ms", "(us|µs|\u03bcs)", "ns")
_STEPS: Final = "".join(f"({_NUMBER}{unit})?" for unit in _UNITS)
_NOTHING: Final = (None, msgspec.NODEFAULT, "")


def gap(below: float, above: float) -> Schema:
    """Return the part of a schema that refuses the numbers between two; texts pass."""
    return {"anyOf": [{"maximum": below}, at_least(above)]}


def at_least(bound: float) -> Schema:
    """Return the part of a schema that sets the least number, written with a point or whole.

    Programs in Go write 1e-9 as 1e-09, and readers of YAML 1.1 take that as a text. "More than the
    number just below 1e-9" is the same bound, and its many digits have a point in every form.
    """
    if float(bound).is_integer():
        return {"minimum": int(bound)}
    return {"minimum": math.nextafter(bound, -math.inf), "exclusiveMinimum": True}


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


def struct_schema(type_: type, rules: Rules) -> Schema:
    """Return the schema of a struct.

    Args:
        type_: a msgspec struct.
        rules: additions to the schemas of the struct and the structs inside it.

    Raises:
        TypeError: a field's type has no structural schema.

    """
    return _schema(msgspec.inspect.type_info(type_), rules)


def _schema(info: Any, rules: Rules) -> Schema:
    plain = _PLAIN.get(type(info))
    if plain is not None:
        return dict(plain)
    make = _MADE.get(type(info))
    if make is None:
        raise TypeError(f"no structural schema for {info}")
    return make(info, rules)


def _literal(info: Any, _: Rules) -> Schema:
    return {"type": "string", "enum": list(info.values)}


def _list(info: Any, rules: Rules) -> Schema:
    return {"type": "array", "maxItems": MAX_ITEMS, "items": _schema(info.item_type, rules)}


def _map(info: Any, rules: Rules) -> Schema:
    if isinstance(info.value_type, msgspec.inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    entry = _schema(info.value_type, rules)
    return {"type": "object", "maxProperties": MAX_ENTRIES, "additionalProperties": entry}


def _union(info: Any, rules: Rules) -> Schema:
    """Return the schema of a union; None is dropped, since an absent field equals a null."""
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
        # A structural schema has no type for this; bounds of numbers and texts still apply.
        return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"no structural schema for {info}")


def _object(info: Any, rules: Rules) -> Schema:
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


_PLAIN: Final[Mapping[type, Schema]] = {
    msgspec.inspect.StrType: {"type": "string", "maxLength": MAX_TEXT},
    msgspec.inspect.BoolType: {"type": "boolean"},
    msgspec.inspect.IntType: {"type": "integer"},
    msgspec.inspect.FloatType: {"type": "number"},
}
_MADE: Final[Mapping[type, Callable[[Any, Rules], Schema]]] = {
    msgspec.inspect.StructType: _object,
    msgspec.inspect.UnionType: _union,
    msgspec.inspect.DictType: _map,
    msgspec.inspect.ListType: _list,
    msgspec.inspect.LiteralType: _literal,
}
