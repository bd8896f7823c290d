"""Selectors of devices: expressions of the Common Expression Language (CEL), by its library.

The library knows the whole language, but nothing of quantities and versions, which Kubernetes adds:
they are maps to it, in one form for each value, so that equal ones are equal. Each expression is
evaluated once for all devices that are alike in the attributes and capacities that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from kaisched.core.claims.model import (
    NANOS,
    ClaimError,
    Device,
    Named,
    Value,
    nanos_of,
    profile_of,
)

MISSING: Final = "it needs the library cel-expr-python, which is not installed"
MOST_CHARACTERS: Final = 10_240
"""Characters of an expression, as in the API."""
MOST_GROWTH: Final = 12
"""How often a value may grow where another takes it up: ``x + x`` in nested ``bind`` doubles a text
each time, and ``replace`` squares it. The library itself bounds the rounds of macros."""
_MOST_PROFILES: Final = 100_000
_MOST_TOLD: Final = 200
_QUANTITY, _VERSION = "quantity", "semver"
_TEXT: Final = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""", re.DOTALL)
_FIELD: Final = re.compile(
    r"""(?<![\w.`])device\s*(?:
        \.\s*(?P<kind>attributes|capacity)\s*\[\s*(?P<mark>["'])(?P<domain>[^"'\\]*)(?P=mark)\s*\]
        \s*(?:\.\s*(?P<name>\w+)\b(?!\s*\()|\[\s*(["'])(?P<quoted>[^"'\\]*)\5\s*\])
        |\.\s*(?:driver|allowMultipleAllocations)\b)""",
    re.VERBOSE | re.ASCII,
)
"""What an expression reads of a device: ``device.attributes["domain"].name`` or the like."""
_KEEPS: Final = re.compile(
    r"\bbind\b|\b(?:map|filter|all|exists|exists_one)\s*\(|replace|join|format"
)
_GROWS: Final = re.compile(r"\+|\b(?P<squares>replace|join|format)\s*\(")
_SQUARES: Final = 6
"""An operation that squares a text counts as so many that double it."""
_MACRO: Final = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|transform\w*)\s*\(")
_MOST_ROUNDS: Final = 10_000
"""Rounds of macros after which the library gives an evaluation up."""
_PLAIN: Final = 200
"""Characters that count as one evaluation: it takes some microseconds."""
_NO_SYNTAX: Final = re.compile(r"Syntax error|invalid [a-z ]*int literal")


class CelSelector:
    """A selector, with the answers for the devices seen."""

    def __init__(self, text: str) -> None:
        """Compile the expression; one that cannot be evaluated fails when it is asked."""
        self.text = text
        self.fault = ""
        """Why the expression cannot be evaluated for any device; empty if it can."""
        self.is_syntax = True
        """Whether the expression may be right elsewhere, if it has a fault."""
        self.weight = _weight_of(text)
        """As how many plain evaluations one of the expression counts, at most."""
        self.named = _named_in(text)
        """The fields on which the answer depends; None for all."""
        self._answers: dict[tuple[Any, ...], bool | str] = {}
        # Domains that no device has are empty maps, and not missing as the library has it.
        self._domains: dict[str, Any] = {it[2]: {} for it in _TEXT.finditer(text)}
        try:
            self._expression = _compiled(text)
        except ClaimError as error:
            self.fault = f"selector {text!r}: {error}"
            self.is_syntax = not _NO_SYNTAX.match(str(error))

    def matches(self, device: Device) -> bool:
        """Tell whether a device matches.

        Raises:
            ClaimError: the expression fails for the device, or is not understood.

        """
        if self.fault:
            raise ClaimError(self.fault)
        profile = profile_of(device, self.named)
        answer = self._answers.get(profile)
        if answer is None:
            if len(self._answers) >= _MOST_PROFILES:
                self._answers.clear()
            answer = self._answers[profile] = self._evaluated(device)
        if isinstance(answer, str):
            raise ClaimError(answer)
        return answer

    @property
    def profiles(self) -> int:
        """For how many kinds of devices the expression was evaluated."""
        return len(self._answers)

    def _evaluated(self, device: Device) -> bool | str:
        try:
            found = self._expression.eval(data={"device": self._fields_of(device)})
        except (ClaimError, RuntimeError) as error:
            return f"selector {self.text!r}: {_plain(error)}"
        answer = found.value()
        if isinstance(answer, bool):
            return answer
        if found.type() == library().Type.ERROR:
            return f"selector {self.text!r}: {_plain(answer)}"
        return f"selector {self.text!r} is not true or false"

    def _fields_of(self, device: Device) -> dict[str, Any]:
        """Return a device as selectors see it: attributes and capacities by domain and name."""
        attributes, capacity = dict(self._domains), dict(self._domains)
        for name, value in device.attributes.items():
            domain, of = _parted(name, device.driver)
            try:
                attributes[domain] = {**attributes.get(domain, {}), of: _of_attribute(value)}
            except ClaimError as error:
                if self._reads(domain, of):
                    raise ClaimError(f"attribute {name} of device {device.name}: {error}") from None
        for name, one in device.capacities.items():
            domain, of = _parted(name, device.driver)
            amount = {_QUANTITY: str(one.value.nanos)}
            capacity[domain] = {**capacity.get(domain, {}), of: amount}
        return {
            "driver": device.driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": device.is_shared,
        }

    def _reads(self, domain: str, name: str) -> bool:
        """Tell whether the expression may read an attribute."""
        if self.named is None:
            return name in self.text
        return ("attributes", f"{domain}/{name}") in self.named


def _parted(name: str, driver: str) -> tuple[str, str]:
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def _of_attribute(value: Value) -> Any:
    """Return an attribute as the library has it; one of a kind of a later version is refused."""
    kind, plain = value
    if plain is None:
        raise ClaimError("no value that is known")
    if kind != "version":
        return plain
    try:
        return {_VERSION: str(version_of(str(plain)))}
    except ClaimError as error:
        raise ClaimError(f"no value: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceClass:
    """Devices of one sort, with settings for their driver."""

    name: str
    selectors: tuple[CelSelector, ...] = ()
    configs: tuple[bytes, ...] = ()
    """Opaque settings, each as JSON."""


def is_in(of_class: DeviceClass, device: Device) -> bool:
    """Tell whether a device is in a class; it is not where an expression fails for it."""
    try:
        return all(it.matches(device) for it in of_class.selectors)
    except ClaimError:
        return False


# -- expressions ---------------------------------------------------------------------------------


@cache
def library() -> Any:
    """Return the module of the library; None where it is not installed."""
    try:
        return import_module("cel_expr_python.cel")
    except ImportError:
        return None


def _compiled(text: str) -> Any:
    """Compile an expression.

    Raises:
        ClaimError: the library does not understand it, or there is none.

    """
    if len(text) > MOST_CHARACTERS:
        raise ClaimError(f"the expression is longer than {MOST_CHARACTERS:,} characters")
    if _growth_of(text) > MOST_GROWTH:
        raise ClaimError("a text or list in it could grow without end")
    if library() is None:
        raise ClaimError(MISSING)
    try:
        return _environment().compile(text)
    except RuntimeError as error:
        raise ClaimError(_plain(error)) from None


def _growth_of(text: str) -> int:
    """Return how often a value of an expression may be doubled."""
    growth = sum(_SQUARES if it["squares"] else 1 for it in _GROWS.finditer(text))
    return growth if _KEEPS.search(text) else 0


def _weight_of(text: str) -> int:
    """Return as how many plain evaluations one of an expression counts, at most.

    Every round of a macro may read all of the text, and lists are no longer than that.
    """
    macros = len(_MACRO.findall(text))
    rounds = min((len(text) // 2) ** min(macros, 3), _MOST_ROUNDS)
    plain: int = -(-len(text) * max(rounds, 1) // _PLAIN)
    return plain << min(_growth_of(text), MOST_GROWTH)


def _named_in(text: str) -> Named:
    """Return the fields of a device that an expression reads; None if it may read all."""
    if re.search(r"\bdevice\b", _FIELD.sub("", text)):
        return None
    fields = {
        (it["kind"], f"{it['domain']}/{it['name'] or it['quoted']}")
        for it in _FIELD.finditer(text)
        if it["kind"]
    }
    return tuple(sorted(fields))


def names_of(selectors: Iterable[CelSelector]) -> Named:
    """Return the fields of a device that any of some expressions reads; None for all."""
    fields: set[tuple[str, str]] = set()
    for each in selectors:
        if each.named is None:
            return None
        fields.update(each.named)
    return tuple(sorted(fields))


def _plain(error: object) -> str:
    """Return the first thing that the library says, without its codes and its drawing."""
    line = str(error).split("\n", 1)[0]
    for at in (r"^[A-Z_]+: ", r"^ERROR: ", r"^<input>:\d+:\d+: ", r" \[[A-Z_]+\]$"):
        line = re.sub(at, "", line)
    return line.partition(" expecting {")[0][:_MOST_TOLD]


# -- quantities and versions ---------------------------------------------------------------------

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,17})"
_PART: Final = r"[0-9A-Za-z-]+"
_SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PART}(?:\.{_PART})*))?(?:\+{_PART}(?:\.{_PART})*)?",
    re.ASCII,
)


