"""B15: what one tenant's waiting objects cost the others, attack by attack."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints, NodeTerm, PodTerm, Requirement
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import Group, Job, Task, add_job
from tests.benchmarks.harness import (
    NODE,
    ONE_GPU,
    Daemon,
    Measured,
    Watch,
    check_fits,
    expect,
)

_HOST = "kubernetes.io/hostname"
_LIFE = 30
_SETTLES = _LIFE + 5
_MORE_S = 0.05
"""So much longer a cycle may be where twice its length is next to nothing: begun once a second."""
_CREATED = 500
"""So many jobs a second an API server lets one tenant create."""


def make_store(nodes: int) -> RowStore:
    """Two tenants with half of the cluster each, and a third that deserves nothing."""
    store = RowStore()
    for i in range(nodes):
        labels = {"rack": f"r{i % 10:03}", _HOST: f"n{i:05}"}
        store.put_node(NodeRow(f"n{i:05}", NODE, labels=labels))
    for name in ("a", "b"):
        store.put_queue(QueueRow(name, quota={"gpu": nodes * 4000}))
    store.put_queue(QueueRow("hostile", quota={"gpu": 0, "cpu": 0, "memory": 0}))
    store.settle()
    return store


@dataclass
class Tenants:
    """The honest ones: jobs of one GPU come and end in every cycle."""

    store: RowStore
    arrive: int
    life: int
    number: Iterator[int] = field(default_factory=count)
    born: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """By name: rows of jobs are good only until the store lays them out anew."""
    leaving: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    """Cycles from arrival to the bind: 1 for those of the next cycle."""

    def come_and_go(self, turn: int) -> None:
        for task in self.leaving:  # what was evicted is made anew, and waits again
            self.store.set_state(task, TaskState.PENDING)
        self.leaving = []
        for name in [name for name, end in self.ends.items() if end <= turn]:
            self.store.remove_job(self.store.jobs.row_of_name[name])
            del self.ends[name]
        shape = self.store.intern_shape(ONE_GPU)
        for i in range(self.arrive):
            name = f"honest/job-{next(self.number):06}"
            self.store.add_job(
                name,
                "ab"[i % 2],
                priority=50,
                is_preemptible=True,
                created_s=1e5 + turn,
                tasks=[(f"{name}-0", shape)],
            )
            self.born[name] = turn

    def follow(self, result: CycleResult, turn: int) -> None:
        for task, node in zip(
            result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True
        ):
            self.store.nominate(task, node)
        self.leaving = result.evict_tasks.tolist()
        for task in self.leaving:
            self.store.evict(task)
        job_of_task, names = self.store.tasks.job_of_task.data, self.store.jobs.name.data
        for name in {names[job_of_task[task]] for task in result.bind_tasks.tolist()}:
            if name in self.born:
                self.waits.append(turn - self.born.pop(name) + 1)
                self.ends[name] = turn + self.life


# -- attacks: each puts its objects into a store, all in one queue --------------------------------

_SMALL = {"cpu": 100}
_NOWHERE = (("rack", "nowhere"),)


def _add(store: RowStore, name: str, tasks: list[Task], root: Group | None = None) -> None:
    root = root or Group("default", len(tasks))
    created_s = 1e4 + len(store.jobs.name.data) // _CREATED
    add_job(store, Job(name, "hostile", tasks, created_s=created_s, root=root), "hostile")


def _terms(count: int, *wanted: str) -> tuple[NodeTerm, ...]:
    return tuple(
        ((Requirement(_HOST, "In", (f"{'-'.join(wanted)}-{i}",)),), ()) for i in range(count)
    )


def terms(store: RowStore, scale: float) -> None:
    """300 pods with 500 terms of node affinity each, none of them like another."""
    for pod in range(int(300 * scale)):
        wants = Constraints(node_terms=_terms(int(500 * scale), "n", str(pod)))
        _add(store, f"terms-{pod}", [Task(f"terms-{pod}", _SMALL, wants)])


def shapes(store: RowStore, scale: float) -> None:
    """5,000 pods that fit by their amounts, of as many different amounts, and match no node."""
    for pod in range(int(5000 * scale)):
        wants = Constraints(node_selector=_NOWHERE)
        _add(store, f"shape-{pod}", [Task(f"shape-{pod}", {"cpu": 100 + pod}, wants)])


def whole_nodes(store: RowStore, scale: float) -> None:
    """5,000 pods of a whole node each, no two the same."""
    for pod in range(int(5000 * scale)):
        _add(store, f"whole-{pod}", [Task(f"whole-{pod}", {"gpu": 8000, "cpu": 100 + pod})])


def _keeps_away(count: int, *of: str) -> Constraints:
    selector = "-".join(of)
    return Constraints(
        pod_anti_affinity=tuple(
            PodTerm(_HOST, (), True, (Requirement("app", "In", (f"{selector}-{i}",)),))
            for i in range(count)
        )
    )


def anti(store: RowStore, scale: float) -> None:
    """300 pods that keep away from 200 kinds of pods each, of all namespaces; all of them wait."""
    for pod in range(int(300 * scale)):
        wants = _keeps_away(int(200 * scale), str(pod))
        task = Task(f"anti-{pod}", {"gpu": 9000}, wants, labels={"app": f"x{pod}"})
        _add(store, f"anti-{pod}", [task])


def anti_running(store: RowStore, scale: float) -> None:
    """The same, and they run."""
    for pod in range(int(300 * scale)):
        wants = _keeps_away(int(200 * scale), str(pod))
        task = Task(
            f"anti-{pod}",
            _SMALL,
            wants,
            state=TaskState.RUNNING,
            node=store.nodes.name[pod % len(store.nodes.name)],
            labels={"app": f"x{pod}"},
        )
        _add(store, f"anti-{pod}", [task])


def gang(store: RowStore, scale: float) -> None:
    """A gang of 10,000 pods, no two the same."""
    pods = int(10_000 * scale)
    tasks = [Task(f"gang-{i}", {"gpu": 1000, "cpu": 100 + i}) for i in range(pods)]
    _add(store, "gang", tasks)


def crowd(store: RowStore, scale: float) -> None:
    """100,000 jobs of one GPU."""
    shape = store.intern_shape(ONE_GPU)
    for pod in range(int(100_000 * scale)):
        name = f"hostile/crowd-{pod:06}"
        store.add_job(
            name,
            "hostile",
            priority=50,
            is_preemptible=True,
            created_s=1e4 + pod // _CREATED,
            tasks=[(f"{name}-0", shape)],
        )


def structures(store: RowStore, scale: float) -> None:
    """1,000 gangs of ten subgroups in trees of different widths, pods of two sizes."""
    for number in range(int(1_000 * scale)):
        width = 1 + number % 9
        leaves = [Group(f"s{i}", 1 + (number + i) % 3) for i in range(10)]
        parts = [Group(f"g{i}", None, tuple(leaves[i : i + width])) for i in range(0, 10, width)]
        tasks = [
            Task(f"tree-{number}-{i}-{pod}", {"gpu": 8000, "cpu": 100 + number + i}, podset=f"s{i}")
            for i, leaf in enumerate(leaves)
            for pod in range(leaf.minimum or 0)
        ]
        _add(store, f"tree-{number}", tasks, Group("", None, tuple(parts)))


ATTACKS: dict[str, Callable[[RowStore, float], None]] = {
    "terms": terms,
    "shapes": shapes,
    "whole": whole_nodes,
    "anti": anti,
    "anti_running": anti_running,
    "gang": gang,
    "crowd": crowd,
    "structures": structures,
}


# -- what is measured ------------------------------------------------------------------------------


@dataclass
class Course:
    """What a course of cycles came to for the honest tenants."""

    watch: Watch
    waits: list[int]
    """In cycles."""
    waiting: int

    def figures(self) -> dict[str, float]:
        worst = max(self.watch.cpu)
        p99 = float(np.percentile(self.waits, 99, method="higher"))
        return {
            "wait_p50_cycles": float(np.median(self.waits)),
            "wait_p99_cycles": p99,
            "wait_p99_s": p99 * worst,
            "worst_s": worst,
            "waiting": self.waiting,
        }


def run(store: RowStore, turns: int, nodes: int) -> Course:
    """Let the honest tenants work, seven eighths of the cluster busy; the start is not measured."""
    tenants = Tenants(store, max(1, nodes * 7 // _LIFE), _LIFE)
    daemon, watch = Daemon(store), Watch()
    begun = 0
    gc.collect()
    gc.freeze()  # as the daemon does once it knows the cluster
    for turn in range(_SETTLES + turns):
        if turn == _SETTLES:
            begun = len(tenants.waits)
        tenants.come_and_go(turn)
        result = daemon.cycle(watch if turn >= _SETTLES else None)
        expect(not result.failures, f"{result.failures[:1]}")
        check_fits(store.snapshot(), result)
        daemon.obey(result)
        tenants.follow(result, turn)
    gc.unfreeze()
    return Course(watch, tenants.waits[begun:], len(tenants.born))


def hostile(repeat: int, nodes: int, attack: str, scale: float) -> Measured:
    """Compare the honest tenants' lot with an attacker's standing objects and without them."""
    alone = run(make_store(nodes), repeat, nodes).figures()
    store = make_store(nodes)
    ATTACKS[attack](store, scale)
    store.settle()
    attacked = run(store, repeat, nodes)
    figures = attacked.figures()
    detail = {"alone": alone, **figures}
    detail["worst_ratio"] = figures["worst_s"] / alone["worst_s"]
    detail["worst_over"] = figures["worst_s"] / max(
        2 * alone["worst_s"], alone["worst_s"] + _MORE_S
    )
    detail["wait_over"] = figures["wait_p99_s"] / max(2 * alone["wait_p99_s"], 1.0)
    expect(figures["waiting"] <= 3 * nodes, "the others' jobs pile up")
    return Measured(attacked.watch, detail)
