"""Pods of a forecast: their states and nodes as time goes on, and the snapshots for its cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kaisched.core.axis import (
    FloatVec,
    IntVec,
    RowVec,
    TaskState,
)
from kaisched.core.snapshot import Snapshot
from kaisched.core.sums import summed
from kaisched.core.tables import EVICTED
from kaisched.framework.session.cards import table_of

_HOUR_S: Final = 3600.0
_NOWHERE: Final = -1


class Pods:
    """The pods of a snapshot. Amounts are summed anew for each cycle, so that none can drift."""

    def __init__(self, snapshot: Snapshot, upcoming: Sequence[int] = ()) -> None:
        """Copy what will change; the pods of ``upcoming`` jobs come later."""
        tasks, jobs = snapshot.tasks, snapshot.jobs
        self._base = snapshot
        self._last = snapshot
        self.state: NDArray[np.int8] = tasks.state.copy()
        self.node: RowVec = tasks.node_of_task.copy()
        self.nominated: RowVec = tasks.nominated_node.copy()
        self.job: RowVec = tasks.job_of_task
        self.last_start_s: FloatVec = jobs.last_start_s.copy()
        self.active: IntVec = jobs.active.copy()
        self._rare: FloatVec = jobs.rare.copy()
        self._evictions_s = snapshot.evictions_s
        table = snapshot.nodes.cards
        self._slots = dict(table.slots_of_task) if table is not None else {}
        """The cards of each pod that has parts of GPUs."""
        for job in upcoming:
            self.state[list(jobs.tasks[job])] = TaskState.GONE

    def arrive(self, job: int) -> None:
        """Let the pods of an upcoming job wait."""
        self.state[list(self._base.jobs.tasks[job])] = TaskState.PENDING

    def start(
        self, tasks: RowVec, nodes: RowVec, now_s: float, cards: Mapping[int, tuple[int, ...]]
    ) -> None:
        """Run pods on nodes, those with parts of GPUs on these cards."""
        self._slots.update(cards)
        self.state[tasks], self.node[tasks] = TaskState.RUNNING, nodes
        jobs = np.unique(self.job[tasks])
        self.last_start_s[jobs[self.active[jobs] == 0]] = now_s

    def evict(self, tasks: RowVec, now_s: float) -> None:
        """Begin to stop pods, which still hold their room."""
        self.state[tasks] = TaskState.RELEASING
        ours = self.job[tasks]
        self._rare[ours[ours >= 0], EVICTED] = now_s
        recent = (at_s for at_s in self._evictions_s if at_s > now_s - _HOUR_S)
        self._evictions_s = (*recent, *[now_s] * len(tasks))

    def release(self, tasks: RowVec, *, is_made_anew: bool) -> None:
        """Free the room of pods that have ended; made anew, they wait again."""
        self.state[tasks] = TaskState.PENDING if is_made_anew else TaskState.GONE
        self.node[tasks] = self.nominated[tasks] = _NOWHERE
        if self._slots:
            for task in tasks.tolist():
                self._slots.pop(task, None)

    def promise(self, tasks: RowVec, nodes: RowVec) -> None:
        """Promise nodes to pods that wait; earlier promises end."""
        self.nominated[self.state == TaskState.PENDING] = _NOWHERE
        self.nominated[tasks] = nodes

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        base, last = self._base, self._last
        shared: dict[str, Any] = {
            "state": self.state.copy(),
            "node_of_task": self.node.copy(),
            "nominated_node": self.nominated.copy(),
        }
        now = replace(
            base,
            tasks=replace(base.tasks, **shared),
            jobs=replace(base.jobs, last_start_s=self.last_start_s.copy(), rare=self._rare.copy()),
            revision=last.revision + 1,
            evictions_s=self._evictions_s,
        )
        nodes = replace(base.nodes, cards=table_of(now, dict(self._slots)))
        self._last = summed(replace(now, nodes=nodes), last)
        self.active = self._last.jobs.active
        return self._last
