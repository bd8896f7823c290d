"""The amounts that pod groups ask for and hold, in the form of KAI-Scheduler's kind.

The sums are kept from cycle to cycle: a turn counts only the pods that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from kaisched.cluster.kubernetes.statuses import quantities
from kaisched.core.axis import ALLOCATED_STATES, GPU, Amounts, RowVec, TaskState
from kaisched.core.devices import card_mib
from kaisched.core.snapshot import Mark, Snapshot

_COLUMNS: Final = ("tasks.state", "tasks.shape_of_task", "tasks.job_of_task")


class GroupAmounts:
    """The amounts that pod groups ask for and hold, computed again after changes."""

    def __init__(self) -> None:
        """Begin without a snapshot."""
        self._mark: Mark | None = None
        """The columns of the pods that are counted."""
        self._sums: Amounts = np.zeros((0, 0), np.int64)
        """``(2 R, J)`` what jobs ask for, pending or not, above what they hold."""
        self._generation = self._revision = -1

    def changed(
        self,
        snapshot: Snapshot,
        is_declared: Callable[[str], bool],
        also: Sequence[int] = (),
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (job, status) of pod groups whose amounts differ from the last snapshot.

        Yield all of them when the rows have changed their meaning since.

        Args:
            snapshot: the present one.
            is_declared: tells whether a job has a pod group.
            also: rows of jobs to yield in any case.

        """
        if snapshot.revision == self._revision and not also:
            return
        self._revision = snapshot.revision
        names = snapshot.axis.names
        size = len(names)
        for row in sorted({*self._count(snapshot), *also}):
            job = snapshot.jobs.name[row]
            if not is_declared(job):
                continue
            asked, held = self._sums[:size, row].tolist(), self._sums[size:, row].tolist()
            is_firm = not snapshot.jobs.is_preemptible[row]
            firm = held if is_firm else [0] * size
            amounts = (("requested", asked), ("allocated", held), ("allocatedNonPreemptible", firm))
            yield (
                job,
                {
                    "resourcesStatus": {
                        key: quantities(dict(zip(names, it, strict=True))) for key, it in amounts
                    }
                },
            )

    def _count(self, snapshot: Snapshot) -> list[int]:
        """Count the pods that changed; return the jobs that are new or have other sums."""
        size, jobs = 2 * len(snapshot.axis), len(snapshot.jobs.name)
        mark = self._mark
        if snapshot.generation != self._generation or size != len(self._sums):
            self._sums = np.zeros((size, 0), np.int64)
            mark = None
        self._generation, self._mark = snapshot.generation, snapshot.mark(*_columns(snapshot))
        known = self._sums.shape[1]
        if jobs > known:
            self._sums = np.hstack((self._sums, np.zeros((size, jobs - known), np.int64)))
        pods = 0 if mark is None else len(mark.columns[0])
        rows = np.arange(pods, len(snapshot.tasks.state))
        parts = [_part(snapshot, self._mark.columns, rows)]
        if mark is not None and (changed := [rows for _, rows in snapshot.changed_since(mark)]):
            rows = np.unique(np.concatenate(changed))
            old_job, old = _part(snapshot, mark.columns, rows)
            parts += [_part(snapshot, self._mark.columns, rows), (old_job, -old)]
        job = np.concatenate([each for each, _ in parts])
        amounts = np.concatenate([amounts for _, amounts in parts], axis=1)
        touched = np.unique(job)
        before = self._sums[:, touched]
        for sums, more in zip(self._sums, amounts, strict=True):
            np.add.at(sums, job, more)
        is_new = (touched >= known) | np.any(self._sums[:, touched] != before, axis=0)
        return [*touched[is_new].tolist(), *range(known, jobs)]


def _columns(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the columns on which the sums rest."""
    on_nodes = snapshot.shapes.by_card is not None
    return (*_COLUMNS, "tasks.node_of_task") if on_nodes else _COLUMNS


def _part(snapshot: Snapshot, columns: Sequence[Any], rows: RowVec) -> tuple[RowVec, Amounts]:
    """Return the jobs of some pods, and ``(2 R, K)`` what each adds to the sums of its job."""
    state, shape, job, *node = (column[rows] for column in columns)
    holds = ALLOCATED_STATES[state]
    counts = (holds | (state == TaskState.PENDING)) & (job >= 0)
    request = snapshot.shapes.charge[:, shape[counts]]
    if node and (by_card := snapshot.shapes.by_card) is not None:
        size = card_mib(snapshot.nodes, node[0][counts])
        request[GPU] -= by_card.saved(shape[counts], size)
    return job[counts], np.vstack((request, request * holds[counts]))
