"""GPU fragmentation: scores nodes by what a pod would take away from the mix of all pods."""

from __future__ import annotations

import numpy as np

from kaisched import CPU, GPU, MEMORY, FloatVec, IntVec, Plugin, RowVec, Session, hookimpl
from kaisched_plugins.gpu_fragmentation.mix import CARD, MOST_USE, Mix, Room


class GpuFragmentation(Plugin):
    """Leaves room that the pods which run and wait could use: parts of GPUs with CPU beside them.

    Meant for clusters in which pods share GPUs, in place of ``binpack``.
    """

    name = "gpu-fragmentation"
    default_weight = 100.0

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return an empty state for the mix, which is counted on first use."""
        del session
        return {}

    @hookimpl
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Answer how little of what is of use a pod takes away; None while no pod asks for GPUs."""
        state: dict[str, Mix] = session.state[self.name]
        mix = state.get("mix")
        if mix is None:
            mix = state["mix"] = Mix(session)
        if mix.is_empty:
            return None
        before, after = (
            mix.useful(_room_with(session, shape, rows, extra + more)) for more in (0, 1)
        )
        largest = max(1, int(session.nodes.allocatable[GPU].max(initial=0)) // CARD)
        score: FloatVec = np.clip(1.0 - (before - after) / (largest * MOST_USE), 0.0, 1.0)
        return score


def _room_with(session: Session, shape: int, rows: RowVec, extra: IntVec) -> Room:
    """Return what is free on some nodes with so many more pods of a shape on them."""
    request = session.shapes.request[:, shape]
    whole, left = session.gpus_free(shape, rows, extra)
    cpu, memory = (session.free(it, rows) - extra * request[it] for it in (CPU, MEMORY))
    return Room(whole, left, cpu, memory)
