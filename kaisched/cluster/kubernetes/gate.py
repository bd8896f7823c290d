"""The gate of all writes: open while this process leads, shut by itself when its term is over."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from dataclasses import dataclass, replace
from typing import Final

from kaisched.clock import monotonic_s


@dataclass(frozen=True, slots=True)
class Term:
    """A leadership: until when it is valid, its holder, its number, and its lease."""

    until_s: float = -math.inf
    """On the monotonic clock."""
    holder: str = ""
    epoch: int = 0
    lease: str = ""
    """Name of the lease: each shard has a lease, and numbers, of its own."""


class Gate:
    """The term of one lease, set by the elector and checked before each write."""

    def __init__(self) -> None:
        """Make a gate that is shut."""
        self._term = Term()

    @property
    def term(self) -> Term:
        """The present or last leadership."""
        return self._term

    def open(self, until_s: float, holder: str = "", epoch: int = 0, lease: str = "") -> None:
        """Permit writes that end before a time on the monotonic clock."""
        self._term = Term(until_s, holder, epoch, lease)

    def shut(self) -> None:
        """Permit no more writes."""
        self._term = replace(self._term, until_s=-math.inf)

    def is_open(self, write_s: float = 0.0) -> bool:
        """Tell whether a write may be sent that takes up to ``write_s``."""
        return monotonic_s() + write_s < self.term.until_s


NEVER: Final = -1
"""The number of a lease that this process has not held yet."""


class Board:
    """Memory that two processes share: for each lease until when it is valid, and its number.

    No thread of the reading process has to run for a write to arrive. All processes of a machine
    have the same monotonic clock. Each number is eight bytes at an address that is a multiple of
    eight, which processors write and read at once.
    """

    _WIDTH: Final = 2

    def __init__(self, descriptor: int, slots: int) -> None:
        """Map the memory of a descriptor, which is kept."""
        self.descriptor, self.slots = descriptor, slots
        self._memory = mmap.mmap(descriptor, 8 * self._WIDTH * slots)
        self._numbers = memoryview(self._memory).cast("d")

    @classmethod
    def make(cls, slots: int) -> Board:
        """Return a new board without valid leases."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("kaisched-leases")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, 8 * cls._WIDTH * slots)
        board = cls(descriptor, slots)
        for slot in range(slots):
            board.write(slot, -math.inf, NEVER)
        return board

    def read(self, slot: int) -> tuple[float, int]:
        """Return (until when it is valid, number) of a lease."""
        at = self._WIDTH * slot
        return self._numbers[at], int(self._numbers[at + 1])

    def write(self, slot: int, until_s: float, epoch: int | None = None) -> None:
        """Set until when a lease is valid, and its number."""
        at = self._WIDTH * slot
        if epoch is not None:
            self._numbers[at + 1] = epoch  # first: a new term must never show the old number
        self._numbers[at] = until_s

    def close(self) -> None:
        """Close the descriptor; the memory stays readable as long as this object lives."""
        os.close(self.descriptor)


class SharedGate(Gate):
    """A gate on a board: one process opens it, another checks it before its writes."""

    def __init__(self, board: Board, slot: int, holder: str, lease: str) -> None:
        """Make a gate for a slot of the board; once shut in a process, it stays shut there.

        Args:
            board: the shared memory.
            slot: its place on the board.
            holder: identity of the process that leads while it is open.
            lease: the name of the lease.

        """
        super().__init__()
        self._board, self.slot = board, slot
        self._holder, self._lease = holder, lease
        self._is_shut = False

    @property
    def term(self) -> Term:
        """The present or last leadership."""
        until_s, epoch = self._board.read(self.slot)
        if epoch == NEVER:
            return Term()  # a process that has never led cannot have a successor
        return Term(-math.inf if self._is_shut else until_s, self._holder, epoch, self._lease)

    def open(self, until_s: float, holder: str = "", epoch: int = 0, lease: str = "") -> None:
        """Permit writes that end before a time on the monotonic clock."""
        self._holder, self._lease = holder or self._holder, lease or self._lease
        self._board.write(self.slot, until_s, epoch)

    def shut(self) -> None:
        """Permit no more writes, in this process for good."""
        self._is_shut = True
        self._board.write(self.slot, -math.inf)
