"""The input and the result of a victim search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Claim, Unit


@dataclass(slots=True)
class Plan:
    """A statement in which the claim is placed, and the units that it costs."""

    statement: Statement
    units: list[Unit]
    """Units that lose their room."""
    pass_number: int = 0
    """The pass of the search that found the plan."""
    moved: int = 0
    """Pods that make way by moving, though no claim could evict them."""


@dataclass(slots=True)
class Demand:
    """A claim's pods by shape."""

    claim: Claim
    tasks: RowVec
    shapes: list[tuple[int, int]]
    """(shape, pods)."""


def without(units: list[Unit], some: list[Unit]) -> list[Unit]:
    """Leave out units, except those that go along with others."""
    left_out = set(some)
    going = Going(unit for unit in units if unit not in left_out)
    return [unit for unit in units if unit not in left_out or going.takes(unit)]
