"""Claims, and the units of running jobs that could make room for them.

A *claim* is a pending batch that asks for room which other jobs hold. A *unit* is a set of pods
that is evicted together: elastic pods one by one, the least important first, then the core, the
pods that a job needs in order to run: without a part of it the rest would be useless. A spare
subgroup, beyond those that the job needs, is a unit too. Its own elastic pods are useless without
it. So what goes takes others along: :class:`Going` tells which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kaisched.core.axis import ACTIVE_STATES
from kaisched.framework.session.order import ordered_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.node_sets import NodeSet
    from kaisched.framework.session.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A job's next batch, and the action that would evict for it."""

    action: str
    job: int
    queue: int
    """The job's leaf queue."""
    ask: Amounts
    """``(R,)`` what the batch asks for."""
    pass_number: int = 0
    """The number of earlier passes of the search: after a pass in which plugins refused victims for
    a reason that is retried, they are asked again and may allow more."""
    within: NodeSet | None = None
    """The set of nodes on which the batch is to be placed; None for all nodes."""


class Unit(NamedTuple):
    """A unit: the pods of a job that are evicted together."""

    job: int
    tasks: tuple[int, ...]
    """Task rows."""
    is_core: bool
    part_of: int = -1
    """For an elastic pod of a spare subgroup: the first task row of that unit; else -1."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Running units in the order in which they would be evicted. Columns ``(V,)``."""

    job: RowVec
    queue: RowVec
    """Leaf queue of each unit."""
    amounts: Amounts
    """``(R, V)`` what each unit's tasks hold."""
    is_core: BoolVec
    """True for the core of a gang, False for an elastic pod."""
    tasks: Sequence[tuple[int, ...]]
    """Task rows of each unit."""
    alternative: RowVec | None = None
    """The number of the set of each unit, ascending; every set is judged on its own. None: all
    units are in one set."""

    def __len__(self) -> int:
        """Return V."""
        return len(self.job)


class Going:
    """Units that are evicted, and the units that depend on these."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        """Begin with the units that are known to be evicted."""
        self._cores: set[int] = set()
        self._pods: set[int] = set()
        """The first pod of each unit that is no core."""
        for unit in units:
            self.add(unit)

    def add(self, unit: Unit) -> None:
        """Record that a unit is evicted."""
        if unit.is_core:
            self._cores.add(unit.job)
        else:
            self._pods.add(unit.tasks[0])

    def takes(self, unit: Unit) -> bool:
        """Tell whether a unit is evicted too: with its job's core, or with its subgroup."""
        return unit.job in self._cores or unit.part_of in self._pods


def going_along(units: Mapping[int, Unit]) -> dict[int, list[int]]:
    """Return, by place of a unit that takes others along, the places of these.

    ``units`` are by place, and those of a job are all in it.
    """
    of_job: dict[int, list[int]] = {}
    subgroups: dict[int, int] = {}
    for place, unit in units.items():
        of_job.setdefault(unit.job, []).append(place)
        subgroups[unit.tasks[0]] = place
    along: dict[int, list[int]] = {}
    for place, unit in units.items():
        if unit.is_core:
            along[place] = [other for other in of_job[unit.job] if other != place]
        elif unit.part_of >= 0:
            along.setdefault(subgroups[unit.part_of], []).append(place)
    return along


def units_of(session: Session, job: int, state: npt.NDArray[np.int8] | None = None) -> list[Unit]:
    """Return a running job's units, the first to go first; the last one is its core.

    Elastic pods come one by one, then whole subgroups beyond the number that is needed, then all
    other pods. A job that needs nothing to run has no core. Pods on unknown nodes are in no unit.
    ``state`` is the state of every pod; by default that of now. Pods that this cycle has placed are
    the first to be elastic, and subgroups that are met by them the first to be spare: no pod that
    runs may go because they will.
    """
    rows = session.jobs.tasks[job]
    if state is None:
        state = session.state_now
    stranded = session.stranded
    if len(rows) == 1:
        row = int(rows[0])
        runs = ACTIVE_STATES[state[row]] and (stranded is None or not stranded[row])
        return [Unit(job, (row,), is_core=True)] if runs else []
    tasks = np.array(rows, np.int64)
    tasks = tasks[ACTIVE_STATES[state[tasks]]]
    if stranded is not None:
        tasks = tasks[~stranded[tasks]]
    ranked = ordered_tasks(session, tasks).tolist()
    placed = set(tasks[~ACTIVE_STATES[session.tasks.state[tasks]]].tolist())
    if placed:
        ranked.sort(key=placed.__contains__)
    root = session.jobs.structure.get(job)
    if root is None:
        least = int(session.podsets.minimum[int(session.jobs.first_podset[job])])
        units = [Unit(job, (task,), is_core=False) for task in reversed(ranked[least:])]
        core = tuple(ranked[:least])
    else:
        units, core = _split_tree(session, job, ranked, root, placed)
    return [*units, Unit(job, core, is_core=True)] if core else units


def _split_tree(
    session: Session, job: int, ranked: list[int], root: SubGroup, placed: set[int]
) -> tuple[list[Unit], tuple[int, ...]]:
    """Return the elastic units of a job with subgroups, and the task rows of its core."""
    podset_of_task, minimum = session.tasks.podset_of_task, session.podsets.minimum
    kept: dict[int, list[int]] = {}
    surplus: list[int] = []
    for task in ranked:
        podset = int(podset_of_task[task])
        members = kept.setdefault(podset, [])
        if len(members) < minimum[podset]:
            members.append(task)
        else:
            surplus.append(task)
    ran = {podset: [it for it in some if it not in placed] for podset, some in kept.items()}
    spare: list[Unit] = []
    part_of: dict[int, int] = {}
    for group in _dispensable(root, _numbers(kept), _numbers(ran), minimum):
        podsets = group.podsets
        tasks = tuple(task for podset in podsets for task in kept.pop(podset, ()))
        if tasks:
            spare.append(Unit(job, tasks, is_core=False))
            part_of.update(dict.fromkeys(podsets, tasks[0]))
    elastic = [
        Unit(job, (task,), is_core=False, part_of=part_of.get(int(podset_of_task[task]), -1))
        for task in reversed(surplus)
    ]
    core = {task for members in kept.values() for task in members}
    return elastic + spare, tuple(task for task in ranked if task in core)


def _numbers(pods: Mapping[int, list[int]]) -> Counter[int]:
    """Return how many pods there are, by pod set."""
    return Counter({podset: len(some) for podset, some in pods.items()})


def _dispensable(
    group: SubGroup, running: Counter[int], ran: Counter[int], minimum: IntVec
) -> list[SubGroup]:
    """Return the subgroups beyond what their parents need, the last by name first.

    Before those that were met by pods that ``ran`` come those that are met only now.
    """
    if group.podset >= 0:
        return []
    met = [child for child in group.children if child.is_met(running, minimum)]
    met.sort(key=lambda child: (not child.is_met(ran, minimum), child.name))
    spare = met[group.min_subgroup :] if group.min_subgroup >= 0 else []
    found = list(reversed(spare))
    for child in met[: len(met) - len(spare)]:
        found.extend(_dispensable(child, running, ran, minimum))
    return found
