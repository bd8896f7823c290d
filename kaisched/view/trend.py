"""Trend: what queues held over time beside their fair shares, in as many samples as are shown.

While few are kept, every cycle may be one. When they are too many, every other one goes, and the
time between two doubles: the trend always reaches back to the start, in bounded memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.core.axis import CPU, GPU
from kaisched.core.usage import PARTS
from kaisched.framework.report.share_table import ShareTable
from kaisched.units import UNLIMITED
from kaisched.view.plan_document import amounts
from kaisched.view.queues import row_of_queue
from kaisched.view.samples import Sample
from kaisched.view.shown import envelope, stamp

if TYPE_CHECKING:
    from kaisched.core.axis import IntVec
    from kaisched.view.live import LiveView
    from kaisched.view.paging import Part
    from kaisched.view.reading import Reading

MOST_SAMPLES: Final = 240
LEAST_S: Final = 1.0
"""Shortest time between two samples."""


class Trend:
    """Keeps the samples, in the loop's thread."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        """Start without samples."""
        self._most, self._gap_s = most, LEAST_S
        self._samples: tuple[Sample, ...] = ()

    def add(self, view: LiveView) -> tuple[Sample, ...]:
        """Take a sample of a view if it is time, and return all that are kept."""
        samples = self._samples
        if samples and 0 <= view.time_s - samples[-1].time_s < self._gap_s:
            return samples
        if not isinstance(view.shares, ShareTable):  # a list of the policy's own
            return samples
        row = GPU if view.snapshot.total[GPU] > 0 else CPU
        taken = Sample(
            view.time_s,
            view.snapshot.axis.names[row],
            view.snapshot.queues.name,
            view.shares.fair_share[row].copy(),
            view.shares.allocated[row].copy(),
            None if view.usage is None else view.usage.parts[row].copy(),
        )
        self._samples = (*samples, taken)
        if len(self._samples) > self._most:
            self._samples, self._gap_s = self._samples[::2], self._gap_s * 2
        return self._samples


def fairness_document(reading: Reading, name: str, part: Part) -> dict[str, Any]:
    """Return what a queue and those directly below it held over time.

    Without a name, those at the top; where there is only one, it and those directly below it.

    Raises:
        ConfigError: there is no such queue.

    """
    wanted, names = _wanted(reading, name), reading.snapshot.queues.name
    samples = reading.view.history.samples
    resource = samples[-1].resource if samples else "gpu"
    samples = tuple(it for it in samples if it.resource == resource)
    rows = [{queue: row for row, queue in enumerate(it.queues)} for it in samples]
    parent_of = reading.snapshot.queues.tree.parent_of_queue

    def entry(queue: int) -> dict[str, Any]:
        at = [it.get(names[queue], -1) for it in rows]
        pairs = list(zip(samples, at, strict=True))
        parent = int(parent_of[queue])
        return {
            "name": names[queue],
            "parent": names[parent] if parent >= 0 else None,
            "fairShare": [_amount(resource, it.fair, row) for it, row in pairs],
            "allocated": [_amount(resource, it.held, row) for it, row in pairs],
            "usage": [_used(it, row) for it, row in pairs],
        }

    return {
        **envelope(reading.view),
        **part.document(len(wanted)),
        "resource": resource,
        "times": [stamp(it.time_s) for it in samples],
        "queues": [entry(queue) for queue in part.of(wanted)],
    }


def _wanted(reading: Reading, name: str) -> list[int]:
    parent = reading.snapshot.queues.tree.parent_of_queue
    top = [row_of_queue(reading, name)] if name else np.flatnonzero(parent < 0).tolist()
    return [*top, *np.flatnonzero(parent == top[0]).tolist()] if len(top) == 1 else top


def _amount(resource: str, column: IntVec, row: int) -> float | int | None:
    if row < 0 or column[row] >= UNLIMITED:
        return None
    return amounts({resource: int(column[row])})[resource]


def _used(sample: Sample, row: int) -> float | None:
    return None if row < 0 or sample.usage is None else round(int(sample.usage[row]) / PARTS, 6)
