"""A trace: jobs with their submission, run time, GPUs and queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched.core.axis import FloatVec, IntVec


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace, sorted by submission. Job columns ``(J,)``, queue columns ``(V,)``."""

    name: str
    submit_s: FloatVec
    duration_s: FloatVec
    gpus: IntVec
    queue: IntVec
    """Position in ``queue_names``."""
    queue_names: tuple[str, ...]
    published_nodes: tuple[float | None, ...]

    def __len__(self) -> int:
        """Return J."""
        return len(self.submit_s)

    def part(self, from_s: float, until_s: float) -> Trace:
        """Return the jobs submitted at ``from_s`` or later and before ``until_s``; times remain."""
        first, last = np.searchsorted(self.submit_s, (from_s, until_s), side="left").tolist()
        rows = slice(first, max(first, last))
        return Trace(
            name=self.name,
            submit_s=self.submit_s[rows],
            duration_s=self.duration_s[rows],
            gpus=self.gpus[rows],
            queue=self.queue[rows],
            queue_names=self.queue_names,
            published_nodes=self.published_nodes,
        )
