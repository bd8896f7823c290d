"""Amounts and durations as people write them, converted to exact whole numbers and back.

Amounts inside the scheduler are whole base units: milli-CPU, milli-GPU, pieces, and for memory 64
bytes, the largest unit of which both 1 MB (10^6 bytes) and 1 MiB are multiples. Texts are read with
integer arithmetic, in time linear in their length: a request of ``1e2000000`` bytes, which a
Kubernetes API server accepts, is cheap here and saturates.

Every function raises :class:`UnitError`, a ``ValueError`` with a fix.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

UNLIMITED: Final[int] = 1 << 62
"""No bound: larger than any sum of amounts, and an amount can be added to it in 64 bits."""
MAX_AMOUNT: Final[int] = 1 << 44
"""Cap of one object's amount: 1 PiB of memory. 262,144 of them reach UNLIMITED."""
MAX_QUOTA: Final[int] = 1 << 48
"""Cap of a queue's amount: 16 PiB of memory, more than the nodes of any cluster have."""
MEMORY_UNIT: Final = 64
"""Bytes in one base unit of memory, ephemeral storage and huge pages."""
MEBIBYTE: Final = (1 << 20) // MEMORY_UNIT
"""One MiB in base units."""
MEGABYTE: Final = 10**6 // MEMORY_UNIT
"""One MB in base units."""
MIG_PREFIX: Final = "nvidia.com/mig-"
"""Begins the names of resources that are MIG instances of one profile each."""
CLAIMED_GPU: Final = "gpu-by-claim"
"""Resource under which GPUs are counted that drivers offer to claims, in thousandths."""
IN_THOUSANDTHS: Final = frozenset({"cpu", "gpu", CLAIMED_GPU})
"""Resources whose base unit is a thousandth of what people count."""
MIG_SLICES_OF_GPU: Final = 7
"""Compute slices of a GPU: an instance is as many sevenths of it as it has slices."""

Amount: TypeAlias = str | int | float
"""An amount in a manifest: a Kubernetes quantity, or a plain number."""

MAX_CHARS: Final = 40
"""The most characters of an amount that is written as a text."""
_MAX_BITS: Final = 256
_MOST_KNOWN: Final = 1 << 16
_MAX_POWER: Final = 64  # 40 digits and a larger power are beyond any cap, or below any unit
_INT64_MAX: Final = (1 << 63) - 1
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<power>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i))?",
    re.ASCII,
)
_TENS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MIG_PROFILE: Final = re.compile(r"(?:([1-7])c\.)?([1-7])g\.[0-9]{1,4}gb(?:\.[a-z.]+)?", re.ASCII)
_QUANTITY_FIX: Final = "write a number with an optional suffix m, k, M, G, T, Ki, Mi, Gi or Ti"


