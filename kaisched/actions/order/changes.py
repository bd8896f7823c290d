"""Which job rows have changed since somebody last looked, told by their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaisched.framework.session.session import Session


class Changes:
    """What one look after the other has seen of the jobs, while row numbers mean the same."""

    def __init__(self, session: Session) -> None:
        """Have seen nothing."""
        self._generation = session.snapshot.generation
        self._queues = session.queues
        self._policy = session.policy
        self._columns: tuple[NDArray[Any], ...] = ()
        self.rows = 0
        """How many job rows there were at the last look."""

    def serves(self, session: Session) -> bool:
        """Tell whether row numbers, queues and the plugins' order still mean the same."""
        return (
            self._generation == session.snapshot.generation
            and self._queues is session.queues
            and self._policy is session.policy
        )

    def look(self, session: Session) -> list[int]:
        """Return the job rows in which something plugins may look at has changed."""
        jobs, podsets = session.jobs, session.podsets
        columns: tuple[NDArray[Any], ...] = (
            jobs.pending,
            jobs.active,
            jobs.refusal,
            jobs.queue_of_job,
            jobs.priority,
            jobs.is_preemptible,
            jobs.shape_of_job,
            jobs.podset_count,
            jobs.created_s,
            podsets.minimum,
        )
        changed = set(range(self.rows, len(jobs.pending)))
        for old, new in zip(self._columns, columns, strict=False):
            if old is new or (old.base is not None and old.base is new.base):
                continue  # the very same buffer: rows are only ever appended to it
            rows = (old != new[: len(old)]).nonzero()[0]
            if new is podsets.minimum:
                rows = podsets.job_of_podset[rows]
            changed.update(rows.tolist())
        self._columns = columns
        self.rows = len(jobs.pending)
        return sorted(changed)
