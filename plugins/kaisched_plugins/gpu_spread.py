"""GPU spread: a share gets a GPU of its own as long as its node has one."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import numpy as np

from kaisched import BoolVec, IntVec, Plugin, Session, hookimpl


class GpuSpread(Plugin):
    """Spreads shares over the GPUs of a node, and lets scores alone choose the node."""

    name = "gpu-spread"

    @hookimpl
    def spreads_shares(self, session: Session, level: IntVec) -> BoolVec | None:
        """Answer that shares are spread over nodes and over GPUs."""
        return np.ones(len(level), np.bool_)
