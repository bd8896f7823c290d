"""Records: the frozen dataclasses that are made anew in every cycle.

A frozen dataclass sets each of its fields through ``object.__setattr__``: 0.35 us a field in place
of 0.02. The tables, the snapshot and the result of a cycle have some 70 fields, which was 4 % of a
simulated cycle. So the type checker is what keeps a record as it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots, equal to itself only, that the type checker holds for frozen."""
    return dataclass(slots=True, eq=False)(cls)