class UnitError(ValueError):
    """A text that is no amount or duration; ``fix`` says what to write instead."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact, non-negative number: ``numerator / denominator``."""

    numerator: int
    denominator: int

    def times(self, factor: int, divisor: int, round_up: bool, most: int = MAX_AMOUNT) -> int:
        """Return ``self * factor / divisor`` as a whole number that saturates at ``most``."""
        top, bottom = self.numerator * factor, self.denominator * divisor
        return min(-(-top // bottom) if round_up else top // bottom, most)


class _Reader:
    """Reads amounts as whole numbers of one unit, and remembers texts it has read.

    A plain dict of texts is three times as fast as ``lru_cache``. Numbers are not kept, since
    Python treats 1 and 0 as equal to true and false. Errors and long texts are not kept either.
    """

    def __init__(self, factor: int, divisor: int) -> None:
        self.factor = factor
        self.divisor = divisor
        self.known: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def read(self, amount: Amount, round_up: bool) -> int:
        units = parse_quantity(amount).times(self.factor, self.divisor, round_up)
        if isinstance(amount, str):
            known = self.known[round_up]
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[amount] = units
        return units


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:  # repr() may refuse it
        return "a huge number"
    text = repr(value)
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 3] + "..."


def parse_quantity(amount: Amount) -> Quantity:
    """Read a Kubernetes quantity (``"1500m"``, ``"2Gi"``, ``"1e3"``) or a plain number, exactly.

    Raises:
        UnitError: negative, not a finite number, longer than 40 characters or not in the grammar.

    """
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        raise UnitError(f"{_shown(amount)} is no amount", _QUANTITY_FIX)
    if isinstance(amount, int):
        if amount < 0:
            raise UnitError(f"{_shown(amount)} is negative", "write an amount of 0 or more")
        return Quantity(min(amount, _INT64_MAX + 1), 1)
    if isinstance(amount, float):
        if not math.isfinite(amount):
            raise UnitError(f"{amount} is not a finite number", _QUANTITY_FIX)
        amount = repr(amount)  # the shortest text that reads back as this number
    return _parse_text(amount)


def _parse_text(text: str) -> Quantity:
    if len(text) > MAX_CHARS:
        raise UnitError(f"{_shown(text)} is longer than {MAX_CHARS} characters", _QUANTITY_FIX)
    match = _QUANTITY.fullmatch(text)
    digits = (match["whole"] + (match["part"] or "")) if match else ""
    if match is None or not digits:
        raise UnitError(f"{_shown(text)} is no amount", _QUANTITY_FIX)
    mantissa = int(digits)
    if match["sign"] == "-" and mantissa:
        raise UnitError(f"{_shown(text)} is negative", "write an amount of 0 or more")
    suffix = match["suffix"] or ""
    ten = int(match["power"]) if match["power"] else _TENS.get(suffix, 0)
    ten = max(-_MAX_POWER, min(ten, _MAX_POWER)) - len(match["part"] or "")
    mantissa <<= _TWOS.get(suffix, 0)
    return Quantity(mantissa * 10 ** max(ten, 0), 10 ** max(-ten, 0))


_MILLI: Final = _Reader(1000, 1)
_MEMORY: Final = _Reader(1, MEMORY_UNIT)
_PIECES: Final = _Reader(1, 1)


def milli_cpu(amount: Amount, round_up: bool = True) -> int:
    """Return milli-CPU. Requests round up, capacities down; saturates at MAX_AMOUNT."""
    units = _MILLI.known[round_up].get(amount) if isinstance(amount, str) else None
    return _MILLI.read(amount, round_up) if units is None else units


def memory_units(amount: Amount, round_up: bool = True) -> int:
    """Return units of 64 bytes of an amount of bytes. Requests round up, capacities down."""
    units = _MEMORY.known[round_up].get(amount) if isinstance(amount, str) else None
    return _MEMORY.read(amount, round_up) if units is None else units


def milli_gpu(amount: Amount, round_up: bool = True) -> int:
    """Return thousandths of a GPU of an amount of GPUs; saturates at MAX_AMOUNT."""
    units = _MILLI.known[round_up].get(amount) if isinstance(amount, str) else None
    return _MILLI.read(amount, round_up) if units is None else units


def count(amount: Amount, round_up: bool = True) -> int:
    """Return whole pieces, of pods or of an extended resource; saturates at MAX_AMOUNT."""
    units = _PIECES.known[round_up].get(amount) if isinstance(amount, str) else None
    return _PIECES.read(amount, round_up) if units is None else units


def is_in_bytes(resource: str) -> bool:
    """Tell whether a resource is counted in bytes: memory, ephemeral storage and huge pages."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def base_units(resource: str, amount: Amount, round_up: bool = True) -> int:
    """Return an amount in the base unit of ``cpu``, ``memory``, ``gpu`` or another resource."""
    if resource == "cpu":
        return milli_cpu(amount, round_up)
    if resource == "gpu":
        return milli_gpu(amount, round_up)
    if is_in_bytes(resource):
        return memory_units(amount, round_up)
    return count(amount, round_up)


def is_part_of_gpus(resource: str) -> bool:
    """Tell whether queues count amounts of a resource as GPUs or as parts of them."""
    return resource == CLAIMED_GPU or mig_slices(resource) > 0


def mig_slices(resource: str) -> int:
    """Return the compute slices of a MIG instance by its resource; 0 for any other name.

    ``3g.20gb`` has three of the seven slices of a GPU, ``1c.3g.20gb`` has one of them.
    """
    if not resource.startswith(MIG_PREFIX):
        return 0
    profile = _MIG_PROFILE.fullmatch(resource, len(MIG_PREFIX))
    return int(profile[1] or profile[2]) if profile else 0


def format_amount(resource: str, base: int) -> str:
    """Return base units for people, exactly: 1500 milli-GPU is "1.5", 2 GiB is "2Gi"."""
    if base >= UNLIMITED:
        return "unlimited"
    if base < 0:
        return "-" + format_amount(resource, -base)
    prefix = ">=" if base >= MAX_AMOUNT else ""
    if resource in IN_THOUSANDTHS:
        return prefix + _decimal(base, 1000)
    if not is_in_bytes(resource):
        return f"{prefix}{base}"
    for step, suffix in _SHOWN:
        if base >= step and base * 100 % step == 0:  # two decimals tell it exactly
            return prefix + _decimal(base, step) + suffix
    return f"{prefix}{base * MEMORY_UNIT}"


_SHOWN: Final = (
    *((MEBIBYTE << power, suffix) for power, suffix in ((30, "Pi"), (20, "Ti"), (10, "Gi"))),
    (1000 * MEGABYTE, "G"),
    (MEBIBYTE, "Mi"),
    (MEGABYTE, "M"),
    (1024 // MEMORY_UNIT, "Ki"),
)
"""Base units of memory in one of each suffix. Whole gigabytes read better than as MiB."""


def _decimal(numerator: int, denominator: int) -> str:
    whole, rest = divmod(numerator, denominator)
    return f"{whole}.{rest * 1000 // denominator:03d}".rstrip("0").rstrip(".")


_NANOS: Final = {
    "y": 31_536_000 * 10**9,
    "w": 604_800 * 10**9,
    "d": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "\u03bcs": 10**3,  # small letter mu: Go accepts both
    "ns": 1,
}
MAX_DURATION_S: Final = 10 * 31_536_000
"""Ten years: longer durations are mistakes."""
_STEP: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|\u03bcs|ms|y|w|d|h|m|s)", re.ASCII)
_DURATION_FIX: Final = 'write numbers with units, the largest first, such as "90s", "1h30m" or "1w"'


def parse_duration(text: object, *, allow_negative: bool = False) -> float:
    """Return the seconds of a duration in Prometheus (``1w2d``) or Go (``1h30m``, ``1.5h``) form.

    Units y (365 days), w, d, h, m, s, ms, us (or µs) and ns, each once at most, in falling order.

    Args:
        text: the duration; only ``0`` may go without a unit.
        allow_negative: accept a leading minus, where negative means "never".

    Raises:
        UnitError: another form, a bare number, negative, or longer than ten years.

    """
    if text in ("0", 0) and not isinstance(text, bool):
        return 0.0
    if not isinstance(text, str):
        if not isinstance(text, int | float) or isinstance(text, bool):
            raise UnitError("no duration", _DURATION_FIX)
        is_usable = text >= 0 or allow_negative
        fix = f'write "{_shown(text)}s" for seconds' if is_usable else _DURATION_FIX
        raise UnitError(f"{_shown(text)} has no unit", fix)
    if len(text) > 2 * MAX_CHARS:
        raise UnitError(f"{_shown(text)} is longer than {2 * MAX_CHARS} characters", _DURATION_FIX)
    is_negative = text.startswith("-")
    seconds = _unsigned_duration(text, text[text.startswith(("-", "+")) :])
    if is_negative and not allow_negative:
        raise UnitError(f"{_shown(text)} is negative", "write a duration of 0s or more")
    return -seconds if is_negative else seconds


def _unsigned_duration(text: str, rest: str) -> float:
    total, last, at = Fraction(0), math.inf, 0
    while at < len(rest) or at == 0:
        step = _STEP.match(rest, at)
        digits = (step[1] + (step[2] or "")) if step else ""
        if step is None or not digits:
            is_bare = rest.replace(".", "", 1).isascii() and rest.replace(".", "", 1).isdigit()
            what = "has no unit" if is_bare else "is no duration"
            raise UnitError(
                f"{_shown(text)} {what}",
                f'write "{rest}s" for seconds' if is_bare else _DURATION_FIX,
            )
        if _NANOS[step[3]] >= last:
            raise UnitError(f"{_shown(text)} has its units out of order", _DURATION_FIX)
        last = _NANOS[step[3]]
        total += Fraction(int(digits) * last, 10 ** len(step[2] or ""))
        at = step.end()
    if total > MAX_DURATION_S * 10**9:
        raise UnitError(f"{_shown(text)} is longer than ten years", "write at most 10y")
    return float(total / 10**9)


def format_duration(seconds: float) -> str:
    """Return the canonical Prometheus form, to the nanosecond: 90 is "1m30s", 604800 is "1w"."""
    if not math.isfinite(seconds):
        raise UnitError(f"{seconds} is not a finite number of seconds")
    nanos = round(Fraction(abs(seconds)) * 10**9)
    text = ""
    for unit in ("y", "w", "d", "h", "m", "s", "ms", "us", "ns"):
        size = _NANOS[unit]
        # Years and weeks only where nothing is left over: 8d reads better than 1w1d.
        if nanos >= size and (unit not in "yw" or nanos % size == 0):
            text += f"{nanos // size}{unit}"
            nanos %= size
    return ("-" if seconds < 0 and text else "") + (text or "0s")
