"""Gang: places all pods that a job needs, or none; beyond the minimum, one pod at a time."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import numpy as np

from kaisched import (
    CodeVec,
    IntVec,
    Plugin,
    Refusal,
    RowVec,
    Session,
    SubGroup,
    TaskState,
    hookimpl,
    ordered_tasks,
)

_NONE = np.empty(0, np.int64)


class _Growth:
    """Finds the next tasks of a structured job in its tree of subgroups.

    A group below its minimum takes from its best children the pods that these lack. A group that
    has its minimum grows by one step of its first child that has pods to place.
    """

    def __init__(self, session: Session, job: int) -> None:
        self._session = session
        self._minimum, self._active = session.podsets.minimum, session.podset_active_now
        self._tasks = np.array(session.jobs.tasks[job], np.int64)

    def step(self, group: SubGroup) -> RowVec:
        """Return the group's next tasks; empty when it has none, or not enough."""
        if group.podset >= 0:
            lacking = self._minimum[group.podset] - self._active[group.podset]
            return self._waiting(group.podset, max(1, int(lacking)))
        children = self._ordered(group)
        wanted = group.min_subgroup - group.met_children(self._active, self._minimum)
        if wanted <= 0:
            steps = (self.step(child) for child in children)
            return next((step for step in steps if step.size), _NONE)
        parts: list[RowVec] = []
        for child in children:
            if len(parts) == wanted:
                break
            if not child.is_met(self._active, self._minimum):
                part = self.step(child)
                if part.size:
                    parts.append(part)
        return np.concatenate(parts) if len(parts) == wanted else _NONE

    def _waiting(self, podset: int, number: int) -> RowVec:
        """Return the first pending tasks of a pod set, or none where there are fewer."""
        session, tasks = self._session, self._tasks
        if session.podset_pending_now[podset] < number:
            return _NONE
        state = session.state_now
        is_waiting = state[tasks] == int(TaskState.PENDING)
        is_waiting &= session.tasks.podset_of_task[tasks] == podset
        return ordered_tasks(session, tasks[is_waiting])[:number]

    def _ordered(self, group: SubGroup) -> list[SubGroup]:
        """Return the children as the shard orders them; names, then position, break ties."""
        children = group.children
        if len(children) == 1:
            return list(children)
        active, minimum = (
            np.array(column, np.int64)
            for column in zip(*map(self._standing, children), strict=True)
        )
        keys = [key.tolist() for key in self._session.subgroup_order(active, minimum)]
        names = [child.name for child in children]
        order = sorted(range(len(children)), key=lambda at: (*(key[at] for key in keys), names[at]))
        return [children[at] for at in order]

    def _standing(self, group: SubGroup) -> tuple[int, int]:
        if group.podset >= 0:
            return int(self._active[group.podset]), int(self._minimum[group.podset])
        return group.met_children(self._active, self._minimum), group.min_subgroup


class Gang(Plugin):
    """All members that a job needs or none; beyond that one pod at a time."""

    name = "gang"

    @hookimpl
    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Refuse jobs of which fewer pods exist, running or waiting, than they need."""
        alive = session.podset_active_now + session.podset_pending_now
        minimum = session.podsets.minimum
        first = session.jobs.first_podset.take(job)
        lacks = alive.take(first) < minimum.take(first)
        structure = session.jobs.structure
        if structure:
            for at, row in enumerate(job.tolist()):
                root = structure.get(row)
                if root is not None:
                    lacks[at] = not root.is_met(alive, minimum)
        return lacks * np.int16(Refusal.GANG_INCOMPLETE) if np.count_nonzero(lacks) else None

    @hookimpl
    def batch_size(self, session: Session, job: RowVec) -> IntVec:
        """Answer the number of missing pods of the gang, or 1 elastic pod, or 0."""
        first = session.jobs.first_podset.take(job)
        pending = session.podset_pending_now.take(first)
        missing = session.podsets.minimum.take(first) - session.podset_active_now.take(first)
        size = np.maximum(missing, 1)
        # A gang that cannot be complete is not tried in part.
        return np.where(pending >= size, size, 0)

    @hookimpl
    def next_batch(self, session: Session, job: int) -> RowVec | None:
        """Answer the next tasks of a structured job, by its tree of subgroups."""
        root = session.jobs.structure.get(job)
        return None if root is None else _Growth(session, job).step(root)
