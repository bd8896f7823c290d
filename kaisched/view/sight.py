"""Sight: whose jobs a reader of the live view sees; everybody sees totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.view.reading import Reading


class Sight(NamedTuple):
    """Tells whether the jobs of a queue are shown to a reader."""

    sees_all: bool
    """Whether all jobs are, those in no queue included."""
    of_queue: Callable[[str], bool] = lambda _: False
    """Whether those of the queue with this name are."""

    def sees(self, queue: str) -> bool:
        """Tell whether the jobs of a queue are shown."""
        return self.sees_all or (bool(queue) and self.of_queue(queue))

    def of_jobs(self, reading: Reading, rows: RowVec) -> BoolVec:
        """``(K,)`` which of these jobs are shown."""
        if self.sees_all:
            return np.ones(len(rows), np.bool_)
        queue = reading.snapshot.jobs.queue_of_job[rows]
        names = reading.snapshot.queues.name
        shown = [at for at in np.unique(queue).tolist() if at >= 0 and self.sees(names[at])]
        found: BoolVec = np.isin(queue, shown)
        return found


ALL: Final = Sight(sees_all=True)
