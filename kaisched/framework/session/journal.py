"""The entries of a statement's journal: what each tentative move needs to be undone or kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.states import TaskState

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.given_cards import Given

_RELEASING: Final = int(TaskState.RELEASING)


class Batch(NamedTuple):
    """Pending tasks of one shape placed on idle room."""

    tasks: RowVec
    nodes: RowVec
    shape: int


class Series(NamedTuple):
    """Pending tasks placed on idle room one by one."""

    tasks: RowVec
    nodes: RowVec


class Promise(NamedTuple):
    """Pending tasks of one shape promised room that is being released."""

    tasks: RowVec
    nodes: RowVec
    shape: int


class Release(NamedTuple):
    """Running tasks evicted together."""

    tasks: RowVec
    nodes: RowVec
    old_states: np.ndarray[tuple[int], np.dtype[np.int8]]


class Relocation(NamedTuple):
    """A task being released that is promised another node."""

    task: int
    node: int
    old_node: int


class Change(NamedTuple):
    """One task moved from one state to another."""

    task: int
    state: int
    node: int
    old_state: int
    old_node: int
    given: Given | None
    """The cards that it had got in this cycle; None if none."""


PLACES: Final = (Batch, Series, Promise)
"""Entries that give pending tasks a place."""
BINDS: Final = (Batch, Series)
"""Those whose places are free now."""
Entry: TypeAlias = Batch | Series | Promise | Release | Relocation | Change


def evicted_in(entry: Entry) -> list[tuple[int, int]]:
    """Return (task, node) of what an entry of the journal has evicted."""
    if isinstance(entry, Release):
        return list(zip(entry.tasks.tolist(), entry.nodes.tolist(), strict=True))
    if isinstance(entry, Change) and entry.state == _RELEASING:
        return [(entry.task, entry.node)]
    return []
