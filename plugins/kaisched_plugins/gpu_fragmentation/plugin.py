"""GPU fragmentation: scores nodes by what a pod would take away from the mix of all pods."""

from __future__ import annotations

import numpy as np

from kaisched import CPU, GPU, MEMORY, FloatVec, IntVec, Plugin, RowVec, Session, hookimpl
from kaisched_plugins.gpu_fragmentation.mix import CARD, MOST_USE, Mix, Room, kind_of


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
        kind, request = kind_of(session, shape), session.shapes.request[:, shape]
        whole, left = session.gpus_free(rows)
        room = Room(whole, left, session.free(CPU, rows), session.free(MEMORY, rows))
        lost = np.zeros(len(rows))
        useful = mix.useful(room)
        for more in range(int(extra.max(initial=0)) + 1):
            room = room.after(kind, int(request[CPU]), int(request[MEMORY]))
            before, useful = useful, mix.useful(room)
            lost = np.where(extra == more, before - useful, lost)
        largest = max(1, int(session.nodes.allocatable[GPU].max(initial=0)) // CARD)
        score: FloatVec = np.clip(1.0 - lost / (largest * MOST_USE), 0.0, 1.0)
        return score
