"""The pod whose queue pays for a ResourceClaim that pods of several jobs wait for.

As a cycle begins it counts with a pod of each job: any of them may be the one that starts with it.
Once a pod has got it, the others have shapes that do not count it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.claims.table import ClaimTable
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.ledger import Ledger
    from kaisched.framework.session.session import Session

_PENDING: Final = int(TaskState.PENDING)
_PLACED: Final = (int(TaskState.ALLOCATED), int(TaskState.PIPELINED))


def with_own_shapes(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot in which the shapes of tasks and jobs may be changed."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    return replace(
        snapshot,
        tasks=replace(tasks, shape_of_task=tasks.shape_of_task.copy()),
        jobs=replace(jobs, shape_of_job=jobs.shape_of_job.copy()),
    )


class ClaimPayers:
    """Gives pods other shapes when a claim that they wait for counts with another pod."""

    def __init__(self, snapshot: Snapshot, table: ClaimTable) -> None:
        """Take a snapshot :func:`with_own_shapes`."""
        self._uncounted = table.uncounted
        self._shape_of_task = snapshot.tasks.shape_of_task
        self._job_of_task = snapshot.tasks.job_of_task
        self._shape_of_job = snapshot.jobs.shape_of_job
        self._counting: set[int] = set()
        """Shapes of pods that count such claims."""
        self._counted: dict[int, frozenset[str]] = {}
        """By task, such claims that it still counts."""
        self._rivals: defaultdict[str, list[int]] = defaultdict(list)
        """By such a claim, the tasks that count it as the cycle begins."""
        for task, shapes in self._uncounted.items():
            self._counting |= {int(self._shape_of_task[task]), *shapes.values()}
            self._counted[task] = frozenset().union(*shapes)
            for key in self._counted[task]:
                self._rivals[key].append(task)
        self._paid: set[str] = set()
        self.changes = 0
        """How many shapes of tasks have changed."""

    def counts(self, shape: int) -> bool:
        """Tell whether pods of a shape may count such a claim: they do not start together."""
        return shape in self._counting

    def count_with(self, tasks: Iterable[int], ledger: Ledger) -> None:
        """Count the claims of tasks that were placed for good with them, and with no others."""
        for task in tasks:
            if task in self._counted and int(ledger.state[task]) in _PLACED:
                self._paid |= self._counted[task]
        self.settle(ledger)

    def settle(self, ledger: Ledger) -> None:
        """Give pending tasks the shapes that do not count claims which count with others."""
        for key in self._paid:
            for task in self._rivals[key]:
                if key not in self._counted[task] or int(ledger.state[task]) != _PENDING:
                    continue
                self._counted[task] -= {key}
                shapes = self._uncounted[task]
                shape = shapes[max(shapes, key=len) - self._counted[task]]
                self._shape_of_task[task] = shape
                if self._shape_of_job[job := int(self._job_of_task[task])] >= 0:
                    self._shape_of_job[job] = shape
                self.changes += 1


def shape_changes(session: Session) -> int:
    """Return a number that grows when pods get other shapes."""
    payers = session.claim_payers
    return 0 if payers is None else payers.changes
