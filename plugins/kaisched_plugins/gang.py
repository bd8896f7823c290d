"""Gang: places all pods that a job needs, or none; beyond the minimum, one pod at a time."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from dataclasses import dataclass

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

# The tree of subgroups of a structured job: whether it is met, can be met, and its next tasks.
#
# A group below its minimum takes from its best children the pods that these lack. A group that has
# its minimum grows by one step of its first child that has pods to place.


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Pods by pod set, as of now. ``(P,)``."""

    minimum: IntVec
    active: IntVec
    pending: IntVec

    @classmethod
    def of(cls, session: Session) -> Counts:
        """Return the counts as of now."""
        minimum = session.podsets.minimum
        return cls(minimum, session.podset_active_now, session.podset_pending_now)


def is_met(group: SubGroup, counts: Counts) -> bool:
    """Tell whether enough of a group runs; a minimum of 0 is always met."""
    if group.podset >= 0:
        return bool(counts.active[group.podset] >= counts.minimum[group.podset])
    return met_children(group, counts) >= group.min_subgroup


def met_children(group: SubGroup, counts: Counts) -> int:
    """Count the children that have what they need."""
    return sum(is_met(child, counts) for child in group.children)


def can_be_met(group: SubGroup, counts: Counts) -> bool:
    """Tell whether enough pods exist, running or waiting, for a group to be met."""
    if group.podset >= 0:
        alive = counts.active[group.podset] + counts.pending[group.podset]
        return bool(alive >= counts.minimum[group.podset])
    return sum(can_be_met(child, counts) for child in group.children) >= group.min_subgroup


def next_members(session: Session, job: int, root: SubGroup) -> RowVec:
    """Return the task rows to place next, all or nothing, in order; empty for nothing."""
    return _Growth(session, job).step(root)


class _Growth:
    """Finds the next tasks of a job in its tree."""

    def __init__(self, session: Session, job: int) -> None:
        self._session = session
        self._counts = Counts.of(session)
        self._tasks = np.array(session.jobs.tasks[job], np.int64)

    def step(self, group: SubGroup) -> RowVec:
        """Return the group's next tasks; empty when it has none, or not enough."""
        if group.podset >= 0:
            lacking = self._counts.minimum[group.podset] - self._counts.active[group.podset]
            return self._waiting(group.podset, max(1, int(lacking)))
        children = self._ordered(group)
        wanted = group.min_subgroup - met_children(group, self._counts)
        if wanted <= 0:
            steps = (self.step(child) for child in children)
            return next((step for step in steps if step.size), _NONE)
        parts: list[RowVec] = []
        for child in children:
            if len(parts) == wanted:
                break
            if not is_met(child, self._counts):
                part = self.step(child)
                if part.size:
                    parts.append(part)
        return np.concatenate(parts) if len(parts) == wanted else _NONE

    def _waiting(self, podset: int, number: int) -> RowVec:
        """Return the first pending tasks of a pod set, or none where there are fewer."""
        if self._counts.pending[podset] < number:
            return _NONE
        session, tasks = self._session, self._tasks
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
            return (
                int(self._counts.active[group.podset]),
                int(self._counts.minimum[group.podset]),
            )
        return met_children(group, self._counts), group.min_subgroup


class Gang(Plugin):
    """All members that a job needs or none; beyond that one pod at a time."""

    name = "gang"

    @hookimpl
    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Refuse jobs of which fewer pods exist, running or waiting, than they need."""
        counts = Counts.of(session)
        first = session.jobs.first_podset.take(job)
        alive = counts.active.take(first) + counts.pending.take(first)
        lacks = alive < counts.minimum.take(first)
        structure = session.jobs.structure
        if structure:
            for at, row in enumerate(job.tolist()):
                root = structure.get(row)
                if root is not None:
                    lacks[at] = not can_be_met(root, counts)
        return lacks * np.int16(Refusal.GANG_INCOMPLETE) if np.count_nonzero(lacks) else None

    @hookimpl
    def batch_size(self, session: Session, job: RowVec) -> IntVec:
        """Answer the number of missing pods of the gang, or 1 elastic pod, or 0."""
        counts = Counts.of(session)
        first = session.jobs.first_podset.take(job)
        pending = counts.pending.take(first)
        missing = counts.minimum.take(first) - counts.active.take(first)
        size = np.maximum(missing, 1)
        # A gang that cannot be complete is not tried in part.
        return np.where(pending >= size, size, 0)

    @hookimpl
    def next_batch(self, session: Session, job: int) -> RowVec | None:
        """Answer the next tasks of a structured job, by its tree of subgroups."""
        root = session.jobs.structure.get(job)
        return None if root is None else next_members(session, job, root)
