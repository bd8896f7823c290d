"""One queue's predicted sequence of candidates, a node of the tree of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import ref

if TYPE_CHECKING:
    from kaisched.actions.order.job_order import LeafJobs
    from kaisched.core.axis import Amounts

    Key: TypeAlias = tuple[float | int, ...]

FIRST_BLOCK: Final = 8
_FEW: Final = 4
LARGEST_BLOCK: Final = 256
"""Blocks double from the first to the largest while predictions hold; after a miss they start small
again. Estimates: a block of 8 costs hardly more than one item, of 256 a tenth of a millisecond."""


class Pick(NamedTuple):
    """A candidate's turn: its row among the candidates, and a refusal code (0 to try it)."""

    at: int
    code: int


class QueueSequence:
    """The predicted next items of a queue.

    ``items`` and ``keys`` have one entry for each item. ``head`` counts the items whose turn is
    over, ``pulled`` the items that the parent has merged into its own.
    """

    __slots__ = (
        "__weakref__",
        "_parent",
        "assumed",
        "assumed_strict",
        "block",
        "children",
        "entries",
        "head",
        "heap",
        "is_shut",
        "items",
        "jobs",
        "keys",
        "next_job",
        "pulled",
        "row",
    )

    def __init__(self, row: int, parent: QueueSequence | None) -> None:
        """Start with nothing predicted; ``row`` is the queue's, -1 for the root of all."""
        self.row = row
        # A weak reference: a cycle of references would keep the session alive.
        self._parent = None if parent is None else ref(parent)
        self.children: list[QueueSequence] = []
        self.jobs: LeafJobs | None = None
        """Of a leaf: the candidates still waiting, in order; ``items`` are the first of them."""
        self.entries: list[tuple[Any, ...]] | None = None
        """Of a leaf: sort entries of ``jobs``, made when a job is first put back."""
        self.next_job = 0
        self.items: list[Pick] = []
        self.keys: list[Key] = []
        self.head = 0
        self.pulled = 0
        self.block = FIRST_BLOCK
        self.assumed: Amounts | None = None
        """``(R,)`` what the queue would hold after its last item."""
        self.assumed_strict: Amounts | None = None
        """``(R,)`` what of that is non-preemptible."""
        self.heap: list[tuple[Key, int, int]] | None = None
        self.is_shut = False
        """True when this queue itself refuses the last item: no item behind it can be predicted."""

    @property
    def parent(self) -> QueueSequence | None:
        """The sequence of the queue above; None of the root."""
        return None if self._parent is None else self._parent()

    @property
    def waiting(self) -> LeafJobs:
        """The jobs of a leaf."""
        assert self.jobs is not None
        return self.jobs

    def is_alone(self) -> bool:
        """Tell whether the queue has no sibling with candidates."""
        above = self.parent
        return above is not None and len(above.children) == 1

    def is_running_dry(self) -> bool:
        """Tell whether a leaf has few predicted items left and jobs to predict more."""
        return (
            self.jobs is not None
            and len(self.items) - self.pulled < _FEW
            and self.next_job < len(self.jobs)
        )

    def next_block(self) -> list[int]:
        """Return the candidate rows of a leaf's next block."""
        end = self.next_job + self.block
        self.waiting.settle(end)
        return self.waiting.rows[self.next_job : end]

    def grow_block(self) -> None:
        """Double the size of the next block."""
        self.block = min(self.block * 2, LARGEST_BLOCK)

    def drop_head(self) -> None:
        """Take a leaf's first waiting job out."""
        self.waiting.drop_first(1)
        if self.entries is not None:
            del self.entries[0]

    def restart(self) -> None:
        """Discard predictions, and the items whose turn is over."""
        if self.jobs is not None:
            self.jobs.drop_first(self.head)
            if self.entries is not None:
                del self.entries[: self.head]
            self.next_job = 0
        self.heap = None
        self.is_shut = False
        for child in self.children:
            child.pulled = child.head
        self.items.clear()
        self.keys.clear()
        self.head = 0
        self.pulled = 0
        self.assumed = None
        self.assumed_strict = None
        self.block = FIRST_BLOCK
