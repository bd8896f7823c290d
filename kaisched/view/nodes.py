"""Documents of nodes: their GPUs, and which job and queue holds each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import CPU, GPU, GPU_UNIT, HOLDING_STATES, MEMORY, TaskState
from kaisched.core.devices import CARD
from kaisched.core.titles import TopOwner, workload_document
from kaisched.errors import ConfigError
from kaisched.objects.faults import did_you_mean
from kaisched.units import mig_slices
from kaisched.view.documents import by_name, envelope, gpus
from kaisched.view.paths import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import BoolVec, IntVec
    from kaisched.view.reading import Reading, Sight

_ENDING = (int(TaskState.RELEASING), int(TaskState.STUCK))


class Wanted(NamedTuple):
    """Which nodes are asked for."""

    name: str = ""
    """A part of the name."""
    queue: int = -1
    """The row of a queue that holds room there, it or one below it; -1 for any."""
    state: str = ""
    """One of :data:`NODE_STATES`."""
    domain: str = ""
    """A domain of a topology, after those around it."""
    part: Part = Part()


def nodes_document(reading: Reading, wanted: Wanted, sight: Sight) -> dict[str, Any]:
    """Return nodes by name, with what is held on each."""
    rows = _matching(reading, wanted)
    return {
        **envelope(reading.view),
        **wanted.part.document(len(rows)),
        "nodes": [_node(reading, row, sight) for row in wanted.part.of(rows)],
    }


def _matching(reading: Reading, wanted: Wanted) -> list[int]:
    names = reading.snapshot.nodes.name
    rows = range(len(names))
    found = [row for row in rows if wanted.name in names[row]] if wanted.name else list(rows)
    if wanted.state:
        is_there = _free_gpus(reading).state == NODE_STATES.index(wanted.state)
        found = [row for row in found if is_there[row]]
    if wanted.domain:
        found = [row for row in found if wanted.domain in _domains(reading, row).values()]
    if wanted.queue < 0:
        return found
    end = int(reading.snapshot.queues.tree.end_of_queue[wanted.queue])
    job = reading.snapshot.tasks.job_of_task
    queue = np.where(job >= 0, reading.snapshot.jobs.queue_of_job[job], -1)
    holds = (queue >= wanted.queue) & (queue < end) & (reading.node_of_task >= 0)
    there = set(reading.node_of_task[holds].tolist())
    return [row for row in found if row in there]


# -- totals --------------------------------------------------------------------------------------

NODE_STATES: Final = ("free", "partly", "full", "without", "unschedulable", "not-ready")
"""States of nodes: all GPUs free, some, none; no GPUs; closed to new pods; not ready."""
FREE, PARTLY, FULL, WITHOUT, CLOSED, OUT = range(len(NODE_STATES))


class _FreeGpus(NamedTuple):
    """The whole GPUs of each node, ``(N,)``."""

    state: IntVec
    total: IntVec
    free: IntVec
    usable: IntVec
    """The free GPUs for which there is CPU and memory."""

    def sums(self, name: str, rows: BoolVec | IntVec) -> dict[str, Any]:
        """Return the totals of some nodes."""
        free, usable = int(self.free[rows].sum()), int(self.usable[rows].sum())
        return {
            "name": name,
            "nodes": len(self.state[rows]),
            "total": int(self.total[rows].sum()),
            "free": free,
            "wholeFree": int(np.count_nonzero(self.state[rows] == FREE)),
            "stranded": free - usable,
        }


def _free_gpus(reading: Reading) -> _FreeGpus:
    snapshot = reading.snapshot
    nodes, shapes = snapshot.nodes, snapshot.shapes
    idle = nodes.allocatable.copy()
    tasks = np.flatnonzero(HOLDING_STATES[reading.state] & (reading.node_of_task >= 0))
    shape = snapshot.tasks.shape_of_task[tasks]
    for row in range(len(idle)):
        held = np.bincount(
            reading.node_of_task[tasks], shapes.request[row, shape].astype(float), len(nodes)
        )
        idle[row] -= held.astype(np.int64)
    total = snapshot.axis.charged(nodes.allocatable)[GPU] // GPU_UNIT
    free = np.maximum(snapshot.axis.charged(idle)[GPU], 0) // GPU_UNIT
    is_ready, is_closed = nodes.statics.is_ready, nodes.statics.is_unschedulable
    free = np.where(is_ready & ~is_closed, free, 0)
    state = np.select(
        [~is_ready, is_closed, total == 0, free == total, free == 0],
        [OUT, CLOSED, WITHOUT, FREE, FULL],
        PARTLY,
    )
    usable = free.copy()
    for row, least in _least_beside(reading).items():
        usable = np.minimum(usable, np.maximum(idle[row], 0) // least)
    return _FreeGpus(state, total, free, usable)


def _least_beside(reading: Reading) -> dict[int, int]:
    """Return the least CPU and memory that any pod asks for beside each of its whole GPUs."""
    snapshot = reading.snapshot
    there = np.unique(snapshot.tasks.shape_of_task[reading.state != int(TaskState.GONE)])
    request = snapshot.shapes.request[:, there]
    gpus_ = request[GPU] // GPU_UNIT
    asks = request[:, gpus_ > 0] // np.maximum(gpus_[gpus_ > 0], 1)
    if not asks.size:
        return {}
    return {row: int(asks[row].min()) for row in (CPU, MEMORY) if asks[row].min() > 0}


def capacity_document(reading: Reading, level: str) -> dict[str, Any]:
    """Return the GPUs of all nodes in totals: by state, by domain and by department.

    Raises:
        ConfigError: there is no such level.

    """
    gpus_of = _free_gpus(reading)
    domains = [_domains(reading, row) for row in range(len(reading.snapshot.nodes))]
    levels = list(dict.fromkeys(name for of in domains for name in of))
    if level and level not in levels:
        raise ConfigError(
            "no such level", path="level", value=level, fix=did_you_mean(level, levels)
        )
    chosen = level or _racks(levels, domains)
    rows_of: dict[str, list[int]] = {}
    for row, of in enumerate(domains):
        if chosen in of:
            rows_of.setdefault(of[chosen], []).append(row)
    by_domain = {name: np.array(rows) for name, rows in rows_of.items()}
    gangs = [int(gpus_of.usable[rows].sum()) for rows in by_domain.values()]
    return {
        **envelope(reading.view),
        "all": gpus_of.sums("all", np.ones(len(domains), np.bool_)),
        "states": [
            gpus_of.sums(name, gpus_of.state == at)
            for at, name in enumerate(NODE_STATES)
            if (gpus_of.state == at).any()
        ],
        "levels": levels,
        "level": chosen or None,
        "domains": [gpus_of.sums(name, rows) for name, rows in by_domain.items()],
        "largestGang": max(gangs, default=int(gpus_of.usable.sum())),
        "departments": _departments(reading),
    }


def _racks(levels: Sequence[str], domains: Sequence[dict[str, str]]) -> str:
    """Return the innermost level of which domains have several nodes; empty without a topology."""
    wide = [
        name
        for name in levels
        if len({of[name] for of in domains if name in of}) < sum(name in of for of in domains)
    ]
    return (wide or list(levels) or [""])[-1]


def _departments(reading: Reading) -> dict[str, float]:
    """Return the GPUs that each department holds: a root, or a child of the only root."""
    queues, shares = reading.snapshot.queues, reading.view.shares
    parents = queues.tree.parent_of_queue
    rows = np.flatnonzero(parents < 0)
    while len(rows) == 1 and (parents == rows[0]).any():
        rows = np.flatnonzero(parents == rows[0])
    held = [(shares[row].name, shares[row].allocated.get("gpu", 0)) for row in rows.tolist()]
    return {name: gpus(amount) for name, amount in held if amount}


def _node(reading: Reading, row: int, sight: Sight) -> dict[str, Any]:
    snapshot = reading.snapshot
    nodes = snapshot.nodes
    tasks = reading.tasks_on(row)
    request = snapshot.shapes.request[:, snapshot.tasks.shape_of_task[tasks]]
    idle = nodes.allocatable[:, row] - request.sum(axis=1)
    total, free = (int(snapshot.axis.charged(it)[GPU]) for it in (nodes.allocatable[:, row], idle))
    return {
        "name": nodes.name[row],
        "ready": bool(nodes.statics.is_ready[row]),
        "schedulable": not bool(nodes.statics.is_unschedulable[row]),
        "allocatable": by_name(snapshot.axis.names, nodes.allocatable[:, row].tolist()),
        "free": by_name(snapshot.axis.names, np.maximum(idle, 0).tolist()),
        "gpus": {"total": gpus(total), "free": gpus(max(free, 0))},
        "holders": _holders(reading, tasks, sight),
        "cards": _cards(reading, row, tasks, sight),
        "instances": _instances(reading, row, tasks, sight),
        "promised": _promised(reading, row, sight),
        "domains": _domains(reading, row),
    }


def _domains(reading: Reading, node: int) -> dict[str, str]:
    """Return the domain of a node at each level of the topologies, with those around it."""
    nodes = reading.snapshot.nodes
    labels, found = nodes.labels[node], dict[str, str]()
    for levels in nodes.topologies.values():
        path: list[str] = []
        for level in levels:
            value = labels.get(level.label)
            if value is None:
                break
            path.append(value)
            found.setdefault(level.alias or level.label, "/".join(path))
    return found


def _holders(reading: Reading, tasks: list[int], sight: Sight) -> list[dict[str, Any]]:
    """Return who holds room of a node, by job, in the order of their pods; hidden jobs by queue.

    Reservation pods are left out: the pods that share their GPU hold it.
    """
    snapshot = reading.snapshot
    held = snapshot.axis.charged(snapshot.shapes.request)[GPU]
    found: dict[tuple[_Whose, bool], list[int]] = {}
    for task in tasks:
        demand = snapshot.shapes.constraints[int(snapshot.tasks.shape_of_task[task])].devices
        if demand is None or not demand.is_reservation:
            found.setdefault(_holder(reading, task, sight), []).append(task)
    return [
        {
            **whose.document(),
            "pods": len(of),
            "gpus": gpus(int(held[snapshot.tasks.shape_of_task[of]].sum())),
            "devices": list(dict.fromkeys(it for task in of for it in reading.devices_of(task))),
            "ending": is_ending,
        }
        for (whose, is_ending), of in found.items()
    ]


def _holder(reading: Reading, task: int, sight: Sight) -> tuple[_Whose, bool]:
    """Return whose a task is, and whether the task is ending."""
    job = int(reading.snapshot.tasks.job_of_task[task])
    return _whose(reading, job, sight), int(reading.state[task]) in _ENDING


def _instances(reading: Reading, node: int, tasks: list[int], sight: Sight) -> list[dict[str, Any]]:
    """Return the MIG instances of a node by profile, and who has how many of them."""
    snapshot, axis, found = reading.snapshot, reading.snapshot.axis, []
    for name, row in axis.position.items():
        total = int(snapshot.nodes.allocatable[row, node])
        if not total or not mig_slices(name) or axis.gpu_part is None:
            continue
        held = Counter[tuple[_Whose, bool]]()
        for task in tasks:
            number = int(snapshot.shapes.request[row, snapshot.tasks.shape_of_task[task]])
            if number:
                held[_holder(reading, task, sight)] += number
        found.append(
            {
                "resource": name,
                "part": gpus(int(axis.gpu_part[row])),
                "total": total,
                "free": max(total - sum(held.values()), 0),
                "holders": [
                    {**whose.document(), "instances": number, "ending": is_ending}
                    for (whose, is_ending), number in held.items()
                ],
            }
        )
    return found


def _cards(reading: Reading, node: int, tasks: list[int], sight: Sight) -> list[dict[str, Any]]:
    """Return the GPUs of a node that pods share, by slot, with what each pod has of them.

    The parts of jobs that the reader may not see are summed by queue.
    """
    snapshot, found = reading.snapshot, dict[int, list[tuple[_Whose, float]]]()
    sizes = None if snapshot.nodes.cards is None else snapshot.nodes.cards.size
    for task in tasks:
        demand = snapshot.shapes.constraints[int(snapshot.tasks.shape_of_task[task])].devices
        size = CARD if sizes is None or not sizes[node] else int(sizes[node])
        for slot in reading.slots_of(task) if demand is not None and demand.is_share else ():
            part = round(demand.take(size // CARD) / size, 6) if demand is not None else 0.0
            whose = _whose(reading, int(snapshot.tasks.job_of_task[task]), sight)
            found.setdefault(slot, []).append((whose, part))
    return [
        {
            "slot": slot,
            "free": round(max(1 - sum(part for _, part in held), 0), 6),
            "holders": _sharers(held),
        }
        for slot, held in sorted(found.items())
    ]


def _sharers(held: Sequence[tuple[_Whose, float]]) -> list[dict[str, Any]]:
    """Return who shares a GPU: pods of jobs that the reader may see, and queues of others."""
    listed: list[dict[str, Any]] = []
    of_hidden: dict[_Whose, dict[str, Any]] = {}
    for whose, part in held:
        if (entry := of_hidden.get(whose)) is not None:
            entry["part"] = round(entry["part"] + part, 6)
            continue
        listed.append({**whose.document(), "part": part})
        if whose.pod_group is None and whose.queue is not None:
            of_hidden[whose] = listed[-1]
    return listed


def _promised(reading: Reading, node: int, sight: Sight) -> list[dict[str, Any]]:
    """Return the jobs that wait for room being released on a node."""
    job_of_task = reading.snapshot.tasks.job_of_task
    found = Counter(
        _whose(reading, int(job_of_task[task]), sight) for task in reading.promised_on.get(node, ())
    )
    return [{**whose.document(), "pods": pods} for whose, pods in found.items()]


class _Whose(NamedTuple):
    """A job and its queue, as documents name them: hidden jobs of a queue are equal."""

    pod_group: str | None = None
    queue: str | None = None
    owner: TopOwner | None = None

    def document(self) -> dict[str, Any]:
        """Return the names for a document."""
        workload = workload_document(self.owner)
        return {"podGroup": self.pod_group, "workload": workload, "queue": self.queue}


def _whose(reading: Reading, job: int, sight: Sight) -> _Whose:
    """Return the names of a job and its queue; None for pods that are not ours to place."""
    if job < 0:
        return _Whose()
    queue = reading.queue_name(job)
    if not sight.sees(queue):
        return _Whose(None, queue)
    jobs = reading.snapshot.jobs
    return _Whose(jobs.name[job], queue, jobs.owner_of(job))
