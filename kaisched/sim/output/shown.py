"""Queues that a picture names: the busiest; the others form one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec, IntVec
from kaisched.sim.output.files import Result

MOST: Final = 8
"""Rows of a picture, one for each colour; the last one sums the others if there are more."""
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of a picture, and the row of each queue."""

    names: list[str]
    row_of_queue: IntVec
    """``(V,)``."""

    def sums(self, columns: FloatVec) -> FloatVec:
        """Sum columns ``(V, T)`` of queues into ``(rows, T)``."""
        sums = np.zeros((len(self.names), columns.shape[1]))
        np.add.at(sums, self.row_of_queue, columns)
        return sums


def shown_of(result: Result) -> Shown:
    """Choose the rows for a run: the busiest queues, in the order of the file."""
    queues = result.outcome.queues
    busy = [max(queue.gpu_hours, queue.entitled_gpu_hours) for queue in queues]
    active = [at for at, hours in enumerate(busy) if hours > 0] or list(range(len(queues)))
    by_work = sorted(active, key=lambda at: (-busy[at], at))
    has_others = len(by_work) > MOST or len(active) < len(queues)
    chosen = sorted(by_work[: MOST - 1] if len(by_work) > MOST else by_work)
    names = [queues[at].name for at in chosen]
    row = np.full(len(queues), len(chosen), np.int64)
    row[chosen] = np.arange(len(chosen))
    if has_others:
        names.append(f"{len(queues) - len(chosen)} {OTHERS}")
    return Shown(names, row)
