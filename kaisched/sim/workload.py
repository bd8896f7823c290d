"""What is replayed: jobs as pods on the grid of virtual time, and queues with quotas and weights.

What a replay needs of a job is worked out before it comes, into plain lists. They may grow while
the replay runs: an endless backlog makes jobs as others start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kaisched.core.axis import GPU_UNIT
from kaisched.sim.grid import run_ticks, ticks_at
from kaisched.sim.trace import Trace
from kaisched.units import MEBIBYTE

POD_CPU: Final = 4_000
"""Milli-CPU a pod asks for with each GPU, unless told otherwise."""
POD_MEMORY: Final = 16_384 * MEBIBYTE
"""Base units (16 GiB) a pod asks for with each GPU, unless told otherwise."""
PRIORITY: Final = 50
"""Of a job, unless told otherwise: the class ``train``, which is preemptible."""


class QuotaMode(StrEnum):
    """Where the queues' GPU quotas come from."""

    NONE = "none"
    """No quota: everything is shared by weight."""
    PUBLISHED = "published"
    """The trace's published nodes, scaled to the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """How many equal nodes, and GPUs on each."""

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class PodKind:
    """What one pod asks for, in base units, and the labels its node must have."""

    cpu: int
    memory: int
    gpu: int
    node_labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(label, values one of which it must have)."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """What jobs of one kind have in common: all pods run together, or none does."""

    pods: tuple[PodKind, ...]
    priority: int = PRIORITY
    is_preemptible: bool = True
    checkpoint_ticks: int | None = None
    """Work between two checkpoints; None for that of the whole replay."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs ``[J]`` in order of arrival and queues ``[V]``, as plain lists."""

    queue_names: tuple[str, ...]
    weights: tuple[float, ...]
    quotas: tuple[int, ...]
    """Whole GPUs."""
    submitted_s: list[float]
    """Never after the arrival. Jobs that arrive together still have an order by creation."""
    arrival: list[int]
    """Tick."""
    ticks: list[int]
    """Run time."""
    gpus: list[int]
    queue: list[int]
    kind: list[JobKind]

    def __len__(self) -> int:
        """Return J."""
        return len(self.arrival)


def workload_of(trace: Trace, size: ClusterSize, quota: QuotaMode) -> Workload:
    """Lay out a trace's jobs and queues for a cluster."""
    # An empty number, or none at all, means a tiny virtual cluster: it may still have what is left.
    nodes = [number or 0.0 for number in trace.published_nodes]
    gpus = trace.gpus.tolist()
    kinds = {number: kind_of(number, size.gpus_per_node) for number in set(gpus)}
    quotas = scaled(nodes, size.gpus) if quota is QuotaMode.PUBLISHED else [0] * len(nodes)
    return Workload(
        queue_names=trace.queue_names,
        weights=tuple(number or 1.0 for number in nodes),
        quotas=tuple(quotas),
        submitted_s=trace.submit_s.tolist(),
        arrival=ticks_at(trace.submit_s).tolist(),
        ticks=run_ticks(trace.duration_s).tolist(),
        gpus=gpus,
        queue=trace.queue.tolist(),
        kind=[kinds[number] for number in gpus],
    )


def kind_of(gpus: int, most: int) -> JobKind:
    """Return the kind of a job that is known by its GPUs alone, ``most`` of them on a node."""
    return JobKind(tuple(pod_of(number) for number in pods_of(gpus, most)))


def pod_of(gpus: int) -> PodKind:
    """Return the pod with so many whole GPUs, and the usual CPU and memory with each."""
    return PodKind(POD_CPU * gpus, POD_MEMORY * gpus, GPU_UNIT * gpus)


def pods_of(gpus: int, most: int) -> tuple[int, ...]:
    """Split a job into as few pods as nodes allow: equal ones, else full ones and a rest."""
    count = -(-gpus // most)
    if gpus % count == 0:
        return (gpus // count,) * count
    return (most,) * (count - 1) + (gpus - most * (count - 1),)


def scaled(parts: list[float], total: int) -> list[int]:
    """Divide whole pieces in proportion; rests go to the largest fractions, then the first."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    exact = [part * total / whole for part in parts]
    pieces = [int(amount) for amount in exact]
    by_fraction = sorted(range(len(parts)), key=lambda i: (pieces[i] - exact[i], i))
    for i in by_fraction[: total - sum(pieces)]:
        pieces[i] += 1
    return pieces
