"""Nodes with a device plugin beside nodes with devices for claims, for one resource.

A pod that asks for the resource needs its claim on nodes of the second kind only. What a pod asks
for by the plugin alone is not to be had there, though amounts count the devices. Nothing of this
exists where no resource is offered in both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.core.refusals import Refusal
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import BoolVec, CodeVec, IntVec, RowVec
    from kaisched.core.claims.table import Bridge
    from kaisched.core.constraints import ClaimUse
    from kaisched.core.snapshot import Snapshot

_MANY: Final = 1 << 40
_ELSEWHERE: Final = np.int16(Refusal.OUTSIDE_NODE_SET)
"""Marks nodes of the other kind while those of one kind are judged."""


class PluginNodes:
    """Which nodes offer the bridged resource by a device plugin, and who needs which kind."""

    def __init__(self, snapshot: Snapshot, bridge: Bridge) -> None:
        """Look at the nodes of a snapshot."""
        self.row = snapshot.axis.position[bridge.resource]
        self._by_claim = np.array([it in bridge.nodes for it in snapshot.nodes.name], np.bool_)
        offered = snapshot.nodes.allocatable[self.row] > 0
        self.by_plugin: BoolVec = offered & ~self._by_claim
        """``(N,)``"""
        self._constraints = snapshot.shapes.constraints
        self._request = snapshot.shapes.request
        self._claimed = snapshot.axis.position[CLAIMED_GPU]

    def pieces(self, claimed: int) -> int:
        """Return thousandths of GPUs by claim in base units of the resource."""
        return claimed if self.row == GPU else claimed // GPU_UNIT

    def needed_at(self, node: int, uses: Iterable[ClaimUse]) -> list[bool]:
        """Tell which of its claims a pod needs on a node."""
        is_by_plugin = bool(self.by_plugin[node])
        return [not (is_by_plugin and it.unless_plugin) for it in uses]

    def refused(self, shape: int, codes: CodeVec | None) -> CodeVec | None:
        """Return codes ``(N,)``, with those of nodes that cannot give what a shape asks a plugin.

        What it asks for by claims is counted among the pieces of the resource too.
        """
        request = self._request[:, shape]
        if request[self.row] <= self.pieces(int(request[self._claimed])):
            return codes
        if can_do_without(self._constraints[shape].claims) or not self._by_claim.any():
            return codes
        refused = np.zeros(len(self._by_claim), np.int16) if codes is None else codes.copy()
        refused[self._by_claim & (refused == 0)] = int(Refusal.BY_CLAIM_ONLY)
        return refused

    def split(self, codes: CodeVec) -> tuple[CodeVec, CodeVec]:
        """Return codes ``(N,)`` to judge nodes without the plugin by, and those with it."""
        without: CodeVec = np.where(self.by_plugin, _ELSEWHERE, codes)
        with_: CodeVec = np.where(self.by_plugin, codes, _ELSEWHERE)
        return without, with_

    def joined(self, without: CodeVec, with_: CodeVec) -> CodeVec:
        """Undo :meth:`split`."""
        joined: CodeVec = np.where(self.by_plugin, with_, without)
        return joined

    def bound(
        self, without: IntVec | None, with_: IntVec | None, rows: RowVec | None = None
    ) -> IntVec:
        """``(N,)`` the bound on pods by devices: that of nodes without the plugin, or with it.

        With ``rows`` it is of these nodes only ``(K,)``.
        """
        by_plugin = self.by_plugin if rows is None else self.by_plugin[rows]
        most = (_MANY if it is None else it for it in (with_, without))
        bound: IntVec = np.where(by_plugin, *most)
        return bound


def can_do_without(uses: Iterable[ClaimUse]) -> bool:
    """Tell whether a pod needs one of its claims on nodes without a device plugin only."""
    return any(it.unless_plugin for it in uses)
