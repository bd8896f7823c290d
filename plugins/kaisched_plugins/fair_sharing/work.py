"""Work that holds quota or asks for it, who may take from whom, and in which order it is given up.

Rules F11 and F12 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched import BoolVec, FloatVec, IntVec
from kaisched_plugins.fair_sharing.holdings import Ask
from kaisched_plugins.fair_sharing.quotas import Rows
from kaisched_plugins.fair_sharing.share import Ratio

NEVER: Final = "Never"
LOWER: Final = "LowerPriority"
LOWER_OR_NEWER: Final = "LowerOrNewerEqualPriority"
ANY: Final = "Any"

Key: TypeAlias = tuple[Any, ...]


class Work(NamedTuple):
    """A workload, or a part of one that goes by itself."""

    row: int
    """The caller's number for it."""
    queue: int
    ask: Ask
    """What it holds, or asks for."""
    priority: int = 0
    created_s: float = 0.0
    since_s: float = 0.0
    """Since when it holds what it holds."""
    name: str = ""
    usage: float = 0.0
    """What its queue used lately, for queues of one pool (F31)."""
    standing: int = 0
    """Inside a queue jobs below their minimum (0) go before those at it (1) and above it (2)."""
    is_high: bool = False
    """True for a priority that overrules fair sharing."""


class Borrowing(NamedTuple):
    """Whose work a claim may take while its queue borrows, in a tree without fair sharing."""

    policy: str = NEVER
    """NEVER or LOWER."""
    up_to: int | None = None
    """The highest priority that may go; None for any."""

    @property
    def is_allowed(self) -> bool:
        """Whether any may go."""
        return self.policy != NEVER

    def may_take(self, taker: int, priority: IntVec) -> BoolVec:
        """Tell, ``(K,)``, work of which priorities may go for work of another that borrows."""
        most = taker - 1 if self.up_to is None else min(taker - 1, self.up_to)
        return self.is_allowed & (priority <= most)


def may_take(policy: str, taker: Work, priority: IntVec, created_s: FloatVec) -> BoolVec:
    """Tell, ``(K,)``, which work a policy lets other work take, by priority and age (F11)."""
    if policy in (ANY, NEVER):
        return np.full(len(priority), policy == ANY)
    may: BoolVec = priority < taker.priority
    if policy == LOWER_OR_NEWER:
        may |= (priority == taker.priority) & (created_s > taker.created_s)
    else:
        assert policy == LOWER
    return may


def line_columns(
    since_s: FloatVec, priority: IntVec, size: IntVec | None, usage: FloatVec | None
) -> list[IntVec | FloatVec]:
    """Return the keys of victims of a queue for ``numpy.lexsort``, the most important last.

    Args:
        since_s: since when they hold what they hold.
        priority: the lowest goes first.
        size: a rank, the smallest first (F12); None where sizes do not count.
        usage: what their queues used lately, for queues of one pool (F33); None without pools.

    """
    columns = (-since_s, size, priority, None if usage is None else -usage)
    return [column for column in columns if column is not None]


def victim_key(rows: Rows, taker: int, work: Work, *, by_size: bool) -> Key:
    """Return what victims of all queues are ordered by, best first; ``taker`` is a queue.

    With ``by_size`` the smaller of equal priorities goes first, else only the newer one does.
    """
    return (
        work.queue == taker,
        work.priority,
        *(_size(rows, work) if by_size else ()),
        -work.since_s,
        work.name,
    )


def _size(rows: Rows, work: Work) -> tuple[float, Ratio]:
    """Return the largest part that work is of what could be had of any resource."""
    amounts: dict[int, int] = {}
    for at, amount in work.ask:
        resource = rows.resource[at]
        amounts[resource] = amounts.get(resource, 0) + amount
    part, of = 0, 1
    for resource in sorted(amounts):
        whole = rows.lendable[work.queue][resource]
        if whole > 0 and amounts[resource] * of > part * whole:
            part, of = amounts[resource], whole
    return part / of, Ratio(part, of)
