"""Scales: from amounts to pixels, with round numbers at the ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_UNITS: Final = (
    (86_400.0, "days", (1.0, 2.0, 5.0, 7.0, 14.0, 28.0)),
    (3600.0, "hours", (1.0, 2.0, 3.0, 6.0, 12.0)),
    (60.0, "minutes", (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
    (1.0, "seconds", (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)),
)
"""Units of time: seconds, and the distances at which people read a clock or a calendar."""
_FEWEST: Final = 3
"""Least number of units in a span shown in that unit: two days read better as 48 hours."""
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_FINE: Final = 0.01
_COARSE: Final = 100.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps amounts from ``least`` to ``most`` to pixels that may run either way."""

    least: float
    most: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of an amount."""
        part = (value - self.least) / ((self.most - self.least) or 1.0)
        return self.begin + part * (self.end - self.begin)


def nice_step(span: float, ticks: int) -> float:
    """Return a round distance of which about ``ticks`` fit into a span."""
    rough = max(span, 1e-9) / max(ticks, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def ticks_over(least: float, most: float, count: int = 5) -> list[float]:
    """Return round amounts with 0 among them, from at most ``least`` to at least ``most``."""
    least, most = min(least, 0.0), max(most, 0.0)
    step = nice_step(most - least, count)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [step * at for at in range(first, max(last, first + 1) + 1)]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads well: its seconds and its name."""
    size, name, _ = _unit(seconds)
    return size, name


def time_ticks(end_s: float, count: int = 8) -> tuple[list[float], str]:
    """Return round instants from 0 in seconds, none after the end, and the name of their unit."""
    size, name, steps = _unit(end_s)
    units = end_s / size
    step = next((it for it in steps if it >= units / count), None) or nice_step(units, count)
    return [step * at * size for at in range(int(units / step + 1e-9) + 1)], name


def label(value: float) -> str:
    """Format an amount for an axis."""
    value += 0.0  # there is no -0
    if value and abs(value) < _FINE:
        words = f"{value:.1g}"
    else:
        words = f"{value:,.2f}".rstrip("0").rstrip(".")
    return words.replace("-", "−")  # noqa: RUF001 - a minus is as wide as a digit


def short_label(value: float) -> str:
    """Format an amount beside its mark, with three digits."""
    size = abs(value)
    return label(round(value, 0 if size >= _COARSE else 1 if size >= 1 else 2))


def _unit(seconds: float) -> tuple[float, str, tuple[float, ...]]:
    return next((unit for unit in _UNITS if seconds >= _FEWEST * unit[0]), _UNITS[-1])
