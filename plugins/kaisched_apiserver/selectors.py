"""Label and field selectors: a text in, a question about a record out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kaisched_apiserver.fields import Paths
from kaisched_apiserver.statuses import bad_request
from kaisched_apiserver.storage import Record

Matches = Callable[[Record], bool]
_HasLabels = Callable[[Mapping[str, str]], bool]

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_EXISTS: Final = re.compile(rf"(!?)\s*({_KEY})")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def matcher_of(label_selector: str, field_selector: str, paths: Paths) -> Matches | None:
    """Return what tells whether a record is selected; None if all are.

    Args:
        label_selector: as ``a=b,c!=d,e in (f,g),h,!i``.
        field_selector: as ``spec.nodeName=n1,status.phase!=Failed``.
        paths: the fields that may be named, beside name and namespace.

    Raises:
        ApiError: 400, a selector cannot be read or names a field that cannot be selected by.

    """
    asks_labels = labels_matcher(label_selector)
    asks_fields = _fields_matcher(field_selector, paths)
    if asks_labels is None:
        return asks_fields
    if asks_fields is None:
        return lambda record: asks_labels(record.labels)
    return lambda record: asks_labels(record.labels) and asks_fields(record)


def labels_matcher(text: str) -> _HasLabels | None:
    """Return what tells whether labels fit a selector; None if all do.

    Raises:
        ApiError: 400, the selector cannot be read.

    """
    terms = [_label_term(part.strip()) for part in _COMMA.split(text)] if text.strip() else []
    if not terms:
        return None
    return lambda labels: all(term(labels) for term in terms)


def selected_by(selector: object) -> _HasLabels:
    """Return what tells whether labels fit an object's ``selector``; an empty one fits all."""
    selector = selector if isinstance(selector, dict) else {}
    equal = selector.get("matchLabels") or {}
    terms = [_equal(key, value) for key, value in equal.items()]
    terms += [
        _expression(it["key"], it["operator"], frozenset(it.get("values") or ()))
        for it in selector.get("matchExpressions") or []
    ]
    return lambda labels: all(term(labels) for term in terms)


def _equal(key: str, value: str) -> _HasLabels:
    return lambda labels: labels.get(key) == value


def _expression(key: str, operator: str, values: frozenset[str]) -> _HasLabels:
    if operator == "In":
        return lambda labels: labels.get(key) in values
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in values
    if operator == "Exists":
        return lambda labels: key in labels
    return lambda labels: key not in labels


def _label_term(text: str) -> _HasLabels:
    if found := _SET.fullmatch(text):
        values = frozenset(value.strip() for value in found[3].split(","))
        return _expression(found[1], "In" if found[2] == "in" else "NotIn", values)
    if found := _EQUAL.fullmatch(text):
        return _expression(found[1], "NotIn" if found[2] == "!=" else "In", frozenset({found[3]}))
    if found := _EXISTS.fullmatch(text):
        return _expression(found[2], "DoesNotExist" if found[1] else "Exists", frozenset())
    raise bad_request(
        f'unable to parse requirement: found "{text}", expected: a key, =, ==, !=, in or notin'
    )


def _fields_matcher(text: str, paths: Paths) -> Matches | None:
    terms = [_field_term(part, paths) for part in text.split(",") if part.strip()]
    if not terms:
        return None
    if len(terms) == 1:
        return terms[0]
    return lambda record: all(term(record) for term in terms)


def _field_term(text: str, paths: Paths) -> Matches:
    found = re.fullmatch(r"\s*([^=!]+?)(==|=|!=)(.*)", text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    label, is_equal, value = found[1], found[2] != "!=", found[3].replace("\\", "")
    if label == "metadata.name":
        return lambda record: (record.name == value) is is_equal
    if label == "metadata.namespace":
        return lambda record: (record.namespace == value) is is_equal
    if label not in paths:
        raise bad_request(f"field label not supported: {label}")
    return lambda record: (record.fields[label] == value) is is_equal
