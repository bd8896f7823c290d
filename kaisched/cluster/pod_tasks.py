"""Tasks of pods: writes a pod, and the facts about it, into its row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.cluster.rowstore import TaskRow
from kaisched.cluster.sharing import Use
from kaisched.core.states import ACTIVE_STATES, TaskState

if TYPE_CHECKING:
    from kaisched.cluster.facts import Facts
    from kaisched.cluster.rowstore import RowStore
    from kaisched.cluster.translate import PodRow


class PodTasks:
    """Writer of task rows: adds, updates and ends the task of a pod."""

    def __init__(self, rows: RowStore, facts: Facts, has_reservations: bool) -> None:
        """Take the rows and the facts, and whether reservation pods hold shared GPUs."""
        if has_reservations:
            rows.cards.hold_by(facts.sharing)
        self._rows = rows
        self._facts = facts
        self._layouts = 0

    def add(self, pod: PodRow, job: int, podset: int) -> None:
        """Add the task of a pod; call :meth:`update` next. Rows are -1 for a foreign pod."""
        self._rows.add_task(self._task_row(pod), job, podset)

    def _task_row(self, pod: PodRow) -> TaskRow:
        label_set = self._rows.labels.intern(pod.namespace, pod.meta.labels)
        constraints = pod.constraints
        if pod.has_pod_terms:
            constraints = replace(constraints, label_set=label_set)
        return TaskRow(
            name=pod.key,
            uid=pod.uid,
            shape=self._rows.shape_of(pod.request, constraints),
            created_s=pod.created_s,
            order_priority=pod.order_priority,
            label_set=label_set,
        )

    def update(self, pod: PodRow) -> None:
        """Update a task by its pod and the facts about the pod."""
        rows, facts = self._rows, self._facts
        task = rows.row_of_task(pod.key)
        rows.put_on(task, facts.state_of(pod), facts.node_of(pod), pod.started_s)
        self._put_on_cards(task, pod)
        if not facts.is_assumed(pod.key):
            node = pod.nominated if pod.state == TaskState.PENDING else ""
            if facts.promise(pod.key, node) or node:
                rows.nominate(task, rows.nodes.row_of_name.get(node, -1))
        job = rows.tasks.job_of_task.data[task]
        if job >= 0 and ACTIVE_STATES[pod.state] and not math.isnan(pod.started_s):
            last_s = rows.jobs.last_start_s
            if not last_s.data[job] <= pod.started_s:  # NaN, or later than this pod's
                last_s.own()[job] = pod.started_s

    def _put_on_cards(self, task: int, pod: PodRow) -> None:
        """Name the cards of a task, and note who uses them where reservation pods hold them."""
        facts, rows = self._facts, self._rows
        cards, demand = facts.sent.cards_of(pod), pod.constraints.devices
        if demand is not None and demand.has_cards and (cards or pod.node):
            # A pod that names no card has some of its own: nobody knows which it shares.
            own = tuple(f"{pod.uid}-{number}" for number in range(demand.cards))
            rows.cards.name(task, (*cards, *own)[: max(demand.cards, 1)])
        if pod.reservation is not None:
            facts.sharing.look_again(pod.reservation.card)  # its deletion may have been sent
        elif rows.cards.sharing is not None:
            # Also pods whose request is invalid here: what they use is not for others.
            use = Use(facts.node_of(pod), cards, pod.gpus, not pod.node) if cards else None
            facts.sharing.note_use(pod.key, use)

    def end(self, key: str) -> None:
        """End the task of a pod."""
        self._facts.sharing.note_use(key, None)
        self._rows.retire_task(self._rows.row_of_task(key))

    def nominate_again(self) -> None:
        """Write promises again if node rows have changed: a node may be back."""
        rows = self._rows
        if self._layouts != rows.layouts:
            self._layouts = rows.layouts
            for key, node in self._facts.promised():
                rows.nominate(rows.row_of_task(key), rows.nodes.row_of_name.get(node, -1))
