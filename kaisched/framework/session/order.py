"""The order of jobs, of the pods inside a job, and of equal pods on the nodes chosen for them.

Jobs and pods are ordered by the plugins' keys, then creation, then name. Equal pods are ordered by
the index that controllers write as a label: pods with neighbouring indexes talk to each other most,
and get neighbouring nodes. An index is no promise about the rank of a process, since elastic
launchers number anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.session import Session

_PENDING = int(TaskState.PENDING)
_HINT: Final = "task_order"
_MANY: Final = 64
"""Sorting fewer tasks costs no more than checking whether a kept order is still valid."""
_KEPT: Final = 64
"""Jobs whose order is kept."""
_RANK: Final = "job_order.rank"
_TIED: Final = "job_order.tied"
KEYS: Final = (
    ("jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"),
    ("batch.kubernetes.io/job-completion-index",),
    ("training.kubeflow.org/replica-index",),
    ("leaderworkerset.sigs.k8s.io/worker-index",),
    ("apps.kubernetes.io/pod-index",),
    ("kueue.x-k8s.io/pod-group-pod-index",),
)
"""Labels of pods; the first entry counts of which a pod has all. Of two the first one counts
before the second."""
_MOST_DIGITS: Final = 9


class _Known(NamedTuple):
    """An order of tasks, with the keys that it was made from: names stay with their rows."""

    generation: int
    tasks: bytes
    columns: tuple[bytes, ...]
    ordered: RowVec


def ordered_tasks(session: Session, tasks: RowVec) -> RowVec:
    """Return task rows in the order in which they are placed."""
    if len(tasks) < 2:  # noqa: PLR2004 - nothing to order
        return tasks
    columns = (*(session.ask.task_order(session, tasks) or ()), session.tasks.created_s[tasks])
    if len(tasks) < _MANY:
        return _sorted(session, tasks, columns)
    known: dict[int, _Known] = session.hints.setdefault(_HINT, {})
    job = int(session.tasks.job_of_task[tasks[0]])
    asked = (
        session.generation,
        tasks.tobytes(),
        tuple(column.tobytes() for column in columns),
    )
    found = known.pop(job, None)
    if found is None or found[:3] != asked:
        found = _Known(*asked, _sorted(session, tasks, columns))
    known[job] = found
    if len(known) > _KEPT:
        del known[next(iter(known))]
    return found.ordered.copy()


def _sorted(session: Session, tasks: RowVec, columns: tuple[Any, ...]) -> RowVec:
    rows = tasks.tolist()
    keys: list[list[Any]] = []
    for column in columns:
        key = column.tolist()
        if key.count(key[0]) != len(key):  # most keys are the same for all pods of a job
            keys.append(key)
    names = session.tasks.name
    keys.append([names[row] for row in rows])
    ranked = sorted(zip(*keys, rows, strict=True))
    return np.array([entry[-1] for entry in ranked], np.int64)


def pending_tasks(session: Session, job: int) -> RowVec:
    """Return a job's pending task rows, in the order in which they are placed."""
    tasks = np.array(session.jobs.tasks[job], np.int64)
    if session.pending_count(job) == len(tasks):
        return ordered_tasks(session, tasks)
    return ordered_tasks(session, tasks[session.state_now[tasks] == _PENDING])


def ordered_jobs(session: Session, job: RowVec) -> RowVec:
    """Return job rows in job order, the most important first."""
    if len(job) < 2:  # noqa: PLR2004 - nothing to order
        return job
    keys = [*(session.ask.job_order(session, job) or ()), session.jobs.created_s[job]]
    ordered: RowVec = job[last_first(session, job, keys)[::-1]]
    return ordered


def jobs_by_age(session: Session, job: RowVec) -> RowVec:
    """Return job rows by creation and name, the oldest first."""
    if len(job) < 2:  # noqa: PLR2004 - nothing to order
        return job
    ordered: RowVec = job[last_first(session, job, [session.jobs.created_s[job]])[::-1]]
    return ordered


def last_first(session: Session, rows: RowVec, columns: list[Any]) -> RowVec:
    """Return the places of job rows by key columns, the last first; names settle ties.

    A job may be there twice, its elastic pods before its core: so they stay where keys tie.
    """
    order: RowVec = np.lexsort(columns[::-1])[::-1]
    same = np.ones(max(len(rows) - 1, 0), np.bool_)
    for key in reversed(columns):  # the last column, their creation, leaves hardly any tie
        ranked = key.take(order)
        same &= ranked[1:] == ranked[:-1]
        if not np.count_nonzero(same):
            break
    tied = same.nonzero()[0]
    if not tied.size:
        return order
    rank = _rank_of_names(session, int(tied.size))
    if rank is not None:
        behind = -np.arange(len(rows))
        by_name: RowVec = np.lexsort([behind, rank.take(rows), *columns[::-1]])[::-1]
        return by_name
    names = session.jobs.name
    begins = tied[np.diff(tied, prepend=-2) > 1]
    ends = tied[np.diff(tied, append=len(rows) + 1) > 1] + 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        group = sorted(order[begin:end].tolist())
        order[begin:end] = sorted(group, key=lambda at: names[int(rows[at])], reverse=True)
    return order


def _rank_of_names(session: Session, tied: int) -> IntVec | None:
    """Return the place ``(J,)`` of each job by name, once ties have cost more than to sort all.

    A cycle with one search in a large cluster has few ties; one with a thousand has them each time.
    """
    found = session.found
    rank: IntVec | None = found.get(_RANK)
    if rank is not None:
        return rank
    names = session.jobs.name
    found[_TIED] = found.get(_TIED, 0) + tied
    if found[_TIED] < len(names):
        return None
    rank = found[_RANK] = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank


def as_neighbours(
    session: Session, tasks: RowVec, nodes: RowVec, neighbours: IntVec | None
) -> tuple[RowVec, RowVec]:
    """Return equal pods and the nodes chosen for them, both in an order in which neighbours meet.

    As they are where nobody says which nodes are near each other, or unless each pod has an index
    of its own.
    """
    ranked = None if neighbours is None else by_index(session, tasks)
    if ranked is None or neighbours is None:
        return tasks, nodes
    return ranked, nodes[np.lexsort((nodes, neighbours[nodes]))]


def by_index(session: Session, tasks: RowVec) -> RowVec | None:
    """Return pods in the order of their index; None unless each has one of its own."""
    sets = session.label_sets.labels
    numbers = session.tasks.label_set_of_task[tasks].tolist()
    if min(numbers) < 0:  # a pod without labels
        return None
    found = [_index(sets[number]) for number in numbers]
    if None in found or len(set(found)) < len(found):
        return None
    ranked = sorted(range(len(found)), key=lambda at: found[at] or ())
    ordered: RowVec = tasks[np.array(ranked, np.int64)]
    return ordered


def _index(labels: Mapping[str, str]) -> tuple[int, ...] | None:
    for keys in KEYS:
        said = [labels.get(key, "") for key in keys]
        if all(it.isascii() and it.isdecimal() and len(it) <= _MOST_DIGITS for it in said):
            return tuple(map(int, said))
    return None
