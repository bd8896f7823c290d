"""What a placement knows of a shape: which nodes may take it, with room and score of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.session.share_mask import ShareMask


class Mask:
    """The scores of nodes with room, kept from one vacancy of a shape to the next."""

    __slots__ = ("seen", "shares", "values")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.values: FloatVec | None = None
        """``(N,)`` score where there is room, else -1."""
        self.seen = 0
        """How many of the capacity's touched rows the mask includes."""
        self.shares: ShareMask | None = None
        """The same for a shape with a share."""


class ShapePlan:
    """What is known this cycle of one shape."""

    __slots__ = (
        "bound",
        "cap",
        "cap_later",
        "codes",
        "filtered",
        "fresh",
        "judged",
        "mask",
        "moves",
        "one_of",
        "score",
        "seen",
        "shape",
        "whole",
    )

    def __init__(self, shape: int, whole: ShapePlan | None = None) -> None:
        """Know nothing yet; ``whole`` is the plan for all nodes, if this is one for some."""
        self.shape = shape
        self.whole = whole
        self.codes: CodeVec | None = None
        """``(N,)`` filter codes; None when every node is allowed."""
        self.filtered: CodeVec | None = None
        """The part of the codes that no move of devices changes, as plugins have answered."""
        self.one_of: CodeVec | None = None
        """``(N,)`` the codes before one node was left to pods that share a claim; else None."""
        self.judged = 0
        """How many of the capacity's touched rows the bound has taken in."""
        self.moves = 0
        """How many moves of devices the codes include."""
        self.bound: IntVec | None = None
        """``(N,)`` bound by plugins; None for no bound."""
        self.cap: IntVec | None = None
        """``(N,)`` bound by plugins and devices; None for no bound."""
        self.cap_later: IntVec | None = None
        """The same once leaving pods have left, where devices are asked for; else None."""
        self.score: FloatVec | None = None
        self.seen = 0
        """How much of the capacity's touched rows the scores have taken in."""
        self.fresh: tuple[int, RowVec] | None = None
        """The last update of the scores: ``seen`` before it, and the rows."""
        self.mask = Mask()
        """The mask of the present room; replaced when more than amounts has changed."""

    @property
    def cap_once_released(self) -> IntVec | None:
        """``(N,)`` bound on pods once leaving pods have left; None for no bound."""
        return self.cap if self.cap_later is None else self.cap_later


class Vacancy(NamedTuple):
    """Where pods of a shape fit at one moment."""

    plan: ShapePlan
    room: IntVec
    """``(N,)`` pods on each node."""
    total: int
    mask: Mask | None
    """The mask of this room; None where no mask is kept."""
