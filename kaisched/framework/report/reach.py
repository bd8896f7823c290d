"""Which gangs still fit in one domain of the level that they require, and in which domains.

Read after a cycle: of what is idle then, for the jobs that still wait. A gang of s pods that has to
be in one domain can use floor(free / s) times s of the free places of each; what is left over is
room that no such gang can use.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.constraints import Domains, domains_at, level_of, levels_of, topology_of
from kaisched.framework.session.batches import batch_of, pods_of_batch
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.core.tables import SubGroup, TopologyLevel
    from kaisched.framework.session.session import Session

Shapes = tuple[tuple[int, int], ...]
"""(shape, pods) of a gang."""
Levels: TypeAlias = "tuple[TopologyLevel, ...]"
_Need: TypeAlias = tuple[str, int, Shapes, Levels]
"""(topology, level, pods, levels)"""


class Reach(NamedTuple):
    """How many gangs of one size fit in single domains of a level."""

    topology: str
    """Its name; the label of nodes of which it was made up."""
    level: str
    """For people."""
    jobs: tuple[str, ...]
    """Those that wait with this size, by name."""
    pods: int
    asks: str
    """What a pod of each kind asks for."""
    fits: int
    """Gangs that fit, each in one domain."""
    in_all: int
    """Gangs for which there would be room if all of it were in one domain."""
    best: tuple[tuple[str, int], ...]
    """(domain, gangs) of those that hold one, the most first."""
    nearest: str
    """The domain in which most pods of one gang fit, empty without any."""
    short: int
    """Pods of one gang that do not fit there."""


def reaches(session: Session, waiting: RowVec) -> Iterator[Reach]:
    """Yield a line for each size of gang, level and topology that waiting jobs require."""
    asked: dict[_Need, list[str]] = {}
    for job in waiting.tolist():
        root = session.jobs.structure.get(job)
        if root is None:
            continue
        for one in _asked(session, job, root):
            asked.setdefault(one, []).append(session.jobs.title[job])
    known: dict[tuple[Levels, int], Domains] = {}
    for (topology, level, shapes, levels), names in sorted(asked.items()):
        if (levels, level) not in known:
            known[levels, level] = domains_at(levels, level, session.nodes.labels)
        yield _reach(session, topology, known[levels, level], shapes, sorted(set(names)))


def _asked(session: Session, job: int, root: SubGroup) -> Iterator[_Need]:
    """Yield the required levels of a job and its subgroups, with the pods of its next batch."""
    for group in root.groups():
        wish = group.topology
        if wish is None or not wish.required:
            continue
        topology = topology_of(session.nodes.topologies, wish) or wish.required
        levels = levels_of(session.nodes.topologies, wish)
        level = level_of(levels, wish.required)
        shapes = _batch(session, job, root, group)
        if level >= 0 and shapes:
            yield topology, level, shapes, levels


def _batch(session: Session, job: int, root: SubGroup, group: SubGroup) -> Shapes:
    """Return the pods of a subgroup in the next batch of its job."""
    if group is root:
        return tuple(sorted(batch_of(session, job)[0]))
    batch = pods_of_batch(session, job)
    mine = batch[np.isin(session.tasks.podset_of_task[batch], group.podsets)]
    return tuple(sorted(Counter(session.tasks.shape_of_task[mine].tolist()).items()))


def _reach(
    session: Session, topology: str, domains: Domains, shapes: Shapes, jobs: list[str]
) -> Reach:
    free = [(domains.sums(session.places(shape)), count) for shape, count in shapes]
    gangs = _least([room // count for room, count in free])
    pods = sum(count for _, count in shapes)
    parts: IntVec = _least([room * pods // count for room, count in free])
    best = np.lexsort((np.arange(len(gangs)), -gangs))
    nearest = int(np.argmax(parts)) if parts.size else -1
    return Reach(
        topology,
        domains.word,
        tuple(jobs),
        pods,
        " and ".join(_asks(session, shape) for shape, _ in shapes),
        int(gangs.sum()),
        min(int(room.sum()) // count for room, count in free),
        tuple((domains.names[at], int(gangs[at])) for at in best.tolist() if gangs[at]),
        domains.names[nearest] if nearest >= 0 else "",
        pods - min(int(parts[nearest]), pods) if nearest >= 0 else pods,
    )


def _least(columns: list[IntVec]) -> IntVec:
    found: IntVec = np.minimum.reduce(columns)
    return found


def _asks(session: Session, shape: int) -> str:
    """Return what a pod asks for, its GPUs if it has any."""
    names, request = session.axis.names, session.shapes.request[:, shape]
    amounts = {name: int(it) for name, it in zip(names, request.tolist(), strict=True) if it}
    amounts.pop("pods", None)
    if "gpu" in amounts:
        amounts = {"gpu": amounts["gpu"]}
    return ", ".join(f"{format_amount(name, it)} {name}" for name, it in amounts.items())
