"""How many pods and slices of a pod set each domain holds (K2)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kaisched import BoolVec, IntVec
from kaisched_plugins.topology.domains import Tree

_NEVER: Final = 1 << 40
"""What a leader would cost where it does not fit."""


class Ask(NamedTuple):
    """What is to be placed: pods in whole slices, and a leader beside them perhaps."""

    pods: int
    level: int
    """The level that is required or preferred, or from which domains are chosen freely."""
    is_required: bool = False
    is_free: bool = False
    """No level is asked for."""
    layers: tuple[tuple[int, int], ...] = ()
    """(level, pods) of slices, outermost first; each size divides the one before."""
    has_leader: bool = False

    def unit(self, level: int) -> int:
        """Return so many pods go together in the domains of a level."""
        return next((size for at, size in self.layers if at >= level), 1)

    def slice_level(self, last: int) -> int:
        """Return the level of the outermost slices; single pods are slices at the last level."""
        return self.layers[0][0] if self.layers else last


class Counts(NamedTuple):
    """Columns ``(D,)`` by level; those with a leader are what is left once it is there, too."""

    pods: list[IntVec]
    slices: list[IntVec]
    """Whole slices at and above the level of the slices, 0 below it."""
    pods_beside: list[IntVec]
    slices_beside: list[IntVec]
    can_lead: list[BoolVec]


def counted(tree: Tree, ask: Ask, room: IntVec, beside: IntVec | None) -> Counts:
    """Count a pod set in every domain.

    ``room`` is ``(N,)`` how many of its pods fit on each node, and ``beside`` how many if its
    leader is there, too; -1 where that does not fit.
    """
    last = len(tree.levels) - 1
    sliced = ask.slice_level(last)
    found = Counts([], [], [], [], [])
    if beside is None:
        beside = np.full(len(room), -1, np.int64)
    given, cost = room, np.where(beside >= 0, room - beside, _NEVER)
    slices, slice_cost = room[:0], room[:0]
    for level in range(last, -1, -1):
        pods, cost = tree.folded(level, given, np.add), tree.folded(level, cost, np.minimum)
        can_lead = cost < _NEVER
        left = np.where(can_lead, pods - cost, -1)
        unit = ask.unit(level)
        if level > sliced:
            slices, slice_cost = pods * 0, pods * 0
        elif level == sliced:
            slices = pods // unit
            slice_cost = np.where(can_lead, slices - left // unit, _NEVER)
        else:
            slices = tree.folded(level, slices, np.add)
            slice_cost = tree.folded(level, slice_cost, np.minimum)
        slices_left = np.where(can_lead, slices - slice_cost, -1)
        found.pods.insert(0, pods)
        found.slices.insert(0, slices)
        found.pods_beside.insert(0, left)
        found.slices_beside.insert(0, slices_left)
        found.can_lead.insert(0, can_lead)
        given = pods
        if level > sliced:  # what is left of a slice of an inner layer is of no use
            given = pods - pods % unit
            cost = np.where(can_lead, given - (left - left % unit), _NEVER)
    return found
