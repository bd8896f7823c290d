"""A small cluster in virtual time for timelines: steps of equal length, a real cycle in each.

What a cycle evicts holds its room for ``grace`` steps and then waits again; what it promises is
promised until it is bound. Usage is what queues held in each step, old steps counting less by the
half-life, as a part of what the cluster had; of all steps, of those since the last multiple of
``window``, or of the last ``sliding`` ones. An instant cluster needs no step to evict.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, TaskState
from kaisched.core.tree import roll_up
from kaisched.core.usage import PARTS, Usage
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import policy_of
from kaisched.units import MEBIBYTE

STEP_S = 60.0


@dataclass
class Work:
    """Jobs of one kind: endless, or as many as said.

    ``waiting`` of them wait at any time, as long as there are any.
    """

    queue: str
    gpus: int
    pods: int = 1
    steps: int = 0
    """How long each runs; 0 for ever."""
    waiting: int = 2
    count: int = 1 << 30
    first: int = 0
    """The step in which the first one comes."""
    until: int = 1 << 30
    priority: int = 50
    extra: Mapping[str, int] = field(default_factory=dict)
    """What a pod asks for beside GPUs, in base units."""


class VirtualCluster:
    """Nodes of GPUs, queues, work; ``held[t]`` is what each queue held in step t, in GPUs."""

    def __init__(
        self,
        gpus: Iterable[int],
        queues: Mapping[str, Mapping[str, Any]],
        work: Iterable[Work],
        shard: Mapping[str, Any],
        half_life: float = 128,
        window: int = 0,
        sliding: int = 0,
        *,
        is_instant: bool = False,
        grace: int = 1,
    ) -> None:
        self.store = RowStore()
        self.total = 0
        for number, count in enumerate(gpus):
            self.total += count
            row = {"gpu": count * 1000, "cpu": 100_000, "memory": MEBIBYTE << 20, "pods": 110}
            self.store.put_node(NodeRow(f"n{number:03}", row))
        for at, (name, said) in enumerate(queues.items()):
            row = {"quota": {"gpu": 0}, "weight": {"gpu": 1.0}, "created_s": float(at), **said}
            self.store.put_queue(QueueRow(name, **row))
        self.work = list(work)
        self.policy = policy_of(shard)
        self.memory = Memory()
        self.decay = 0.5 ** (1 / half_life) if half_life else 1.0
        self.window = window
        self.sliding = sliding
        self.is_instant = is_instant
        self.grace = grace
        self.samples: list[tuple[np.ndarray, np.ndarray]] = []
        self.now = 0
        self.made: dict[str, tuple[int, Work]] = {}
        self.ends: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.used: np.ndarray | None = None
        self.had = 0.0
        self.held: list[dict[str, float]] = []
        self.evicted: list[tuple[int, str, int]] = []
        """(step, job, steps it had run)."""
        self.starts: list[tuple[int, str]] = []
        self.renewed: dict[str, int] = {}
        """Jobs that were evicted, and the step in which they have ended."""
        self.shares: dict[str, float] = {}
        self.finished: list[str] = []

    def run(self, steps: int) -> "VirtualCluster":
        for _ in range(steps):
            self.step()
        return self

    def step(self) -> None:
        if self.window and self.now % self.window == 0:
            self.used, self.had = None, 0.0
        self._renew(self.now)
        self._finish()
        self._arrive()
        snapshot = self.store.snapshot()
        usage = None
        if self.used is not None:
            parts = roll_up(
                np.rint(self.used / self.had * PARTS).astype(np.int64), snapshot.queues.tree
            )
            usage = Usage(parts, 0.0, 1.0)
        result, self.memory = run_cycle(
            snapshot, usage, self.policy, self.now * STEP_S, self.memory
        )
        assert not result.failures, result.failures
        assert not result.stats.abandoned
        self._evict(result)
        self._bind(result.bind_tasks, result.bind_nodes)
        if self.is_instant and len(result.nominate_tasks):
            self._renew(self.now + self.grace)
            self._bind(result.nominate_tasks, result.nominate_nodes)
        for task, node in zip(
            result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True
        ):
            self.store.nominate(task, node)
        self._sample(result)
        self.now += 1

    def handovers(self, indivisible_jobs: Iterable[str]) -> list[int]:
        """The steps in which another of these queues began a time slice."""
        last, steps = "", []
        names = set(indivisible_jobs)
        for at, job in self.starts:
            queue = self.made[job][1].queue
            if queue in names and queue != last:
                last = queue
                steps.append(at)
        return steps

    def parts(self, first: int = 0, last: int | None = None) -> dict[str, float]:
        """Each queue's part of the GPU-steps that were used in a stretch."""
        sums: dict[str, float] = {}
        for row in self.held[first:last]:
            for name, amount in row.items():
                sums[name] = sums.get(name, 0.0) + amount
        whole = sum(sums.values())
        return {name: amount / whole for name, amount in sums.items()}

    def worst(self, indivisible_jobs: Mapping[str, float], spans: int) -> float:
        """The largest relative error of a queue's part over any so many hand-overs."""
        marks = self.handovers(indivisible_jobs)
        whole = sum(indivisible_jobs.values())
        worst = 0.0
        sums = np.cumsum([[row[name] for name in indivisible_jobs] for row in self.held], axis=0)
        for first, last in zip(marks, marks[spans:], strict=False):
            got = sums[last - 1] - (sums[first - 1] if first else 0)
            for weight, part in zip(
                indivisible_jobs.values(), (got / got.sum()).tolist(), strict=True
            ):
                worst = max(worst, abs(part / (weight / whole) - 1))
        return worst

    # -- what happens in a step ------------------------------------------------------------------

    def _add(self, name: str) -> None:
        number, work = self.made[name]
        request = {"cpu": 1000, "memory": 1024 * MEBIBYTE, "gpu": work.gpus * 1000, **work.extra}
        self.store.add_job(
            f"t/{name}",
            work.queue,
            priority=work.priority,
            is_preemptible=work.priority < 100,
            created_s=float(number),
            tasks=[
                (f"t/{name}-{pod}", self.store.intern_shape(request)) for pod in range(work.pods)
            ],
            minimum=work.pods,
        )

    def _renew(self, now: int) -> None:
        for name in [name for name, end in self.renewed.items() if end <= now]:
            self.store.remove_job(self.store.row_of_job(f"t/{name}"))
            self._add(name)
            del self.renewed[name]

    def _finish(self) -> None:
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            self.store.remove_job(self.store.row_of_job(f"t/{name}"))
            del self.ends[name]
            del self.started[name]
            self.finished.append(name)

    def _arrive(self) -> None:
        for at, work in enumerate(self.work):
            if not work.first <= self.now < work.until:
                continue
            mine = [name for name, (_, of) in self.made.items() if of is work]
            gone = set(self.finished)
            waiting = sum(name not in self.started and name not in gone for name in mine)
            for more in range(len(mine), min(work.count, len(mine) + work.waiting - waiting)):
                name = f"{work.queue}{at}-{more}"
                self.made[name] = (self.now, work)
                self._add(name)

    def _jobs_of(self, tasks: np.ndarray) -> list[str]:
        rows = np.unique(self.store.tasks.job_of_task.data[tasks]).tolist()
        return [self.store.jobs.name.data[row].partition("/")[2] for row in rows]

    def _evict(self, result: Any) -> None:
        for name in self._jobs_of(result.evict_tasks):
            self.evicted.append((self.now, name, self.now - self.started.pop(name)))
            self.ends.pop(name, None)
            self.renewed[name] = self.now + self.grace
        for task in result.evict_tasks.tolist():
            self.store.set_state(task, TaskState.RELEASING)

    def _bind(self, tasks: np.ndarray, nodes: np.ndarray) -> None:
        self.store.place(tasks, nodes, TaskState.RUNNING, self.now * STEP_S)
        for name in self._jobs_of(tasks):
            self.started[name] = self.now
            self.starts.append((self.now, name))
            if self.made[name][1].steps:
                self.ends[name] = self.now + self.made[name][1].steps

    def _sample(self, result: Any) -> None:
        snapshot = self.store.snapshot()
        allocated = snapshot.allocated.astype(float)
        if self.used is None:
            self.used = np.zeros_like(allocated)
        self.used = self.used * self.decay + allocated
        self.had = self.had * self.decay + snapshot.total[:, None]
        if self.sliding:
            self.samples.append((allocated, snapshot.total[:, None]))
            if len(self.samples) > self.sliding:
                faded = self.decay**self.sliding
                gone, had = self.samples[-1 - self.sliding]
                self.used = self.used - gone * faded
                self.had = self.had - had * faded
        row = dict(zip(snapshot.queues.name, (allocated[GPU] / 1000).tolist(), strict=True))
        self.held.append(row)
