"""Faults in one object, before its file is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

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
