"""What the pods of a cluster ask for, as a mix, and how much of free room is of use to them."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from kaisched import CPU, GPU, MEMORY, Amounts, FloatVec, IntVec, Session

CARD: Final = 1000
"""Thousandths of a GPU."""
_PARTS: Final = 1_000_000
"""Parts of a thousandth of a GPU."""


class Kind(NamedTuple):
    """What a pod asks of GPUs: so many thousandths of each of so many."""

    milli: int = 0
    cards: int = 0


class Room(NamedTuple):
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

    def useful(self, room: Room) -> FloatVec:
        """``(K,)`` parts of free GPUs that are of use: to a pod, and to the mix as a whole.

        The first is what a pod has on average that is drawn from the mix: all that is left of GPUs
        on which it fits. The second is what CPU and memory allow if pods come as in the mix.
        """
        left, each = room.left, np.ones(room.left.shape[1], np.int64)
        # Whole numbers, so that the order of adding does not matter.
        cards: IntVec = self._of_use.take(left) @ each + room.whole * self._of_use[CARD]
        for kind, part in self._several:
            cards += part * self._of_several(kind, room)
        mixed = (left @ each + room.whole * CARD).astype(np.float64)
        beside = (room.cpu, self._cpu_of_milli), (room.memory, self._memory_of_milli)
        for free, of_milli in beside:
            if of_milli:
                np.minimum(mixed, np.maximum(free, 0) / of_milli, out=mixed)
        return cards + _PARTS * mixed

    def _of_several(self, kind: Kind, room: Room) -> IntVec:
        """``(K,)`` what is left of GPUs on which a pod fits that asks for several of a node."""
        if kind.milli == CARD:  # no shared GPU is whole
            return np.where(room.whole >= kind.cards, room.whole * CARD, 0)
        fits = room.left >= kind.milli
        enough = np.count_nonzero(fits, axis=1) + room.whole >= kind.cards
        return np.where(enough, (room.left * fits).sum(axis=1) + room.whole * CARD, 0)


def kind_of(session: Session, shape: int) -> Kind:
    """Return what pods of a shape ask of GPUs."""
    milli = int(session.shapes.request[GPU, shape])
    share = session.shapes.constraints[shape].devices
    if share is not None and share.is_share:
        return Kind(min(milli // share.cards, CARD), share.cards)
    return Kind(CARD, milli // CARD) if milli >= CARD else Kind()
