"""Rows that every reader of a trace returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaisched.sim.workload import Gpus, JobKind


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job of a trace. Times are seconds from the beginning of the trace."""

    submit_s: float
    duration_s: float
    queue: str
    gpus: Gpus
    """In all."""
    kind: JobKind | None = None
    """Kind of its pods; None if the trace has GPUs only."""


@dataclass(frozen=True, slots=True)
class JobRows:
    """Jobs of a trace in any order, and facts about its queues."""

    rows: list[JobRow]
    nodes_of_queue: dict[str, float] = field(default_factory=dict)
    """Published nodes of each queue, if the trace has them: weights and quotas follow them."""
    warnings: tuple[str, ...] = ()

    @property
    def queues(self) -> list[str]:
        """Names of the queues, in order."""
        named = {row.queue for row in self.rows} - self.nodes_of_queue.keys()
        return [*self.nodes_of_queue, *sorted(named)]
