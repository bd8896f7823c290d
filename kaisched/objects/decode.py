"""Decoder of plain values and JSON bytes into objects, and encoder back.

There are two ways with one meaning. JSON of an API server goes straight into structs, which is
fast. JSON refused there, and all texts of people, go through plain values, which gives better
errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from kaisched.bad_json import BAD_JSON
from kaisched.errors import ObjectError
from kaisched.objects.explain import explain, is_at, without, without_unknown
from kaisched.objects.faults import Fault, Source, to_error
from kaisched.objects.kinds import faults_of
from kaisched.objects.wire import KubernetesObject

_T = TypeVar("_T", bound=KubernetesObject)

MAX_DEPTH: Final = 100
MAX_FAULTS: Final = 20
"""Most faults reported for one object: enough to work with, not enough to flood."""
DEFAULT_NAMESPACE: Final = "default"
_NOWHERE: Final = Source()


class BadObject(Exception):  # noqa: N818 - carries several errors, for whoever collects them
    """An object with all its errors."""

    def __init__(self, errors: list[ObjectError], obj: KubernetesObject | None = None) -> None:
        super().__init__(str(errors[0]))
        self.errors = errors
        self.obj = obj
        """What is left of the object without its faults of form, if anything, for more checks."""


def decode_json(data: bytes, type_: type[_T]) -> _T:
    """Return the object of a kind from the JSON bytes of an API server.

    Raises:
        ObjectError: the first fault of the object, with its path.

    """
    obj, problem = decode_stored(data, type_)
    if problem is not None:
        raise problem
    return obj


def decode_stored(data: bytes, type_: type[_T]) -> tuple[_T, ObjectError | None]:
    """Return an object that a server has stored, and the first fault in its contents.

    Unknown keys are faults, but are left out: a later version may have written them.

    Raises:
        ObjectError: the object has not the form of its kind.

    """
    problem = None
    try:
        obj: _T = _decoder(type_).decode(data)
    except msgspec.ValidationError:
        # A fault, or merely a null somewhere: the slow way finds out.
        obj, problem = _decode_slowly(data, type_)
    except BAD_JSON as error:
        raise ObjectError(f"no JSON: {error}", kind=type_.KIND) from None
    fault = next((it for it in faults_of(obj) if not it.is_warning), None)
    if problem is None and fault is not None:
        problem = to_error(fault, _NOWHERE, type_.KIND, obj.name)
    return obj, problem


def decode_object(
    raw: object, type_: type[_T], source: Source = _NOWHERE
) -> tuple[_T, list[ObjectError]]:
    """Return the object of a kind from plain values (dicts, lists, texts, numbers), and warnings.

    A null counts as absent. An object without a namespace, of a kind that has them, is put in
    ``default``.

    Raises:
        BadObject: the object has faults, of which it holds up to MAX_FAULTS.

    """
    try:
        obj = _form(raw, type_, source)
    except BadObject as bad:
        raise _with_more(bad, raw, type_, source) from None
    faults = list(_take(faults_of(obj)))
    errors = [to_error(it, source, type_.KIND, obj.name) for it in faults if not it.is_warning]
    if errors:
        raise BadObject(errors, obj)
    return obj, [to_error(it, source, type_.KIND, obj.name) for it in faults if it.is_warning]


def _with_more(
    bad: BadObject, raw: object, type_: type[KubernetesObject], source: Source
) -> BadObject:
    """Add the faults that an object with a wrong form has where its form is right."""
    try:
        value = without_nulls(raw)
        rest = without(value, [fault.path for fault in _take(explain(value, type_))])
        obj = _form(rest, type_, source)
    except (BadObject, ValueError, RecursionError):
        return bad
    more = [it for it in _take(faults_of(obj)) if not it.is_warning and is_at(rest, it.path)]
    return BadObject(
        [*bad.errors, *(to_error(it, source, type_.KIND, obj.name) for it in more)], obj
    )


def _form(raw: object, type_: type[_T], source: Source = _NOWHERE) -> _T:
    """Return the object if its form is right, whatever its contents."""
    name = name_in(raw)
    try:
        value = without_nulls(raw)
    except ValueError as error:
        raise BadObject([to_error(Fault((), str(error)), source, type_.KIND, name)]) from None
    faults = list(_take(_shape_faults(value, type_)))
    if faults:
        raise BadObject([to_error(it, source, type_.KIND, name) for it in faults])
    if type_.IS_NAMESPACED and isinstance(value["metadata"], dict):
        value["metadata"].setdefault("namespace", DEFAULT_NAMESPACE)
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        found = list(_take(explain(value, type_))) or [Fault((), str(error))]
        raise BadObject([to_error(it, source, type_.KIND, name) for it in found]) from None


def encode(obj: KubernetesObject) -> dict[str, Any]:
    """Convert an object to plain values, for YAML or JSON; defaults are left out."""
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    return {"apiVersion": obj.API_VERSION, "kind": obj.KIND, **plain}


def name_in(raw: object) -> str:
    """Return the name in the metadata of plain values, if there is any."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return name[:253] if isinstance(name, str) else ""


def without_nulls(value: object, depth: int = 0) -> Any:
    """Return a copy without the nulls in maps.

    Raises:
        ValueError: nested too deep, a key that is no text, or a text with half a character.

    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {
            _sound(key): without_nulls(entry, depth + 1)
            for key, entry in value.items()
            if entry is not None
        }
    if isinstance(value, list):
        return [without_nulls(entry, depth + 1) for entry in value]
    return _sound(value) if isinstance(value, str) else value


def _sound(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a key that is no text: {text!r:.40}")  # noqa: TRY004 - as documented
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"half a character in {text[:40]!r}") from None
    return text


def _take(faults: Iterator[Fault]) -> Iterator[Fault]:
    for number, fault in enumerate(faults):
        if number >= MAX_FAULTS:
            return
        yield fault


def _shape_faults(value: object, type_: type[KubernetesObject]) -> Iterator[Fault]:
    """Yield faults so basic that no object can be made."""
    if not isinstance(value, dict):
        yield Fault((), f"no {type_.KIND}, but a {type(value).__name__}")
        return
    meta = value.get("metadata", {})
    if isinstance(meta, dict) and not meta.get("name"):
        yield Fault(("metadata", "name"), "missing", fix="give the object a name")


def _decode_slowly(data: bytes, type_: type[_T]) -> tuple[_T, ObjectError | None]:
    """Return the object, and the faults of its form that could be left out."""
    try:
        value = msgspec.json.decode(data)
        try:
            return _form(value, type_), None
        except BadObject as bad:
            return _form(without_unknown(value, type_), type_), bad.errors[0]
    except BadObject as bad:
        raise bad.errors[0] from None
    except (RecursionError, *BAD_JSON) as error:
        raise ObjectError(f"no JSON: {error}", kind=type_.KIND) from None


@cache
def _decoder(type_: type[_T]) -> msgspec.json.Decoder[_T]:
    return msgspec.json.Decoder(type_)
