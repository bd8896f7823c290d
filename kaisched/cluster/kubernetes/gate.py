"""The gate that every write goes through: open while we lead, shut by itself when we may not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kaisched.clock import monotonic_s


@dataclass(frozen=True, slots=True)
class Term:
    """A leadership: until when it is sure, who holds it, its number, and of which lease."""

    until_s: float = -math.inf
    """On the monotonic clock."""
    holder: str = ""
    epoch: int = 0
    lease: str = ""
    """Its name: each shard has a lease of its own, and numbers of its own."""


class Gate:
    """Written by the elector, read before each write; one immutable value is swapped."""

    def __init__(self) -> None:
        """Be shut."""
        self._term = Term()

    @property
    def term(self) -> Term:
        """The present leadership, over or not."""
        return self._term

    def open(self, until_s: float, holder: str = "", epoch: int = 0, lease: str = "") -> None:
        """Let writes through that end before a time on the monotonic clock."""
        self._term = Term(until_s, holder, epoch, lease)

    def shut(self) -> None:
        """Let nothing through any more."""
        self._term = replace(self._term, until_s=-math.inf)

    def is_open(self, write_s: float = 0.0) -> bool:
        """Tell whether a write may be sent that takes up to ``write_s``."""
        return monotonic_s() + write_s < self._term.until_s
