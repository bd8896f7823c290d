"""Scales: from amounts to pixels, with round numbers at the ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
_UNITS: Final = ((_DAY_S, "days"), (_HOUR_S, "hours"), (_MINUTE_S, "minutes"), (1.0, "seconds"))
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """From ``least`` to ``most`` over pixels that may run either way."""

    least: float
    most: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of an amount."""
        part = (value - self.least) / ((self.most - self.least) or 1.0)
        return self.begin + part * (self.end - self.begin)


def nice_step(span: float, ticks: int) -> float:
    """Return a round distance, so that about so many fit into a span."""
    rough = max(span, 1e-9) / max(ticks, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def ticks_up_to(most: float, count: int = 5) -> list[float]:
    """Return round amounts from 0, the last of which is at least ``most``."""
    step = nice_step(most, count)
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)] or [0.0, step]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads well: its seconds and its name."""
    return next(((size, name) for size, name in _UNITS if seconds >= 2 * size), (_UNITS[-1]))


def time_ticks(end_s: float, count: int = 8) -> tuple[list[float], str]:
    """Return round instants from 0 in seconds, none after the end, and the name of their unit."""
    size, name = time_unit(end_s)
    step = nice_step(end_s / size, count)
    return [step * at * size for at in range(int(end_s / size / step + 1e-9) + 1)], name


def label(value: float) -> str:
    """Return an amount as an axis shows it."""
    if value and abs(value) < 0.01:  # noqa: PLR2004 - smaller ones need another form
        return f"{value:.1g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def in_unit(values: Sequence[float], seconds: float) -> list[str]:
    """Return instants in a unit of so many seconds."""
    return [label(value / seconds) for value in values]
