"""Functions and methods that selectors call, apart from those that name variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kaisched.core.claims.cel_values import Amount, Version, amount_of, version_of
from kaisched.core.claims.model import ClaimError


def call(name: str, args: list[Any]) -> Any:
    """Return what a function or method gives; the target of a method is the first argument.

    Raises:
        ClaimError: the arguments have other kinds than the function takes.

    """
    for kinds, answer in _KNOWN[name]:
        if len(kinds) == len(args) and all(map(_is, args, kinds)):
            return answer(*args)
    raise ClaimError(f"no such overload: {name}")


def is_known(name: str) -> bool:
    """Tell whether there is a function or method of this name."""
    return name in _KNOWN


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _can(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def answer(text: str) -> bool:
        try:
            read(text)
        except ClaimError:
            return False
        return True

    return answer


_Overload = tuple[tuple[Any, ...], Callable[..., Any]]
_ORDERED: Final = (Amount, Version)
_KNOWN: Final[dict[str, list[_Overload]]] = {
    "size": [((str,), len), ((list,), len), ((dict,), len)],
    "quantity": [((str,), amount_of)],
    "isQuantity": [((str,), _can(amount_of))],
    "semver": [((str,), version_of)],
    "isSemver": [((str,), _can(version_of))],
    "string": [((str,), str), ((int,), str)],
    "contains": [((str, str), lambda text, part: part in text)],
    "startsWith": [((str, str), lambda text, part: text.startswith(part))],
    "endsWith": [((str, str), lambda text, part: text.endswith(part))],
    "lowerAscii": [
        ((str,), lambda text: "".join(it.lower() if it.isascii() else it for it in text))
    ],
    "upperAscii": [
        ((str,), lambda text: "".join(it.upper() if it.isascii() else it for it in text))
    ],
    "trim": [((str,), str.strip)],
    "compareTo": [((kind, kind), _sign) for kind in _ORDERED],
    "isGreaterThan": [((kind, kind), lambda a, b: bool(a > b)) for kind in _ORDERED],
    "isLessThan": [((kind, kind), lambda a, b: bool(a < b)) for kind in _ORDERED],
    "major": [((Version,), lambda of: of.numbers[0])],
    "minor": [((Version,), lambda of: of.numbers[1])],
    "patch": [((Version,), lambda of: of.numbers[2])],
    "sign": [((Amount,), lambda of: _sign(of.nanos, 0))],
    "add": [((Amount, Amount), lambda a, b: Amount(a.nanos + b.nanos))],
    "sub": [((Amount, Amount), lambda a, b: Amount(a.nanos - b.nanos))],
}
