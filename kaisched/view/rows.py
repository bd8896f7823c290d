"""Rows of a cycle's outcome: the jobs that stay pending, and what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import BoolVec, CodeVec, FloatVec, RowVec
    from kaisched.framework.plugins.asking import NamedKey


class Waiting(NamedTuple):
    """The jobs that stay pending after a cycle, and what decides their order."""

    rows: RowVec
    """Their rows, ascending."""
    codes: CodeVec
    """The dominant reason of each."""
    is_in_order: BoolVec
    """Whether each takes part in the order of allocate."""
    keys: tuple[NamedKey, ...]
    """The keys of those that do, inside their queues, low first."""
    queued_s: FloatVec
    """``(J,)`` since when each job is queued: its creation, or when its time was last over."""


class Moves(NamedTuple):
    """What a cycle decided, as rows."""

    bind_tasks: RowVec
    bind_nodes: RowVec
    evict_tasks: RowVec
    nominate_tasks: RowVec
    nominate_nodes: RowVec
    bind_cards: Mapping[int, tuple[int, ...]]
    """The cards of bound pods with a share of GPUs, as slots of their nodes."""
    bind_devices: Mapping[int, tuple[str, ...]]
    """The devices that claims of bound pods get with them."""
