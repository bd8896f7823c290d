"""Small full clusters with one waiting gang, and the policies that decide who gives way to it."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.core.tables import Sharing
from kaisched.engine.policy import default_policy
from kaisched.framework.policy import Policy
from kaisched.testing.builder import Group, Job, Task, policy_of
from tests.laws.clusters import NOW_S, Cluster

CPU, GPU = 1000, 1000
MIN_RUNTIME_S = 60
UNITS = 12
EXAMPLE = Path(__file__).parents[2] / "plugins/example-policy/src/kaisched_example_policy"
ACTIONS = {
    "default": ("reclaim", "preempt", "consolidate"),
    "fair-sharing": ("reclaim", "preempt", "consolidate"),
    "classical": ("reclaim", "preempt", "consolidate"),
    "strict-priority": ("reclaim", "preempt", "consolidate"),
}
"""The actions of each policy; ``classical`` is fair-sharing in trees without shares."""
PLUGINS = {"classical": "fair-sharing"}
KINDS = [(name, action) for name, actions in ACTIONS.items() for action in actions]


@cache
def strict_priority() -> type:
    """Return the example policy, which is not installed."""
    spec = importlib.util.spec_from_file_location("example_policy", EXAMPLE / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StrictPriority


@cache
def policy(name: str, action: str) -> Policy:
    """Return a policy with allocate and one action that takes."""
    plugins = {}
    if name != "default":
        plugins = {
            it: {"enabled": False} for it in default_policy().questions.answers("fair_share")
        }
        plugins[PLUGINS.get(name, name)] = {"enabled": True}
    runtime = f"{MIN_RUNTIME_S}s"
    shard = {
        "plugins": plugins,
        "minRuntime": {"reclaimMinRuntime": runtime, "preemptMinRuntime": runtime},
    }
    more = [strict_priority()] if name == "strict-priority" else []
    return policy_of(shard, more, ("allocate", action))


class _Dice:
    """Draws the parts of one contest."""

    def __init__(self, seed: int, name: str, action: str, nodes: int, most: int) -> None:
        self.most = most
        self.rng = random.Random(f"{seed} {name} {action}")
        self.name, self.action = name, action
        self.is_scattered = action == "consolidate" or most > UNITS
        """Whether most pods ask for one GPU only."""
        self.shares_gpus = self.chance(6)
        self.counts_cpu = self.chance(4)
        self.has_zones = self.chance(4)
        self.nodes = [self._node(at) for at in range(nodes)]
        self.free = {row.name: self._free_of(row) for row in self.nodes}
        self.cards: dict[str, dict[str, int]] = {row.name: {} for row in self.nodes}
        self.units = 0

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def _node(self, at: int) -> NodeRow:
        cpu = self.rng.choice([4, 8] if self.most <= UNITS else [12, 24]) if self.counts_cpu else 64
        gpus = self.rng.choice([1, 2, 2, 4, 4, 5, 8] if self.most <= UNITS else [8, 16])
        labels = {"zone": self.rng.choice("ab")} if self.has_zones else {}
        amounts = {"cpu": cpu * CPU, "gpu": gpus * GPU, "pods": 110}
        return NodeRow(f"n{at}", amounts, labels)

    def _free_of(self, row: NodeRow) -> dict[str, int]:
        return {"cpu": row.allocatable["cpu"], "gpu": row.allocatable["gpu"]}

    # -- queues ------------------------------------------------------------------------------------

    def queues(self) -> tuple[QueueRow, ...]:
        """The owner, who asks, and others; below a top-level queue or departments."""
        total = sum(row.allocatable["gpu"] for row in self.nodes) // GPU
        lends = self.name in ("fair-sharing", "classical")
        names = ["own", *(f"q{at}" for at in range(self.rng.randint(1, 3)))]
        tops = []
        if lends or self.chance(3):
            tops = ["top"]
        inner = [f"d{at}" for at in range(2)] if self.chance(3) else []
        made = [self._queue(top, "", total if not lends else self._some(2)) for top in tops]
        above = tops[0] if tops else ""
        made += [self._queue(each, above, self._some(total)) for each in inner]
        for name in names:
            parent = self.rng.choice(inner) if inner else above
            quota = self._some(total) if name == "own" else self.rng.choice([0, 0, 1, 2])
            quota = total if self.action == "consolidate" else quota
            made.append(self._queue(name, parent, quota))
        self.leaves = names
        return tuple(replace(row, created_s=float(at)) for at, row in enumerate(made))

    def _some(self, most: int) -> int:
        return self.rng.randint(0, most)

    def _queue(self, name: str, parent: str, quota: int) -> QueueRow:
        limit = {"gpu": GPU * self.rng.randint(2, 8)} if self.chance(12) else {}
        cpu = {"cpu": CPU * self.rng.randint(0, 8)} if self.counts_cpu else {}
        sharing = Sharing(
            weight=Fraction(self.rng.choice([1, 1, 1, 2])),
            is_on=self.name != "classical",
            within=self.rng.choice(["LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority"]),
            across=self.rng.choice(["Any", "Any", "Any", "LowerPriority"]),
            borrowing=self.rng.choice(["Never", "LowerPriority"]),
        )
        return QueueRow(
            name,
            parent,
            priority=self.rng.choice([100, 100, 50, 200]),
            quota={"gpu": GPU * quota, **cpu},
            limit=limit,
            weight={"gpu": 1.0},
            sharing=sharing,
        )

    # -- jobs --------------------------------------------------------------------------------------

    def tasks(self, name: str, count: int) -> list[Task]:
        """Pods of a job, most of them equal."""
        is_mixed = count > 1 and self.chance(4)
        request, constraints = self._asked()
        made = []
        for at in range(count):
            if is_mixed:
                request, _ = self._asked()
                constraints = replace(constraints, devices=None)
            made.append(Task(f"{name}-{at}", request, constraints))
        return made

    def _asked(self) -> tuple[dict[str, int], Constraints]:
        cpu = CPU * (self.rng.choice([1, 1, 2, 3]) if self.counts_cpu else 1)
        selector = (("zone", self.rng.choice("ab")),) if self.has_zones and self.chance(3) else ()
        if self.shares_gpus and self.chance(2):
            devices = DeviceDemand(self.rng.choice([CARD // 2, CARD // 2, CARD // 4]))
            return {"cpu": cpu, "gpu": 0}, Constraints(node_selector=selector, devices=devices)
        sizes = [1, 1, 1, 1, 2] if self.is_scattered else [1, 1, 1, 2, 2, 4]
        gpu = GPU * self.rng.choice(sizes)
        return {"cpu": cpu, "gpu": gpu}, Constraints(node_selector=selector)

    def running(self, number: int) -> Job | None:
        """A gang or an elastic job that runs where there is room, as a whole."""
        name, count = f"r{number}", self.rng.choice([1, 1, 1, 1, 2, 2, 3])
        minimum = self.rng.choice([count, count, 1])
        if self.units + 1 + count - minimum > self.most:
            return None
        free = {node: dict(amounts) for node, amounts in self.free.items()}
        cards = {node: dict(parts) for node, parts in self.cards.items()}
        placed = [self._placed(task) for task in self.tasks(name, count)]
        if any(task is None for task in placed):
            self.free, self.cards = free, cards
            return None
        self.units += 1 + count - minimum
        is_own = self.action == "preempt" or self.chance(6)
        return Job(
            name,
            "own" if is_own else self.rng.choice(self.leaves[1:]),
            tuple(task for task in placed if task is not None),
            priority=self.rng.choice([40, 50]),
            is_preemptible=not self.chance(10),
            created_s=float(self.rng.randrange(20)),
            started_s=NOW_S - (10.0 if self.chance(8) else 100.0 + self.rng.randrange(9) * 50),
            root=Group("default", minimum),
        )

    def _placed(self, task: Task) -> Task | None:
        zone = dict(task.constraints.node_selector).get("zone")
        devices = task.constraints.devices
        part = 0 if devices is None else devices.fraction
        for row in self.rng.sample(self.nodes, len(self.nodes)):
            free, cards = self.free[row.name], self.cards[row.name]
            if zone not in (None, row.labels.get("zone")) or free["cpu"] < task.request["cpu"]:
                continue
            card = ""
            if part:
                card = next((it for it, left in cards.items() if left >= part), "")
                if not card and free["gpu"] < GPU:
                    continue
                if not card:
                    card = f"{row.name}-c{len(cards)}"
                    cards[card] = CARD
                    free["gpu"] -= GPU
                cards[card] -= part
            elif free["gpu"] < task.request["gpu"]:
                continue
            free["cpu"] -= task.request["cpu"]
            free["gpu"] -= task.request["gpu"]
            where = replace(task, state=TaskState.RUNNING, node=row.name)
            return replace(where, cards=(card,)) if card else where
        return None

    def waiting(self) -> Job:
        """The gang that asks."""
        pods = self.rng.choice([1, 1, 1, 2, 3])
        self.is_scattered = False
        tasks = self.tasks("w", pods)
        if self.action == "consolidate":
            tasks = [self._too_large(task) for task in tasks]
        return Job(
            "w",
            "own",
            tuple(tasks),
            priority=90 if self.action == "preempt" else self.rng.choice([40, 50, 50, 60]),
            is_preemptible=not self.chance(10),
            created_s=float(self.rng.choice([5, 25])),
            root=Group("default", pods),
        )

    def _too_large(self, task: Task) -> Task:
        """Let a pod ask for a GPU more than any node has free, if all together have so many."""
        free = [amounts["gpu"] for amounts in self.free.values()]
        gpu = max(free) + GPU
        is_share = task.constraints.devices is not None
        if is_share or gpu > min(sum(free), max(it.allocatable["gpu"] for it in self.nodes)):
            return task
        return replace(task, request={**task.request, "gpu": gpu})


def make_contest(
    seed: int, name: str, action: str, nodes: int = 3, jobs: int = 8, most: int = UNITS
) -> Cluster:
    """Make a cluster for a policy and an action: nearly full, few units, and a gang."""
    dice = _Dice(seed, name, action, nodes, most)
    queues = dice.queues()
    running = [job for at in range(jobs) if (job := dice.running(at)) is not None]
    return Cluster(tuple(dice.nodes), queues, (*running, dice.waiting()))


def some_contests(begin: int, name: str, action: str) -> Iterator[Cluster]:
    """Yield contests of all sizes, the same ones for the same beginning."""
    seed = begin
    while True:
        rng = random.Random(seed)
        yield make_contest(seed, name, action, rng.randint(1, 5), rng.randint(2, 12))
        seed += 1
