"""What every reader of a trace gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaisched.sim.workload import JobKind


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job of a trace. Seconds from the beginning of the trace."""

    submit_s: float
    duration_s: float
    queue: str
    gpus: int
    """In all."""
    kind: JobKind | None = None
    """What its pods are; None where the trace tells the GPUs only."""


@dataclass(frozen=True, slots=True)
class JobRows:
    """The jobs of a trace in any order, and what it says of its queues."""

    rows: list[JobRow]
    nodes_of_queue: dict[str, float] = field(default_factory=dict)
    """Published nodes of each queue, where the trace knows: weights and quotas come from them."""
    warnings: tuple[str, ...] = ()

    @property
    def queues(self) -> list[str]:
        """The names of the queues, in order."""
        named = {row.queue for row in self.rows} - self.nodes_of_queue.keys()
        return [*self.nodes_of_queue, *sorted(named)]
