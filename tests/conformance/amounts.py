"""Amounts of cases in base units: exact, in a unit fine enough for every number of the case.

A base unit of CPU and memory is only an integer to the scheduler. A case counts CPU in millicores
and memory in bytes; where it splits those, the whole case is counted in thousandths of them.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from kaisched.core.axis import CPU, GPU, GPU_UNIT, MEMORY
from kaisched.units import UNLIMITED

ROWS = {"cpu_millis": CPU, "memory_bytes": MEMORY, "gpu": GPU}
RESOURCES = 4
FINE = 1000


def exact(number: float) -> Fraction:
    """Return the number as it is written, not its nearest binary fraction."""
    return Fraction(repr(number))


class Scale:
    """Turns the amounts of one case into base units and back."""

    def __init__(self, numbers: Mapping[str, Iterable[float]]) -> None:
        """Choose the unit of each resource from all its ``numbers`` in the case."""
        self.unit = np.ones(RESOURCES, np.int64)
        self.unit[GPU] = GPU_UNIT
        for name, row in ROWS.items():
            if row != GPU and any(
                exact(number).denominator > 1 for number in numbers.get(name, ())
            ):
                self.unit[row] = FINE

    @classmethod
    def of(cls, *cases: Any) -> "Scale":
        """Look through the inputs of a case for amounts."""
        numbers: dict[str, list[float]] = {name: [] for name in ROWS}
        for case in cases:
            _collect(case, numbers)
        return cls(numbers)

    def amount(self, resource: str, number: float, *, round_up: bool = True) -> int:
        """Return base units; -1 is unlimited."""
        if number == -1:
            return UNLIMITED
        value = exact(number) * int(self.unit[ROWS[resource]])
        return math.ceil(value) if round_up else math.floor(value)

    def number(self, resource: str, amount: int) -> float:
        """Return the number of the case that base units stand for."""
        return -1 if amount == UNLIMITED else amount / int(self.unit[ROWS[resource]])

    def column(self, amounts: Mapping[str, float | None], *, round_up: bool = True) -> np.ndarray:
        """Return ``(R,)`` of amounts by resource name; absent is 0."""
        column = np.zeros(RESOURCES, np.int64)
        for name, row in ROWS.items():
            column[row] = self.amount(name, amounts.get(name) or 0, round_up=round_up)
        return column

    def shares(self, queues: Iterable[Mapping[str, Any]], field: str) -> np.ndarray:
        """Return ``(R, K)`` of one field of the queues' share objects."""
        return (
            np.array(
                [
                    self.column({name: (queue.get(name) or {}).get(field, 0) for name in ROWS})
                    for queue in queues
                ],
                np.int64,
            )
            .reshape(-1, RESOURCES)
            .T
        )


def weights(queues: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Return ``(R, K)`` over-quota weights."""
    columns = np.zeros((RESOURCES, len(list(queues := list(queues)))), np.float64)
    for at, queue in enumerate(queues):
        for name, row in ROWS.items():
            columns[row, at] = max(0.0, (queue.get(name) or {}).get("over_quota_weight", 0))
    return columns


def _collect(case: Any, numbers: dict[str, list[float]]) -> None:
    if isinstance(case, Mapping):
        for key, value in case.items():
            if key in numbers and isinstance(value, int | float):
                numbers[key].append(value)
            elif key in numbers and isinstance(value, Mapping):
                amounts = (
                    value.get(f)
                    for f in (
                        "deserved",
                        "fair_share",
                        "max_allowed",
                        "allocated",
                        "allocated_non_preemptible",
                        "request",
                    )
                )
                numbers[key].extend(amount for amount in amounts if amount is not None)
            else:
                _collect(value, numbers)
    elif isinstance(case, list):
        for value in case:
            _collect(value, numbers)
