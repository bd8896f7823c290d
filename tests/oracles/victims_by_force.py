"""Whom a claim could displace, by trying every set of units: slow, plain, and room of its own.

What is allowed the plugins say, about whole sets. Where pods fit is found here by trying every
node for every pod, on amounts and cards kept as plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from kaisched.actions.eviction.victims import as_units, victim_order
from kaisched.actions.order.gates import first_shut
from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU as GPU_ROW
from kaisched.core.axis import TaskState
from kaisched.core.devices import CARD
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.framework.session.units import Claim, Unit
from kaisched.testing.builder import Job, Task
from tests.laws.clusters import NOW_S, Cluster

GPU = 1000
ASKED = 256
"""So many sets are judged in one question."""

# -- room ------------------------------------------------------------------------------------------


@dataclass
class Node:
    """What is free on a node: cores, whole GPUs, and of each shared GPU the part that is left."""

    row: NodeRow
    cpu: int
    gpus: int
    left: dict[str, int]

    def places_for(self, task: Task) -> list[str]:
        """Return the GPUs on which a pod could be, each way once; "" is where none matters."""
        labels = self.row.labels
        if any(labels.get(name) != value for name, value in task.constraints.node_selector):
            return []
        if task.request["cpu"] > self.cpu or task.request["gpu"] > self.gpus * GPU:
            return []
        part = part_of(task)
        if not part:
            return [""]
        some = {left: card for card, left in self.left.items() if left >= part}
        return [*some.values(), *["new"] * (self.gpus > 0)]

    def put(self, task: Task, card: str) -> None:
        """Take what a pod needs."""
        self.cpu -= task.request["cpu"]
        self.gpus -= task.request["gpu"] // GPU
        if card == "new":
            self.gpus -= 1
            card = f"new-{len(self.left)}"
            self.left[card] = CARD
        if card:
            self.left[card] -= part_of(task)


def part_of(task: Task) -> int:
    """Return the part of a GPU that a pod asks for; 0 where it asks for whole ones or none."""
    devices = task.constraints.devices
    return 0 if devices is None else devices.fraction


def free_nodes(cluster: Cluster, gone: frozenset[str]) -> list[Node]:
    """Return what is free once the pods of some names have gone."""
    nodes = {
        row.name: Node(row, row.allocatable["cpu"], row.allocatable["gpu"] // GPU, {})
        for row in cluster.nodes
    }
    for job in cluster.jobs:
        for task in job.tasks:
            if task.state is not TaskState.RUNNING or task.name in gone:
                continue
            node = nodes[task.node]
            for card in task.cards:
                if card not in node.left:
                    node.gpus -= 1
                    node.left[card] = CARD
                node.left[card] -= part_of(task)
            node.cpu -= task.request["cpu"]
            node.gpus -= task.request["gpu"] // GPU
    return list(nodes.values())


def could_be_placed(nodes: Sequence[Node], tasks: Sequence[Task]) -> bool:
    """Tell whether all pods fit, by trying every place for each."""
    if not tasks:
        return True
    task = tasks[0]
    tried = set()
    for at, node in enumerate(nodes):
        key = (node.cpu, node.gpus, *sorted(node.left.values()), *node.row.labels.items())
        if key in tried:
            continue  # like a node on which it was tried
        tried.add(key)
        for card in node.places_for(task):
            changed = replace(node, left=dict(node.left))
            changed.put(task, card)
            if could_be_placed([*nodes[:at], changed, *nodes[at + 1 :]], tasks[1:]):
                return True
    return False


def by_size(tasks: Iterable[Task]) -> list[Task]:
    """Return pods in the order in which trying ends the soonest."""
    return sorted(tasks, key=lambda it: (-it.request["gpu"], -part_of(it), -it.request["cpu"]))


# -- sets of units ---------------------------------------------------------------------------------


class Force:
    """All that could be done for the only waiting job of a cluster, a gang."""

    def __init__(self, cluster: Cluster, policy: Policy, action: str) -> None:
        self.cluster = cluster
        self.action = action
        snapshot = cluster.store().snapshot()
        ask = policy.questions
        self.session = session = Session(snapshot, None, policy, NOW_S, Memory(), ask)
        ask.open(session)
        (self.job,) = np.flatnonzero(snapshot.jobs.pending > 0).tolist()
        self.tasks = np.asarray(snapshot.jobs.tasks[self.job])
        shapes = snapshot.tasks.shape_of_task[self.tasks]
        asked = session.shapes.charge.take(shapes, axis=1).sum(axis=1)
        queue = int(snapshot.jobs.queue_of_job[self.job])
        self.claim = Claim(action, self.job, queue, asked)
        self.names = [name.partition("/")[2] for name in snapshot.tasks.name]
        pods = {task.name: task for job in cluster.jobs for task in job.tasks}
        self.pods = [pods[name] for name in self.names]
        self.waiting = by_size(self.pods[task] for task in self.tasks.tolist())
        self.units: list[Unit] = [] if self._is_barred() else list(self._units())
        self._all = as_units(session, self.units) if self.units else None
        self._rooms: dict[frozenset[int], bool] = {}
        self.among = set(range(len(self.units)))
        """The units whose sets are tried: all of them, unless there are too many."""

    def _is_barred(self) -> bool:
        """Tell whether the claim may take from nobody, whatever runs."""
        row, column = np.array([self.job]), self.claim.ask[:, None]
        codes = self.session.ask.claim_gate(self.session, self.action, row, column)
        return codes is not None and bool(codes[0])

    def _units(self) -> Iterator[Unit]:
        session, jobs = self.session, self.session.jobs
        runs = (jobs.active > 0) & jobs.is_preemptible
        runs[self.job] = False
        is_own = jobs.queue_of_job == self.claim.queue
        if self.action == "preempt":
            runs &= is_own & (jobs.priority < jobs.priority[self.job])
        elif self.action == "reclaim" and not session.ask.takes_from_own_queue:
            runs &= ~is_own
        victims = np.flatnonzero(runs)
        if victims.size and self.action != "consolidate":
            codes = session.ask.victim_filter(session, self.claim, victims)
            victims = victims if codes is None else victims[codes == 0]
        return victim_order(session, victims) if victims.size else iter(())

    def makes_room(self, places: Iterable[int]) -> bool:
        """Tell whether the waiting pods fit once units have gone."""
        gone = frozenset(places)
        if gone not in self._rooms:
            names = frozenset(self.names[it] for at in gone for it in self.units[at].tasks)
            self._rooms[gone] = could_be_placed(free_nodes(self.cluster, names), self.waiting)
        return self._rooms[gone]

    def fits_idle(self) -> bool:
        """Tell whether the claim needs nobody to go: there is room, and its queues are open."""
        ask = self.claim.ask
        return self.makes_room(()) and not first_shut(self.session, "allocate", self.job, ask)

    def is_whole(self, places: Sequence[int]) -> bool:
        """Tell whether no core goes without the elastic pods of its job."""
        cores = {self.units[at].job for at in places if self.units[at].is_core}
        return all(
            at in places
            for at, unit in enumerate(self.units)
            if not unit.is_core and unit.job in cores
        )

    def look_at(self, node: str, most: int) -> None:
        """Try only sets of some units with a pod on a node, and of what goes along with them."""
        here = [
            at
            for at, unit in enumerate(self.units)
            if any(self.pods[task].node == node for task in unit.tasks)
        ]
        among: set[int] = set()
        for at in here:
            job = self.units[at].job
            along = {it for it, unit in enumerate(self.units) if unit.job == job}
            if len(among | along) <= most:
                among |= along
        self.among = among

    def pods_of(self, places: Iterable[int]) -> int:
        """Return how many pods a set has."""
        return sum(len(self.units[at].tasks) for at in places)

    def cost(self, places: Sequence[int], number: int) -> tuple[int, ...]:
        """Return what a set costs: the least is the cheapest.

        First whose queues give first of what they have above their shares, then fewest pods, least
        important, fewest GPU-seconds. By a policy with an order of victims the one that ends first.
        """
        if self.session.ask.orders_victims:
            order = self.order(number)
            return tuple(sorted((order.index(at) for at in places), reverse=True))
        jobs, units = self.session.jobs, self._all
        assert units is not None
        of_units = units.job[list(places)]
        since_s = jobs.last_start_s[of_units]
        worked = (
            units.amounts[GPU_ROW, list(places)] * (1 + (NOW_S - since_s).astype(np.int64))
        ).sum()
        turn = max(self.turns[at] for at in places)
        return turn, self.pods_of(places), int(jobs.priority[of_units].max()), int(worked)

    @cached_property
    def turns(self) -> list[int]:
        """Return when each unit's queue gives it: last what leaves it with less than its share."""
        left = self.session.held[GPU_ROW].copy()
        turns: list[int] = []
        assert self._all is not None
        queues = list(dict.fromkeys(self._all.queue.tolist()))
        for at, queue in enumerate(self._all.queue.tolist()):
            left[queue] -= self._all.amounts[GPU_ROW, at]
            is_below = left[queue] < self.session.fair_share[GPU_ROW, queue]
            turns.append(len(queues) if is_below else queues.index(queue))
        return turns

    def order(self, number: int) -> list[int]:
        """Return the units that a pass may take, in the order in which it takes them."""
        ask, claim = self.session.ask, replace(self.claim, pass_number=number)
        every = list(range(len(self.units)))
        if not ask.orders_victims or not self.units:
            return every
        said = ask.victim_order(self.session, claim, self._all)
        return every if said is None else [int(row) for row in said[0]]

    def sets(self, number: int) -> Iterator[tuple[int, ...]]:
        """Yield every set that is allowed in a pass and makes room, those of few pods first."""
        order = [at for at in self.order(number) if at in self.among]
        some = [
            places
            for size in range(1, len(order) + 1)
            for places in combinations(order, size)
            if self.is_whole(places) and self.makes_room(places)
        ]
        some.sort(key=self.pods_of)
        for begin in range(0, len(some), ASKED):
            asked = some[begin : begin + ASKED]
            for places, is_allowed in zip(asked, self._allowed(asked, number), strict=True):
                if is_allowed and self._is_borne_out(places, number):
                    yield places

    def _allowed(self, some: Sequence[tuple[int, ...]], number: int) -> list[bool]:
        """Ask the plugins about sets as a whole."""
        claim, units = replace(self.claim, pass_number=number), self._all
        assert units is not None
        rows = [at for places in some for at in places]
        of_set = np.arange(len(some)).repeat([len(places) for places in some])
        asked = replace(
            units,
            job=units.job[rows],
            queue=units.queue[rows],
            amounts=units.amounts[:, rows],
            is_core=units.is_core[rows],
            tasks=tuple(units.tasks[row] for row in rows),
            alternative=of_set,
        )
        codes = np.asarray(self.session.ask.scenario_gate(self.session, claim, asked))
        refused = set(of_set[codes != 0].tolist())
        return [at not in refused for at in range(len(some))]

    def _is_borne_out(self, places: Sequence[int], number: int) -> bool:
        """Ask the queues' gates and the plan gate with the units gone."""
        session, claim = self.session, replace(self.claim, pass_number=number)
        units = [self.units[at] for at in places]
        statement = session.statement()
        for unit in units:
            for task in unit.tasks:
                statement.evict(task)
        shut = first_shut(session, self.action, self.job, claim.ask)
        codes = None
        if not shut and session.ask.has_plan_gates:
            codes = session.ask.plan_gate(session, claim, as_units(session, units))
        statement.rollback()
        return not shut and (codes is None or not np.any(codes))

    def works(self, places: Sequence[int], number: int) -> bool:
        """Tell whether one set is allowed in a pass and makes room."""
        order = self.order(number)
        if not set(places) <= set(order) or not self.is_whole(places):
            return False
        inside = tuple(sorted(places, key=order.index))
        if not inside or not self.makes_room(inside):
            return False
        return self._allowed([inside], number)[0] and self._is_borne_out(inside, number)

    def first(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the first pass with a set that would do, and such a set of the fewest pods."""
        for number in (0, 1):
            found = next(self.sets(number), None)
            if found is not None:
                return number, found
        return None

    # -- moves -------------------------------------------------------------------------------------

    def moves(self, most: int) -> tuple[int, ...] | None:
        """Return a smallest set of units that all fit elsewhere once the claim has its place."""
        if not self.session.jobs.is_preemptible[self.job] or not self._is_enough_idle():
            return None
        if first_shut(self.session, self.action, self.job, self.claim.ask):
            return None
        able = [at for at in sorted(self.among) if self._may_move(at)]
        for size in range(1, len(able) + 1):
            for places in combinations(able, size):
                jobs = {self.units[at].job for at in places}
                if len(jobs) > most >= 0 or not self.makes_room(places):
                    continue
                moved = [self.pods[it] for at in places for it in self.units[at].tasks]
                nodes = free_nodes(self.cluster, frozenset(it.name for it in moved))
                if could_be_placed(nodes, by_size([*self.waiting, *moved])):
                    return places
        return None

    def _is_enough_idle(self) -> bool:
        """Tell whether all nodes together have idle what the claim asks for: moves free nothing."""
        rows = self.cluster.nodes
        pods = [*self.waiting, *(it for it in self.pods if it.state is TaskState.RUNNING)]
        cpu = sum(it.request["cpu"] for it in pods)
        gpu = sum(it.request["gpu"] * CARD // GPU + part_of(it) for it in pods)
        return cpu <= sum(it.allocatable["cpu"] for it in rows) and gpu <= sum(
            it.allocatable["gpu"] * CARD // GPU for it in rows
        )

    def _may_move(self, at: int) -> bool:
        """Tell whether the queues of a unit would take it again once it has gone."""
        unit, session = self.units[at], self.session
        assert self._all is not None
        statement = session.statement()
        for task in unit.tasks:
            statement.evict(task)
        shut = first_shut(session, self.action, unit.job, self._all.amounts[:, at])
        statement.rollback()
        return not shut


def protecting(cluster: Cluster, name: str) -> Cluster:
    """Return the cluster in which nobody may evict or move a job."""
    return changed(
        cluster, lambda job: replace(job, is_preemptible=job.is_preemptible and job.name != name)
    )


def changed(cluster: Cluster, change) -> Cluster:
    """Return the cluster with every job changed."""
    jobs: tuple[Job, ...] = tuple(change(job) for job in cluster.jobs)
    return replace(cluster, jobs=jobs)
