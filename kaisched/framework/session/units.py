"""Units of a running job, which are evicted together: elastic pods one by one, then the core.

The least important pod goes first. The pods that a job needs in order to run are one unit, the
core: without a part of it the rest would be useless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kaisched.core.states import ACTIVE_STATES
from kaisched.framework.session.claims import Unit
from kaisched.framework.session.host import host_of
from kaisched.framework.session.task_order import ordered_tasks

if TYPE_CHECKING:
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.view import SessionView


def units_of(
    session: SessionView, job: int, state: npt.NDArray[np.int8] | None = None
) -> list[Unit]:
    """Return a running job's units, the first to go first; the last one is its core.

    Elastic pods come one by one, then whole subgroups beyond the number that is needed, then all
    other pods. A job that needs nothing to run has no core. Pods on unknown nodes are in no unit.
    ``state`` is the state of every pod; by default that of now.
    """
    rows = session.jobs.tasks[job]
    if state is None:
        state = session.state_now
    stranded = host_of(session).stranded
    if len(rows) == 1:
        row = int(rows[0])
        runs = ACTIVE_STATES[state[row]] and (stranded is None or not stranded[row])
        return [Unit(job, (row,), is_core=True)] if runs else []
    tasks = np.array(rows, np.int64)
    tasks = tasks[ACTIVE_STATES[state[tasks]]]
    if stranded is not None:
        tasks = tasks[~stranded[tasks]]
    ranked = ordered_tasks(session, tasks).tolist()
    root = session.jobs.structure.get(job)
    if root is None:
        least = int(session.podsets.minimum[int(session.jobs.first_podset[job])])
        units = [Unit(job, (task,), is_core=False) for task in reversed(ranked[least:])]
        core = tuple(ranked[:least])
    else:
        units, core = _split_tree(session, job, ranked, root)
    return [*units, Unit(job, core, is_core=True)] if core else units


def _split_tree(
    session: SessionView, job: int, ranked: list[int], root: SubGroup
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
    units = [Unit(job, (task,), is_core=False) for task in reversed(surplus)]
    for group in _dispensable(root, kept, minimum.tolist()):
        tasks = tuple(task for podset in leaves(group) for task in kept.pop(podset, ()))
        if tasks:
            units.append(Unit(job, tasks, is_core=False))
    core = {task for members in kept.values() for task in members}
    return units, tuple(task for task in ranked if task in core)


def _dispensable(
    group: SubGroup, running: dict[int, list[int]], minimum: list[int]
) -> list[SubGroup]:
    """Return the subgroups beyond what their parents need, the last by name first."""
    if group.podset >= 0:
        return []
    met = [child for child in group.children if _is_met(child, running, minimum)]
    met.sort(key=lambda child: child.name)
    spare = met[group.min_subgroup :] if group.min_subgroup >= 0 else []
    found = list(reversed(spare))
    for child in met[: len(met) - len(spare)]:
        found.extend(_dispensable(child, running, minimum))
    return found


def _is_met(group: SubGroup, running: dict[int, list[int]], minimum: list[int]) -> bool:
    if group.podset >= 0:
        return len(running.get(group.podset, ())) >= minimum[group.podset]
    met = sum(_is_met(child, running, minimum) for child in group.children)
    return met >= group.min_subgroup


def leaves(group: SubGroup) -> list[int]:
    """Return the pod sets of a group."""
    if group.podset >= 0:
        return [group.podset]
    return [podset for child in group.children for podset in leaves(child)]
