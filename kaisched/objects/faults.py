"""Faults in objects: what is wrong, where and how to fix it, and why a value fits no type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from kaisched.errors import ABSENT, ObjectError, join_path
from kaisched.units import UnitError, parse_duration

INT32_MAX: Final = (1 << 31) - 1
_MAX_WORD: Final = 80
_MAX_NAME: Final = 253  # Kubernetes' own bound
_MAX_KNOWN: Final = 500
_MAX_SHOWN: Final = 20

Path = tuple[str | int, ...]


class Fault(NamedTuple):
    """A fault: what is wrong, where, and how to fix it. A warning leaves the object in use."""

    path: Path
    message: str
    value: object = ABSENT
    fix: str = ""
    is_warning: bool = False


class Source(NamedTuple):
    """Source of an object: a file (or a name for it) and the number of the document there."""

    file: str = ""
    document: int = 0


def to_error(fault: Fault, source: Source, kind: str = "", name: str = "") -> ObjectError:
    """Return the error of a fault in the object called ``kind name``."""
    return ObjectError(
        fault.message,
        file=source.file,
        path=join_path(*fault.path),
        value=fault.value,
        fix=fault.fix,
        document=source.document,
        kind=kind[:_MAX_WORD],
        name=name[:_MAX_NAME],
    )


def nearest(word: str, known: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    """Return the known word that is most like ``word``, or an empty text.

    Spelling, case, hyphens and underscores may differ: ``over_quota_wieght`` is overQuotaWeight.
    """
    plain = {_plain(name): name for name in known}
    wanted = _plain(word[:_MAX_WORD])
    if wanted in plain or len(plain) > _MAX_KNOWN:  # thousands of comparisons take too long
        return plain.get(wanted, "")
    found = get_close_matches(wanted, plain, n=1, cutoff=0.7)
    return plain[found[0]] if found else ""


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """Return a fix that names the nearest known word, or else all of them."""
    near = nearest(word, known)
    if near:
        return f'did you mean "{near}"?'
    more = ", ..." if len(known) > _MAX_SHOWN else ""
    return f"known: {', '.join(sorted(known)[:_MAX_SHOWN])}{more}" if known else ""


def duration_faults(
    durations: Mapping[Path, str | int | None], *, allow_negative: bool = False
) -> Iterator[Fault]:
    """Yield a fault for each text, by path, that is no duration; None has no fault."""
    for path, text in durations.items():
        if text is not None:
            yield from unit_faults(
                path, text, lambda it: parse_duration(it, allow_negative=allow_negative)
            )


def unit_faults(path: Path, value: object, parse: Callable[[object], object]) -> Iterator[Fault]:
    """Yield the fault that ``parse`` finds in ``value``, if any."""
    try:
        parse(value)
    except UnitError as error:
        yield Fault(path, str(error), fix=error.fix)


# -- why a value does not fit a type ---------------------------------------------------------------

_WORDS: Final[dict[type, str]] = {
    inspect.StrType: "a text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.DictType: "a map",
    inspect.StructType: "a map",
}
_FORMS: Final[dict[type, tuple[type, ...]]] = {
    inspect.StrType: (str,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.BoolType: (bool,),
    inspect.ListType: (list,),
    inspect.DictType: (dict,),
    inspect.StructType: (dict,),
}


def explain(value: object, type_: type[msgspec.Struct]) -> Iterator[Fault]:
    """Yield every place where ``value``, made of plain values, does not fit the struct type."""
    yield from _walk(value, inspect.type_info(type_), ())


def without_unknown(value: object, type_: type[msgspec.Struct]) -> Any:
    """Return a copy of plain values without keys that the struct type does not know."""
    return _known(value, inspect.type_info(type_))


def without(value: object, paths: Iterable[Path]) -> object:
    """Return a copy of plain values without the entries at some paths, and lists whole."""
    if not isinstance(value, dict):
        return value
    below: dict[str | int, list[Path]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    return {
        key: without(entry, below[key]) if key in below else entry
        for key, entry in value.items()
        if key not in below or (isinstance(entry, dict) and all(below[key]))
    }


def is_at(value: object, path: Path) -> bool:
    """Tell whether plain values have an entry at a path."""
    for step in path:
        try:
            value = value[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _known(value: object, kind: inspect.Type) -> object:
    if isinstance(kind, inspect.UnionType):
        kind = next((member for member in kind.types if _fits(value, member)), kind)
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in kind.fields}
        return {
            key: _known(entry, fields[key]) if key in fields else entry
            for key, entry in value.items()
            if key in fields or not kind.forbid_unknown_fields
        }
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {key: _known(entry, kind.value_type) for key, entry in value.items()}
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [_known(entry, kind.item_type) for entry in value]
    return value


def _walk(value: object, kind: inspect.Type, path: Path) -> Iterator[Fault]:
    if isinstance(kind, inspect.UnionType):
        yield from _walk_union(value, kind, path)
    elif isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            words = [str(word) for word in kind.values]
            fix = did_you_mean(value, words) if isinstance(value, str) else ""
            fix = fix if fix.endswith("?") else f"write {' or '.join(words)}"
            yield Fault(path, "no such choice", value, fix)
    elif not _fits(value, kind):
        yield _mismatch(value, (kind,), path)
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        yield from _walk_struct(value, kind, path)
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for key, entry in value.items():
            yield from _walk(entry, kind.value_type, (*path, key))
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for at, entry in enumerate(value):
            yield from _walk(entry, kind.item_type, (*path, at))


def _walk_union(value: object, kind: inspect.UnionType, path: Path) -> Iterator[Fault]:
    for member in kind.types:
        if isinstance(member, inspect.LiteralType) or _fits(value, member):
            if not isinstance(member, inspect.NoneType):
                yield from _walk(value, member, path)
            return
    yield _mismatch(value, kind.types, path)


def _walk_struct(value: dict[str, Any], kind: inspect.StructType, path: Path) -> Iterator[Fault]:
    known = {field.encode_name: field for field in kind.fields}
    for key, entry in value.items():
        if key in known:
            yield from _walk(entry, known[key].type, (*path, key))
        elif kind.forbid_unknown_fields:
            yield Fault((*path, key), "unknown key", fix=did_you_mean(key, list(known)))
    for name, field in known.items():
        if field.required and name not in value:
            yield Fault((*path, name), "missing", fix=f"add {name}")


def _fits(value: object, kind: inspect.Type) -> bool:
    """Tell whether a value has the outer form of a type, as msgspec decides."""
    if isinstance(kind, inspect.NoneType):
        return value is None
    if isinstance(kind, inspect.IntType) and isinstance(value, float):
        return value.is_integer()
    forms = _FORMS.get(type(kind))
    if forms is None:
        return True
    return isinstance(value, forms) and (bool in forms or not isinstance(value, bool))


def _mismatch(value: object, kinds: tuple[inspect.Type, ...], path: Path) -> Fault:
    words = list(dict.fromkeys(_WORDS[type(it)] for it in kinds if type(it) in _WORDS))
    if "a number" in words and "a whole number" in words:
        words.remove("a whole number")
    expected = " or ".join(words)
    return Fault(path, f"expected {expected}, got {_form(value)}", value, _fix(value, words))


def _form(value: object) -> str:
    forms: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (str, "a text"),
        (int, "a whole number"),
        (float, "a number"),
        (list, "a list"),
        (dict, "a map"),
    )
    return next((form for type_, form in forms if isinstance(value, type_)), "nothing")


def _fix(value: object, words: list[str]) -> str:
    if isinstance(value, str) and ("a number" in words or "a whole number" in words):
        return "write a plain number, without quotes or unit"
    if "a text" in words and isinstance(value, bool | int | float):
        return f'put it in quotes: "{str(value).lower()}"'
    if words == ["true or false"]:
        return "write true or false, without quotes"
    if words == ["a map"]:
        return 'write "key: value" lines, without dashes'
    if words == ["a list"]:
        return "write one entry a line, each after a dash"
    return f"write {' or '.join(words)}"
