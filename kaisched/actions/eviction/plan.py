"""The input and the result of a victim search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.claims import Claim, Unit
    from kaisched.framework.session.statement import Statement


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
    """Leave out units, except elastic pods of a core that goes: they go with it."""
    gone = set(some)
    cores = {unit.job for unit in units if unit.is_core and unit not in gone}
    return [unit for unit in units if unit not in gone or unit.job in cores]
