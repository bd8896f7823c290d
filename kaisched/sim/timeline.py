"""Timeline of a run, thinned to as many points as a picture or a table can show.

Amounts are means between two points, so peaks in between are not lost; sums are exact at each
point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched.core.axis import FloatVec
from kaisched.sim.outcome import HOUR_S, entitled_until, jain_of
from kaisched.sim.running import Run
from kaisched.sim.series import edges_between

MOST_POINTS: Final = 1_000
_MOST_DIVISIONS: Final = 250
"""Instants at which the entitlement is computed; it is linear in between."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Columns over T points, the ends of equal spans; amounts are means of a span."""

    begin_s: FloatVec
    """``(T,)`` begin of each span."""
    end_s: FloatVec
    queues: tuple[str, ...]
    allocated: FloatVec
    """``(V, T)`` GPUs."""
    waiting: FloatVec
    """``(V, T)`` GPUs that waiting jobs request."""
    fair_share: FloatVec
    """``(V, T)`` GPUs."""
    gpu_hours: FloatVec
    """``(V, T)`` GPU-hours up to the end of the span."""
    entitled_hours: FloatVec
    """``(V, T)`` entitled GPU-hours up to the end of the span."""
    capacity: FloatVec
    """``(T,)`` GPUs."""
    jain: FloatVec
    """``(T,)`` index of GPU-hours by entitled ones, up to the end of the span."""
    evictions: FloatVec
    """``(V, T)`` evictions in the span."""
    lost_hours: FloatVec
    """``(V, T)`` GPU-hours lost to evictions and failures in the span."""

    @property
    def utilisation(self) -> FloatVec:
        """``(T,)`` part of the GPUs in use."""
        there = np.maximum(self.capacity, 1e-9)
        used: FloatVec = np.where(self.capacity > 0, self.allocated.sum(axis=0) / there, 0.0)
        return used

    @property
    def entitled(self) -> FloatVec:
        """``(V, T)`` GPUs: growth of the entitlement in each span."""
        spans = np.diff(self.entitled_hours, axis=1, prepend=0.0)
        rate: FloatVec = spans / ((self.end_s - self.begin_s) / HOUR_S)
        return np.maximum(rate, 0.0)


def timeline_of(run: Run, points: int = MOST_POINTS) -> Timeline:
    """Thin a run to a timeline of at most this many points."""
    record, last = run.record, run.replay.last
    step_s = run.scenario.pace.step_s
    hours = step_s / HOUR_S
    edges = edges_between(0, last, points)
    instants: FloatVec = edges.astype(np.float64) * step_s
    used = np.array([steps.integral(edges[1:]) for steps in record.held]) * hours
    some = edges_between(0, last, _MOST_DIVISIONS)
    known = entitled_until(run, some) * hours
    due = np.array([np.interp(edges[1:], some, line) for line in known])
    evictions = np.zeros((len(record.held), len(edges) - 1))
    lost = np.zeros_like(evictions)
    for tick, queue, redone, is_failure in record.stops:
        span = min(int(np.searchsorted(edges, tick, side="right")) - 1, len(edges) - 2)
        evictions[queue, span] += not is_failure
        lost[queue, span] += redone * hours
    return Timeline(
        begin_s=instants[:-1],
        end_s=instants[1:],
        queues=run.workload.queue_names,
        allocated=np.array([steps.means(edges) for steps in record.held]),
        waiting=np.array([steps.means(edges) for steps in record.waiting]),
        fair_share=np.array([steps.means(edges) for steps in record.fair_share]),
        gpu_hours=used,
        entitled_hours=due,
        capacity=record.capacity.means(edges),
        jain=np.array([jain_of(used[:, at], due[:, at]) for at in range(len(edges) - 1)]),
        evictions=evictions,
        lost_hours=lost,
    )
