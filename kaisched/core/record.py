"""Records: dataclasses that are made anew in every cycle and never change.

A frozen dataclass sets each of its fields through ``object.__setattr__``: 0.35 us a field in place
of 0.02. The tables, the snapshot and the result of a cycle have some 70 fields, which was 4 % of a
simulated cycle. So records are not frozen at run time; the type checker forbids changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots and identity equality, frozen for the type checker only."""
    return dataclass(slots=True, eq=False)(cls)
