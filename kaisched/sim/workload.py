"""Workload of a replay: jobs as pods on the grid of virtual time, queues with quotas and weights.

All that a replay needs of a job is computed before it arrives, into plain lists. They may grow
while the replay runs: an endless backlog adds jobs as others start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np

from kaisched.core.axis import GPU_UNIT, FloatVec, IntVec
from kaisched.core.claims.model import Claim
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.core.tables import TopologyConstraint
from kaisched.sim.ticks import run_ticks, ticks_at
from kaisched.units import MEBIBYTE


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


POD_CPU: Final = 4_000
"""Default milli-CPU that a pod requests with each GPU."""
POD_MEMORY: Final = 16_384 * MEBIBYTE
"""Default base units (16 GiB) that a pod requests with each GPU."""
PRIORITY: Final = 50
"""Default priority of a job: that of the class ``train``, which is preemptible."""


Gpus = int | Fraction
"""A number of GPUs; exact, so that sums over many jobs with parts of GPUs come back to 0."""


def plain(gpus: Gpus) -> float:
    """Return a number of GPUs as a number for arrays and files."""
    return gpus if isinstance(gpus, int) else float(gpus)


def exact(milli: int) -> Gpus:
    """Return thousandths of GPUs as GPUs."""
    return Fraction(milli, GPU_UNIT) if milli % GPU_UNIT else milli // GPU_UNIT


class QuotaMode(StrEnum):
    """Origin of the queues' GPU quotas."""

    NONE = "none"
    """No quota: everything is shared by weight."""
    PUBLISHED = "published"
    """The trace's published nodes, scaled to the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """Number of equal nodes, and of GPUs on each."""

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class PodKind:
    """Requests of one pod, in base units, and the labels that its node must have."""

    cpu: int
    memory: int
    gpu: int
    node_labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(label, values of which the node must have one)."""
    devices: DeviceDemand | None = None
    """The part of a GPU, or of several, that it asks for instead of whole ones."""
    card_mib: int = 0
    """MiB of the GPUs of which memory counts as a part: of the smallest of the cluster."""

    claim: Claim | None = None
    """What its own claim on devices asks for, instead of GPUs."""
    claimed_gpus: int = 0
    """GPUs that queues count the claim as."""

    @property
    def milli_gpus(self) -> int:
        """Return the thousandths of a GPU that it counts before it has a node."""
        return self.milli_of(self.card_mib)

    def milli_of(self, card_mib: int) -> int:
        """Return the thousandths of a GPU that it counts where GPUs have so much memory."""
        claimed = GPU_UNIT * self.claimed_gpus
        return self.gpu + claimed + (self.devices.milli_gpus(card_mib) if self.devices else 0)


@dataclass(frozen=True, slots=True)
class JobKind:
    """Properties that jobs of one kind share; their pods run together or not at all."""

    pods: tuple[PodKind, ...]
    priority: int = PRIORITY
    is_preemptible: bool = True
    checkpoint_ticks: int | None = None
    """Work between two checkpoints; None for the replay's default."""
    pools: tuple[str, ...] = ()
    """Values of the label of its node pools, the first to be tried in front."""
    topology: TopologyConstraint | None = None
    """In which domains its pods are to be placed together."""

    @property
    def gpus(self) -> Gpus:
        """Return the GPUs of all its pods."""
        return exact(sum(pod.milli_gpus for pod in self.pods))


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs ``[J]`` in order of arrival and queues ``[V]``, as plain lists."""

    queue_names: tuple[str, ...]
    weights: tuple[float, ...] = ()
    quotas: tuple[int, ...] = ()
    """Whole GPUs."""
    submitted_s: list[float] = field(default_factory=list)
    """Creation ticks, never after the arrival; they order jobs that arrive together."""
    arrival: list[int] = field(default_factory=list)
    """Tick."""
    ticks: list[int] = field(default_factory=list)
    """Run time."""
    gpus: list[Gpus] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    kind: list[JobKind] = field(default_factory=list)
    on_nodes: dict[int, Gpus] = field(default_factory=dict)
    """What jobs that ask for memory are of the GPUs of their nodes, or of the last ones that they
    had, if it is not what ``gpus`` says."""

    def held(self, job: int) -> Gpus:
        """Return the GPUs that a job has where it runs, or had."""
        return self.on_nodes.get(job, self.gpus[job])

    def __len__(self) -> int:
        """Return J."""
        return len(self.arrival)


def workload_of(trace: Trace, size: ClusterSize, quota: QuotaMode) -> Workload:
    """Convert a trace's jobs and queues for a cluster."""
    # An empty or absent number means a tiny virtual cluster: it may still use what is left.
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
    """Return the kind of a job with so many GPUs, on nodes of at most ``most`` GPUs."""
    return JobKind(tuple(pod_of(number) for number in pods_of(gpus, most)))


def with_least_share(kind: JobKind, milli: int) -> JobKind:
    """Return a kind whose parts of GPUs count at least so many thousandths of each."""
    return replace(
        kind,
        pods=tuple(
            pod if pod.devices is None else replace(pod, devices=pod.devices._replace(least=milli))
            for pod in kind.pods
        ),
    )


def pod_of(gpus: float, cards: int = 1) -> PodKind:
    """Return a pod with so many GPUs, and the default CPU and memory with each.

    A number below 1 is a part of each of so many cards.
    """
    if not 0 < gpus < 1:
        return PodKind(POD_CPU * int(gpus), POD_MEMORY * int(gpus), GPU_UNIT * int(gpus))
    devices = DeviceDemand(math.ceil(round(gpus * CARD, 3)), 0, cards)
    of_all = devices.fraction * cards
    return PodKind(POD_CPU * of_all // CARD, POD_MEMORY * of_all // CARD, 0, devices=devices)


def pod_of_memory(mib: int, cards: int, card_mib: int) -> PodKind:
    """Return a pod that asks for memory of each of so many cards, the smallest of which has more.

    It has the default CPU and memory of such a part of the smallest.
    """
    devices = DeviceDemand(0, mib, cards)
    milli = devices.milli_gpus(card_mib)
    amounts = POD_CPU * milli // GPU_UNIT, POD_MEMORY * milli // GPU_UNIT
    return PodKind(*amounts, 0, devices=devices, card_mib=card_mib)


def pods_of(gpus: int, most: int) -> tuple[int, ...]:
    """Split a job into as few pods as nodes allow: equal ones, else full ones and a rest."""
    count = -(-gpus // most)
    if gpus % count == 0:
        return (gpus // count,) * count
    return (most,) * (count - 1) + (gpus - most * (count - 1),)


def scaled(parts: list[float], total: int) -> list[int]:
    """Divide whole pieces in proportion; the rest goes to the largest fractions, then the first."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    exact = [part * total / whole for part in parts]
    pieces = [int(amount) for amount in exact]
    by_fraction = sorted(range(len(parts)), key=lambda i: (pieces[i] - exact[i], i))
    for i in by_fraction[: total - sum(pieces)]:
        pieces[i] += 1
    return pieces