class Version(NamedTuple):
    """A semantic version, in the order in which they compare."""

    numbers: tuple[int, ...]
    rank: tuple[Any, ...]
    """Of what follows the numbers: a version without comes after all with one."""

    def __str__(self) -> str:
        """Return the version as it is written, without what does not count in comparisons."""
        numbers, parts = ".".join(map(str, self.numbers)), self.rank[1:]
        words = ".".join(str(it[1]) if it[0] == 0 else it[2] for it in parts[0]) if parts else ""
        return f"{numbers}-{words}" if words else numbers


def version_of(text: str) -> Version:
    """Read a semantic version; raise a ClaimError for a text that is none."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ClaimError(f"{text[:40]!r} is no semantic version")
    numbers = tuple(int(it) for it in match.groups()[:3])
    if match[4] is None:
        return Version(numbers, (1,))
    parts = tuple((0, int(it), "") if it.isdecimal() else (1, 0, it) for it in match[4].split("."))
    return Version(numbers, (0, parts))


def _read(value: Any) -> int | Version:
    """Return a quantity in billionths, or a version, from the map that it is to the library."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind == _QUANTITY:
            return int(text)
        if kind == _VERSION:
            return version_of(text)
    raise ClaimError("no such overload: this value is neither a quantity nor a version")


