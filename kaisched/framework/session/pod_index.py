"""The index of pods among their equals, by the labels that controllers write.

Pods with neighbouring indexes talk to each other most: they get neighbouring nodes. An index is no
promise about the rank of a process, since elastic launchers number anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import IntVec, RowVec
    from kaisched.framework.session.session import Session

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
