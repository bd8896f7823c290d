"""What a victim search is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.claims import Claim, Unit
    from kaisched.framework.session.statement import Statement


@dataclass(slots=True)
class Plan:
    """A statement in which the claim is placed, and what is given up for it."""

    statement: Statement
    units: list[Unit]
    """Units that lose their room."""
    pass_number: int = 0
    """In which pass of the search it was found."""
    moved: int = 0
    """Pods that make way by moving, though nobody could take their room."""


@dataclass(slots=True)
class Demand:
    """A claim's pods by shape."""

    claim: Claim
    tasks: RowVec
    shapes: list[tuple[int, int]]
    """(shape, pods)."""
