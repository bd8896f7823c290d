"""Sums of a replay, updated at a cost that grows with its events and not with its length.

Held GPUs are integrated per queue at each change. Fair shares, and their distance from the GPUs
held, are sampled coarsely, and each sample holds until the next one: a division at every cycle
would cost more than the cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.sim.workload import Gpus


class Tally:
    """Running sums per queue. Times are ticks."""

    __slots__ = (
        "_distance",
        "_fair_share",
        "_fair_share_since",
        "_held_since",
        "arrived",
        "distance",
        "entitled",
        "evicted",
        "failed",
        "finished",
        "held",
        "pending",
        "redone",
        "stopping",
        "used",
        "waits",
    )

    arrived: list[int]
    """Jobs that have arrived."""
    pending: list[int]
    """Jobs that wait now."""
    finished: list[int]
    """Jobs that have ended."""
    evicted: list[int]
    """Stops of jobs in favour of another job."""
    failed: list[int]
    """Stops of jobs because a node failed."""
    held: list[Gpus]
    """GPUs of running jobs now."""
    used: list[Gpus]
    """GPU ticks held so far."""
    redone: list[Gpus]
    """Used GPU ticks whose work was lost when a job was stopped."""
    stopping: list[Gpus]
    """GPU ticks of room held by evicted jobs while they stopped; not among the used ones."""
    entitled: list[int]
    """Thousandths of GPU ticks of fair share so far."""
    waits: list[list[int]]
    """Ticks from arrival to first start, of each job that has started."""
    distance: Gpus
    """Thousandths of GPU ticks: over time, the sum over queues of |held - fair share|."""

    def __init__(self, queues: int, tick: int) -> None:
        """Start at a tick with nothing held."""
        self.arrived = [0] * queues
        self.pending = [0] * queues
        self.finished = [0] * queues
        self.evicted = [0] * queues
        self.failed = [0] * queues
        self.held = [0] * queues
        self.used = [0] * queues
        self.redone = [0] * queues
        self.stopping = [0] * queues
        self.entitled = [0] * queues
        self.distance = 0
        self.waits = [[] for _ in range(queues)]
        self._held_since = [tick] * queues
        self._fair_share = [0] * queues
        self._fair_share_since = tick
        self._distance: Gpus = 0

    def arrive(self, queue: int) -> None:
        """Count a new, waiting job."""
        self.arrived[queue] += 1
        self.pending[queue] += 1

    def move(self, before: int, after: int) -> None:
        """Count a waiting job for another queue."""
        for queue, change in ((before, -1), (after, 1)):
            self.arrived[queue] += change
            self.pending[queue] += change

    def start(self, queue: int, gpus: Gpus, tick: int) -> None:
        """Count a waiting job that starts."""
        self.pending[queue] -= 1
        self._hold(queue, gpus, tick)

    def finish(self, queue: int, gpus: Gpus, tick: int) -> None:
        """Count a running job that ends."""
        self.finished[queue] += 1
        self._hold(queue, -gpus, tick)

    def evict(self, queue: int, gpus: Gpus, tick: int, *, redone: int, stopping: int) -> None:
        """Count a running job that is stopped and waits again.

        It repeats its last ``redone`` ticks of work, and keeps its room for ``stopping`` ticks.
        """
        self.evicted[queue] += 1
        self.pending[queue] += 1
        self.redone[queue] += gpus * redone
        self.stopping[queue] += gpus * stopping
        self._hold(queue, -gpus, tick)

    def fail(self, queue: int, gpus: Gpus, tick: int, *, redone: int) -> None:
        """Count a running job whose node failed: it waits again, and holds nothing."""
        self.failed[queue] += 1
        self.pending[queue] += 1
        self.redone[queue] += gpus * redone
        self._hold(queue, -gpus, tick)

    def sample_fair_share(self, tick: int, fair_share: list[int]) -> None:
        """Use these shares, in thousandths of a GPU by queue, from now on.

        The distance from the GPUs held now is used from now on too.
        """
        self._integrate_fair_share(tick)
        self._fair_share = fair_share
        self._distance = 0
        for held, share in zip(self.held, fair_share, strict=True):
            away = 1000 * held - share
            self._distance += away if away > 0 else -away

    def close(self, tick: int) -> None:
        """Complete every integral at the end."""
        for queue in range(len(self.held)):
            self._hold(queue, 0, tick)
        self._integrate_fair_share(tick)

    def _hold(self, queue: int, change: Gpus, tick: int) -> None:
        held = self.held[queue]
        self.used[queue] += held * (tick - self._held_since[queue])
        self._held_since[queue] = tick
        self.held[queue] = held + change

    def _integrate_fair_share(self, tick: int) -> None:
        ticks = tick - self._fair_share_since
        self._fair_share_since = tick
        for queue, share in enumerate(self._fair_share):
            self.entitled[queue] += share * ticks
        self.distance += self._distance * ticks
