"""GPU fragmentation: scores nodes by what a pod would take away from the mix of all pods."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from kaisched import CPU, GPU, MEMORY, Amounts, FloatVec, IntVec, Plugin, RowVec, Session, hookimpl

# What the pods of a cluster ask for, as a mix, and how much of free room is of use to them.


CARD: Final = 1000
"""Thousandths of a GPU."""
_PARTS: Final = 1_000_000
"""Parts of a thousandth of a GPU."""


class Kind(NamedTuple):
    """What a pod asks of GPUs: so many thousandths of each of so many."""

    milli: int = 0
    cards: int = 0


class Free(NamedTuple):
    """What is free on some nodes. Columns ``(K,)``."""

    whole: IntVec
    """GPUs that no pod uses."""
    left: Amounts
    """``(K, G)`` thousandths left of each GPU that pods share."""
    cpu: IntVec
    memory: IntVec


MOST_USE: Final = 2 * CARD * _PARTS
"""No whole GPU is of more use: to any pod, and to the mix."""


class Mix:
    """The pods that run and wait, by what they ask of GPUs, and what a GPU needs beside itself."""

    def __init__(self, session: Session) -> None:
        """Count the pods of all jobs."""
        tasks = session.tasks
        shapes = tasks.shape_of_task[tasks.job_of_task >= 0]
        counts = np.bincount(shapes, minlength=session.shapes.request.shape[1])
        kinds: Counter[Kind] = Counter()
        beside = np.zeros(len(session.axis), np.int64)
        for shape in np.flatnonzero(counts).tolist():
            kind, count = kind_of(session, shape), int(counts[shape])
            if kind.cards:
                kinds[kind] += count
                beside += session.shapes.request[:, shape] * count
        self.is_empty = not kinds
        total = max(1, kinds.total())
        of_use: IntVec = np.zeros(CARD + 1, np.int64)
        self._several: list[tuple[Kind, int]] = []
        for kind, count in sorted(kinds.items()):
            part = count * _PARTS // total
            if kind.cards == 1:
                of_use[kind.milli :] += part
            else:
                self._several.append((kind, part))
        self._of_use = of_use * np.arange(CARD + 1)
        """By thousandths left of a GPU, what of it is of use to pods that ask for one."""
        gpus = max(1, int(beside[GPU]))
        self._cpu_of_milli, self._memory_of_milli = beside[CPU] / gpus, beside[MEMORY] / gpus

    def useful(self, free: Free) -> FloatVec:
        """``(K,)`` parts of free GPUs that are of use: to a pod, and to the mix as a whole.

        The first is what a pod has on average that is drawn from the mix: all that is left of GPUs
        on which it fits. The second is what CPU and memory allow if pods come as in the mix.
        """
        left, each = free.left, np.ones(free.left.shape[1], np.int64)
        # Whole numbers, so that the order of adding does not matter.
        cards: IntVec = self._of_use.take(left) @ each + free.whole * self._of_use[CARD]
        for kind, part in self._several:
            cards += part * self._of_several(kind, free)
        mixed = (left @ each + free.whole * CARD).astype(np.float64)
        beside = (free.cpu, self._cpu_of_milli), (free.memory, self._memory_of_milli)
        for spare, of_milli in beside:
            if of_milli:
                np.minimum(mixed, np.maximum(spare, 0) / of_milli, out=mixed)
        return cards + _PARTS * mixed

    def _of_several(self, kind: Kind, free: Free) -> IntVec:
        """``(K,)`` what is left of GPUs on which a pod fits that asks for several of a node."""
        if kind.milli == CARD:  # no shared GPU is whole
            return np.where(free.whole >= kind.cards, free.whole * CARD, 0)
        fits = free.left >= kind.milli
        enough = np.count_nonzero(fits, axis=1) + free.whole >= kind.cards
        return np.where(enough, (free.left * fits).sum(axis=1) + free.whole * CARD, 0)


def kind_of(session: Session, shape: int) -> Kind:
    """Return what pods of a shape ask of GPUs."""
    milli = int(session.shapes.request[GPU, shape])
    share = session.shapes.constraints[shape].devices
    if share is not None and share.is_share:
        return Kind(min(milli // share.cards, CARD), share.cards)
    return Kind(CARD, milli // CARD) if milli >= CARD else Kind()


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
            mix.useful(_free_with(session, shape, rows, extra + more)) for more in (0, 1)
        )
        largest = max(1, int(session.nodes.allocatable[GPU].max(initial=0)) // CARD)
        score: FloatVec = np.clip(1.0 - (before - after) / (largest * MOST_USE), 0.0, 1.0)
        return score


def _free_with(session: Session, shape: int, rows: RowVec, extra: IntVec) -> Free:
    """Return what is free on some nodes with so many more pods of a shape on them."""
    request = session.shapes.request[:, shape]
    whole, left = session.gpus_free(shape, rows, extra)
    cpu, memory = (session.free(it, rows) - extra * request[it] for it in (CPU, MEMORY))
    return Free(whole, left, cpu, memory)