def _nanos(value: Any) -> int:
    found = _read(value)
    if isinstance(found, Version):
        raise ClaimError("no such overload: this value is no quantity")
    return found


def _number(value: Any, at: int) -> int:
    found = _read(value)
    if not isinstance(found, Version):
        raise ClaimError("no such overload: this value is no version")
    return found.numbers[at]


def _compared(left: Any, right: Any) -> int:
    one, other = _read(left), _read(right)
    if isinstance(one, Version) and isinstance(other, Version):
        return int(one > other) - int(one < other)
    first, second = _nanos(left), _nanos(right)
    return int(first > second) - int(first < second)


def _quantity(nanos: int) -> dict[str, str]:
    return {_QUANTITY: str(nanos)}


def _whole(value: Any) -> int:
    nanos = _nanos(value)
    if nanos % NANOS:
        raise ClaimError("the quantity is no whole number")
    return nanos // NANOS


def _can(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def answer(text: str) -> bool:
        try:
            read(text)
        except ClaimError:
            return False
        return True

    return answer


_FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "quantity": ("s>m", lambda text: _quantity(nanos_of(text))),
    "isQuantity": ("s>b", _can(nanos_of)),
    "semver": ("s>m", lambda text: {_VERSION: str(version_of(text))}),
    "isSemver": ("s>b", _can(version_of)),
    "compareTo": ("mm>i", _compared),
    "isGreaterThan": ("mm>b", lambda a, b: _compared(a, b) > 0),
    "isLessThan": ("mm>b", lambda a, b: _compared(a, b) < 0),
    "major": ("m>i", lambda of: _number(of, 0)),
    "minor": ("m>i", lambda of: _number(of, 1)),
    "patch": ("m>i", lambda of: _number(of, 2)),
    "sign": ("m>i", lambda of: (_nanos(of) > 0) - (_nanos(of) < 0)),
    "add": ("mm>m", lambda a, b: _quantity(_nanos(a) + _nanos(b))),
    "sub": ("mm>m", lambda a, b: _quantity(_nanos(a) - _nanos(b))),
    "isInteger": ("m>b", lambda of: _nanos(of) % NANOS == 0),
    "asInteger": ("m>i", _whole),
    "asApproximateFloat": ("m>d", lambda of: _nanos(of) / NANOS),
}
"""Functions of Kubernetes by name: kinds of the arguments, ``>`` and the kind of the answer. A map,
m, is a quantity or a version, and those that take one are its methods."""


@cache
def _environment() -> Any:
    """Return the environment of all expressions: the variable, extensions, and our functions."""
    cel, ext = library(), "cel_expr_python.ext"
    kind = cel.Type
    kinds = {"m": kind.MAP, "s": kind.STRING, "i": kind.INT, "b": kind.BOOL, "d": kind.DOUBLE}
    functions = []
    for name, (kinds_of, answer) in _FUNCTIONS.items():
        given, _, answered = kinds_of.partition(">")
        overload = cel.Overload(
            f"{name}_{given}",
            return_type=kinds[answered],
            parameters=[kinds[it] for it in given],
            is_member=given[0] == "m",
            impl=answer,
        )
        functions.append(cel.FunctionDecl(name, [overload]))
    extensions = [
        import_module(f"{ext}.ext_bindings").ExtBindings(),
        import_module(f"{ext}.ext_optional").ExtOptional(),
        import_module(f"{ext}.ext_strings").ExtStrings(),
    ]
    return cel.NewEnv(variables={"device": kind.DYN}, extensions=extensions, functions=functions)
