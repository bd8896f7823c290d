"""Evaluates expressions that the evaluator here does not understand, by the library for CEL.

The library is an extra (``kaisched[cel]``). It knows the whole language, but nothing of quantities
and versions, which Kubernetes adds: they are maps to it, in one form for each value, so that equal
ones are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from kaisched.core.claims.cel_functions import call
from kaisched.core.claims.cel_tokens import MOST_CHARACTERS
from kaisched.core.claims.cel_values import Amount, Unreadable, Version, fields_of, version_of
from kaisched.core.claims.model import NANOS, ClaimError, Device

_TEXT: Final = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""", re.DOTALL)
_AMOUNT, _VERSION = "quantity", "semver"
_MOST_TOLD: Final = 200

Answer = Callable[[Device], Any]


@cache
def library() -> Any:
    """Return the module of the library; None where it is not installed."""
    try:
        return import_module("cel_expr_python.cel")
    except ImportError:
        return None


def expression(text: str) -> Answer | None:
    """Compile an expression; None where the library is not installed.

    Raises:
        ClaimError: the library does not understand it either.

    """
    if library() is None or len(text) > MOST_CHARACTERS:
        return None
    try:
        compiled = _environment().compile(text)
    except RuntimeError as error:
        raise ClaimError(_plain(error)) from None
    # Domains that no device has are empty maps, and not missing as the library has it.
    domains: dict[str, Any] = {it[2]: {} for it in _TEXT.finditer(text)}

    def answer(device: Device) -> Any:
        known = fields_of(device)
        known["attributes"] = _readable(text, known["attributes"])
        for kind in ("attributes", "capacity"):
            known[kind] = {**domains, **{key: _written(it) for key, it in known[kind].items()}}
        found = compiled.eval(data={"device": known})
        if found.type() == library().Type.ERROR:
            raise ClaimError(_plain(found.value()))
        return found.value()

    return answer


def _readable(text: str, attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return attributes without those that cannot be read.

    Raises:
        ClaimError: the expression has the name of one of these.

    """
    found: dict[str, Any] = {}
    for domain, values in attributes.items():
        for name, value in values.items():
            if isinstance(value, Unreadable) and name in text:
                raise ClaimError(value.why)
        found[domain] = {key: it for key, it in values.items() if not isinstance(it, Unreadable)}
    return found


# -- quantities and versions ---------------------------------------------------------------------


@cache
def _environment() -> Any:
    """Return the environment of all expressions: the variable, extensions, and our functions."""
    cel, ext = library(), "cel_expr_python.ext"
    return cel.NewEnv(
        variables={"device": cel.Type.DYN},
        extensions=[
            import_module(f"{ext}.ext_bindings").ExtBindings(),
            import_module(f"{ext}.ext_optional").ExtOptional(),
            import_module(f"{ext}.ext_strings").ExtStrings(),
        ],
        functions=[_declared(cel, name, overloads) for name, overloads in _OVERLOADS.items()],
    )


def _declared(cel: Any, name: str, overloads: tuple[str, ...]) -> Any:
    """Declare a function; it has the same answers as in the evaluator here."""
    kinds = {
        "m": cel.Type.MAP,
        "s": cel.Type.STRING,
        "i": cel.Type.INT,
        "b": cel.Type.BOOL,
        "d": cel.Type.DOUBLE,
    }
    answer = _OWN.get(name) or _of_here(name)
    made = [
        cel.Overload(
            f"{name}_{it}",
            return_type=kinds[it[-1]],
            parameters=[kinds[each] for each in it[:-2]],
            is_member=it[0] == "m",
            impl=answer,
        )
        for it in overloads
    ]
    return cel.FunctionDecl(name, made)


def _of_here(name: str) -> Callable[..., Any]:
    def answer(*args: Any) -> Any:
        return _written(call(name, [_read(it) for it in args]))

    return answer


def _written(value: Any) -> Any:
    """Return a value as the library has it."""
    if isinstance(value, Amount):
        return {_AMOUNT: str(value.nanos)}
    if isinstance(value, Version):
        return {_VERSION: str(value)}
    if isinstance(value, Mapping):
        return {key: _written(it) for key, it in value.items()}
    return [_written(it) for it in value] if isinstance(value, list) else value


def _read(value: Any) -> Any:
    """Return a value of the library as it is here."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind == _AMOUNT:
            return Amount(int(text))
        if kind == _VERSION:
            return version_of(text)
    return value


def _nanos(value: Any) -> int:
    amount = _read(value)
    if not isinstance(amount, Amount):
        raise ClaimError("no such overload: this value is no quantity")
    return amount.nanos


def _whole(value: Any) -> int:
    nanos = _nanos(value)
    if nanos % NANOS:
        raise ClaimError("the quantity is no whole number")
    return nanos // NANOS


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "isInteger": lambda value: _nanos(value) % NANOS == 0,
    "asInteger": _whole,
    "asApproximateFloat": lambda value: _nanos(value) / NANOS,
}
_OVERLOADS: Final = {
    "quantity": ("s>m",),
    "isQuantity": ("s>b",),
    "semver": ("s>m",),
    "isSemver": ("s>b",),
    "compareTo": ("mm>i",),
    "isGreaterThan": ("mm>b",),
    "isLessThan": ("mm>b",),
    "major": ("m>i",),
    "minor": ("m>i",),
    "patch": ("m>i",),
    "sign": ("m>i",),
    "add": ("mm>m",),
    "sub": ("mm>m",),
    "isInteger": ("m>b",),
    "asInteger": ("m>i",),
    "asApproximateFloat": ("m>d",),
}
"""Functions of Kubernetes by name: kinds of the arguments, ``>`` and the kind of the answer. A map,
m, is a quantity or a version."""


def _plain(error: object) -> str:
    """Return the first thing that the library says, without its codes and its drawing."""
    line = str(error).split("\n", 1)[0]
    for at in (r"^[A-Z_]+: ", r"^ERROR: ", r"^<input>:[0-9]+:[0-9]+: "):
        line = re.sub(at, "", line)
    return line[:_MOST_TOLD]
