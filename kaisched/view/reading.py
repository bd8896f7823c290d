"""Reading of a live view: what follows from its arrays, worked out when it is first asked for.

It is made and used by readers, one thread at a time, never by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, GPU, HOLDING_STATES, TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import text_of
from kaisched.framework.report.result import device_name
from kaisched.framework.report.turns import (
    LAST_OF_JOBS,
    LAST_OF_REQUEUED,
    because_of,
    in_order,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kaisched.core.axis import BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.report.records import Because
    from kaisched.view.live import LiveView

_GONE: Final = int(TaskState.GONE)
_WAITING: Final = (int(TaskState.PENDING), int(TaskState.GATED), int(TaskState.PIPELINED))


class Reading:
    """What a view says of tasks, jobs and nodes after the moves of its cycle."""

    def __init__(self, view: LiveView, *, has_ended: bool = False) -> None:
        """Keep the view.

        ``has_ended`` counts pods that are gone among those of their jobs: of a state that is read
        once, they are the ended ones; a store that lives on uses their rows again.
        """
        self.view = view
        self.snapshot = view.snapshot
        self._has_ended = has_ended

    def again(self, view: LiveView) -> Reading:
        """Return the reading of a later view of the same revision: what follows is the same."""
        other = Reading(view)
        other.__dict__.update(self.__dict__, view=view)
        return other

    # -- tasks -----------------------------------------------------------------------------------

    @cached_property
    def state(self) -> NDArray[np.int8]:
        """``(T,)`` the state of each task."""
        state, moves = self.snapshot.tasks.state.copy(), self.view.moves
        state[moves.nominate_tasks] = int(TaskState.PIPELINED)
        state[moves.evict_tasks] = int(TaskState.RELEASING)  # also what then moves elsewhere
        state[moves.bind_tasks] = int(TaskState.ALLOCATED)
        return state

    @cached_property
    def node_of_task(self) -> RowVec:
        """``(T,)`` the node of each task, -1 for none."""
        node, moves = self.snapshot.tasks.node_of_task.copy(), self.view.moves
        node[moves.bind_tasks] = moves.bind_nodes
        return node

    @cached_property
    def promised(self) -> Mapping[int, int]:
        """The node that is promised to each pod whose room is being released."""
        moves = self.view.moves
        return dict(zip(moves.nominate_tasks.tolist(), moves.nominate_nodes.tolist(), strict=True))

    @cached_property
    def promised_on(self) -> Mapping[int, list[int]]:
        """The pods to which room on each node is promised."""
        found: dict[int, list[int]] = {}
        for task, node in self.promised.items():
            found.setdefault(node, []).append(task)
        return found

    @cached_property
    def gpu_of_task(self) -> IntVec:
        """``(T,)`` the GPUs that each task counts, in thousandths."""
        snapshot = self.snapshot
        found: IntVec
        if snapshot.shapes.by_card is None:
            found = snapshot.shapes.charge[GPU].take(snapshot.tasks.shape_of_task)
        else:
            found = charges(snapshot, np.arange(len(snapshot.tasks.state)))[GPU]
        return found

    @cached_property
    def _by_job(self) -> tuple[RowVec, RowVec]:
        job = self.snapshot.tasks.job_of_task
        order = np.argsort(job, kind="stable")
        return order, np.searchsorted(job[order], np.arange(len(self.snapshot.jobs.name) + 1))

    def tasks_of(self, job: int) -> list[int]:
        """Return the tasks of a job that are there."""
        order, bounds = self._by_job
        rows = order[bounds[job] : bounds[job + 1]]
        found: list[int] = rows[self._has_ended | (self.state[rows] != _GONE)].tolist()
        return found

    @cached_property
    def _by_node(self) -> tuple[RowVec, RowVec]:
        rows = np.flatnonzero(HOLDING_STATES[self.state] & (self.node_of_task >= 0))
        node = self.node_of_task[rows]
        order = np.argsort(node, kind="stable")
        return rows[order], np.searchsorted(node[order], np.arange(len(self.snapshot.nodes) + 1))

    def tasks_on(self, node: int) -> list[int]:
        """Return the tasks that hold room of a node."""
        rows, bounds = self._by_node
        found: list[int] = rows[bounds[node] : bounds[node + 1]].tolist()
        return found

    def slots_of(self, task: int) -> tuple[int, ...]:
        """Return the cards of its node of which a task has a share, as slots."""
        cards = self.snapshot.nodes.cards
        before = {} if cards is None else cards.slots_of_task
        return self.view.moves.bind_cards.get(task) or before.get(task, ())

    def devices_of(self, task: int) -> tuple[str, ...]:
        """Return the devices that the claims of a task have."""
        claims = self.snapshot.claims
        if claims is None:
            return ()
        keys = claims.claims_of_task.get(task, ())
        before = [
            device_name(it) for key in keys if key in claims.held for it, _ in claims.held[key][0]
        ]
        return (*before, *self.view.moves.bind_devices.get(task, ()))

    # -- jobs ------------------------------------------------------------------------------------

    def _per_job(self, tasks: BoolVec, amount: IntVec | None = None) -> IntVec:
        rows = np.flatnonzero(tasks & (self.snapshot.tasks.job_of_task >= 0))
        job = self.snapshot.tasks.job_of_task[rows]
        weights = None if amount is None else amount[rows].astype(np.float64)  # exact below 2**53
        return np.bincount(job, weights, len(self.snapshot.jobs.name)).astype(np.int64)

    @cached_property
    def is_running(self) -> BoolVec:
        """``(T,)`` whether each task has its room."""
        found: BoolVec = ALLOCATED_STATES[self.state]
        return found

    @cached_property
    def running(self) -> IntVec:
        """``(J,)`` how many pods of each job have their room."""
        return self._per_job(self.is_running)

    @cached_property
    def since_s(self) -> FloatVec:
        """``(J,)`` since when each job runs, or waits; NaN where that is not known.

        A job that was evicted waits since then; one that starts in this cycle runs since now.
        """
        jobs = self.snapshot.jobs
        waits_s = np.fmax(self.view.waiting.queued_s, jobs.last_evicted_s)
        ran = self._per_job(ALLOCATED_STATES[self.snapshot.tasks.state])
        runs_s = np.where(ran > 0, jobs.last_start_s, self.view.time_s)
        found: FloatVec = np.where(self.running > 0, runs_s, waits_s)
        return found

    @cached_property
    def pending(self) -> IntVec:
        """``(J,)`` how many pods of each job wait, those included that are promised room."""
        return self._per_job(np.isin(self.state, _WAITING))

    @cached_property
    def gpu_held(self) -> IntVec:
        """``(J,)`` GPUs that the pods of each job hold, in thousandths."""
        return self._per_job(self.is_running, self.gpu_of_task)

    @cached_property
    def gpu_pending(self) -> IntVec:
        """``(J,)`` GPUs that the waiting pods of each job ask for, in thousandths."""
        return self._per_job(np.isin(self.state, _WAITING), self.gpu_of_task)

    @cached_property
    def code(self) -> CodeVec:
        """``(J,)`` the reason of each job that waits; 0 for the others."""
        code: CodeVec = np.zeros(len(self.snapshot.jobs.name), np.int16)
        code[self.view.waiting.rows] = self.view.waiting.codes
        return code

    @cached_property
    def is_there(self) -> BoolVec:
        """``(J,)`` whether any pod of a job is left."""
        is_left = self._per_job(self.state != _GONE) > 0
        found: BoolVec = is_left | (self.code != 0) | self._has_ended
        return found

    @cached_property
    def row_of_job(self) -> Mapping[str, int]:
        """The row of each job that is there, by name."""
        names = self.snapshot.jobs.name
        return {names[row]: row for row in np.flatnonzero(self.is_there).tolist()}

    def queue_name(self, job: int) -> str:
        """Return the queue that a job names, also where there is no such queue."""
        queue = int(self.snapshot.jobs.queue_of_job[job])
        return self.snapshot.queues.name[queue] if queue >= 0 else self.view.misplaced.get(job, "")

    # -- order -----------------------------------------------------------------------------------

    @cached_property
    def _order(self) -> tuple[RowVec, IntVec, IntVec]:
        """The jobs in order by queue, and by job its place and the number of its queue's."""
        waiting, jobs = self.view.waiting, self.snapshot.jobs
        rows = waiting.rows[waiting.is_in_order]
        position, of = np.zeros((2, len(jobs.name)), np.int64)
        names = [jobs.name[row] for row in rows.tolist()]
        columns = [*(key.column for key in waiting.keys), waiting.queued_s[rows]]
        queue = jobs.queue_of_job[rows]
        order = in_order(queue, columns, names)
        rows, queue = rows[order], queue[order]
        start = np.searchsorted(queue, queue)
        position[rows] = np.arange(len(rows)) - start + 1
        of[rows] = np.searchsorted(queue, queue, side="right") - start
        return rows, position, of

    def ahead_of(self, job: int, most: int) -> list[tuple[int, Because]]:
        """Return the first jobs of the queue that come before a job, each with what decides it."""
        order, position, _ = self._order
        if not position[job]:
            return []
        queue = self.snapshot.jobs.queue_of_job
        before = order[(queue[order] == queue[job]) & (position[order] < position[job])]
        waiting, jobs = self.view.waiting, self.snapshot.jobs
        rows = waiting.rows[waiting.is_in_order]
        is_age = bool((waiting.queued_s != jobs.created_s).any())
        last = LAST_OF_REQUEUED if is_age else LAST_OF_JOBS

        def because(other: int) -> Because:
            both = [job, other]
            at = np.searchsorted(rows, both)
            columns = [key.column[at].tolist() for key in waiting.keys]
            named = [jobs.name[row] for row in both]
            return because_of(
                waiting.keys, last, [*columns, waiting.queued_s[both].tolist(), named], 0, 1
            )

        return [(row, because(row)) for row in before[:most].tolist()]

    def place(self, job: int) -> tuple[int, int] | None:
        """Return the place of a job in its queue, and how many have one; None if it has none."""
        _, position, of = self._order
        return (int(position[job]), int(of[job])) if position[job] else None

    @cached_property
    def rank(self) -> IntVec:
        """``(J,)`` the place of each job in its queue; behind all others without one."""
        _, position, _ = self._order
        return np.where(position > 0, position, np.iinfo(np.int64).max)

    def reasons_of(self, rows: RowVec) -> dict[str, int]:
        """Count jobs that wait by reason."""
        codes, counts = np.unique(self.code[rows], return_counts=True)
        named = (
            (text_of(int(code)).name, int(count))
            for code, count in zip(codes, counts, strict=True)
            if code
        )
        found: dict[str, int] = {}
        for name, count in named:
            found[name] = found.get(name, 0) + count
        return dict(sorted(found.items()))


class Sight(NamedTuple):
    """Tells whether the jobs of a queue are shown to a reader."""

    sees_all: bool
    """Whether all jobs are, those in no queue included."""
    of_queue: Callable[[str], bool] = lambda _: False
    """Whether those of the queue with this name are."""

    def sees(self, queue: str) -> bool:
        """Tell whether the jobs of a queue are shown."""
        return self.sees_all or (bool(queue) and self.of_queue(queue))

    def of_jobs(self, reading: Reading, rows: RowVec) -> BoolVec:
        """``(K,)`` which of these jobs are shown."""
        if self.sees_all:
            return np.ones(len(rows), np.bool_)
        queue = reading.snapshot.jobs.queue_of_job[rows]
        names = reading.snapshot.queues.name
        shown = [at for at in np.unique(queue).tolist() if at >= 0 and self.sees(names[at])]
        found: BoolVec = np.isin(queue, shown)
        return found


ALL: Final = Sight(sees_all=True)
