"""Values of selectors beyond plain ones, and how values compare: quantities and versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kaisched.core.claims.model import NANOS, ClaimError, Device, Value

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{0,30})(?:\.(?P<part>[0-9]{0,30}))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<power>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_TENS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST_POWER: Final = 30
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,17})"
_PART: Final = r"[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PART}(?:\.{_PART})*))?(?:\+{_PART}(?:\.{_PART})*)?",
    re.ASCII,
)


class Amount(NamedTuple):
    """A quantity, in billionths."""

    nanos: int


class Unreadable(NamedTuple):
    """A value that is there and that nobody here can read: of a kind of a later version."""

    why: str


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


def amount_of(text: str) -> Amount:
    """Read a quantity; raise a ClaimError for a text that is none."""
    match = _QUANTITY.fullmatch(text)
    digits = "" if match is None else match["whole"] + (match["part"] or "")
    if match is None or not digits:
        raise ClaimError(f"{text[:40]!r} is no quantity")
    suffix = match["suffix"] or ""
    power = int(match["power"]) if match["power"] else _TENS.get(suffix, 0)
    ten = max(-_MOST_POWER, min(power, _MOST_POWER)) - len(match["part"] or "")
    whole = (int(digits) << _TWOS.get(suffix, 0)) * NANOS * 10 ** max(ten, 0)
    nanos = -(-whole // 10 ** max(-ten, 0))
    return Amount(-nanos if match["sign"] == "-" else nanos)


def version_of(text: str) -> Version:
    """Read a semantic version; raise a ClaimError for a text that is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ClaimError(f"{text[:40]!r} is no semantic version")
    numbers = tuple(int(it) for it in match.groups()[:3])
    if match[4] is None:
        return Version(numbers, (1,))
    parts = tuple((0, int(it), "") if it.isdecimal() else (1, 0, it) for it in match[4].split("."))
    return Version(numbers, (0, parts))


def fields_of(device: Device) -> dict[str, Any]:
    """Return a device as selectors see it: attributes and capacities by domain and name."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in device.attributes.items():
        domain, of = _parted(name, device.driver)
        attributes.setdefault(domain, {})[of] = _readable(device, name, value)
    capacity: dict[str, dict[str, Any]] = {}
    for name, one in device.capacities.items():
        domain, of = _parted(name, device.driver)
        capacity.setdefault(domain, {})[of] = Amount(one.value.nanos)
    return {
        "driver": device.driver,
        "attributes": Domains(attributes),
        "capacity": Domains(capacity),
        "allowMultipleAllocations": device.is_shared,
    }


def _readable(device: Device, name: str, value: Value) -> Any:
    """Return a value as selectors see it; who reads one that is not known hears of it."""
    kind, plain = value
    try:
        if plain is not None:
            return version_of(str(plain)) if kind == "version" else plain
        why = "no value that is known"
    except ClaimError as error:
        why = f"no value: {error}"
    return Unreadable(f"attribute {name} of device {device.name}: {why}")


class Domains(dict[str, Any]):
    """Values by domain; a domain that a device does not have is empty."""

    def __missing__(self, key: str) -> Mapping[str, Any]:
        """Return the empty domain."""
        return {}


def _parted(name: str, driver: str) -> tuple[str, str]:
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def is_equal(left: Any, right: Any) -> bool:
    """Tell whether two values are equal; those of different kinds are not."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    return _kind(left) == _kind(right) and bool(left == right)


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raise a ClaimError where there is no order."""
    if _kind(left) != _kind(right) or not isinstance(left, bool | int | float | str):
        raise ClaimError("no such overload: values of these kinds do not compare")
    return int(left > right) - int(left < right)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__
