"""Gang: places all pods that a job needs, or none; beyond the minimum, one pod at a time."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import numpy as np

from kaisched import CodeVec, IntVec, Plugin, Refusal, RowVec, Session, hookimpl
from kaisched_plugins.gang.structure import Counts, can_be_met, next_members


class Gang(Plugin):
    """All members that a job needs or none; beyond that one pod at a time."""

    name = "gang"
    is_job_bound = True
    is_class_bound = True

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
