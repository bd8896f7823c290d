"""Which job rows have changed since the last call, found by comparing their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaisched.core.snapshot import Mark
    from kaisched.framework.session.session import Session


_MINIMUM: Final = "podsets.minimum"
_COLUMNS: Final = (
    "jobs.pending",
    "jobs.active",
    "jobs.refusal",
    "jobs.queue_of_job",
    "jobs.priority",
    "jobs.is_preemptible",
    "jobs.shape_of_job",
    "jobs.podset_count",
    "jobs.created_s",
    "jobs.metadata_version",
    _MINIMUM,
)


class Changes:
    """The job rows that changed from call to call, while row numbers mean the same."""

    def __init__(self, session: Session) -> None:
        """Start with no rows seen."""
        self._generation = session.snapshot.generation
        self._queues = session.queues
        self._policy = session.policy
        self._mark: Mark | None = None
        self.rows = 0
        """How many job rows there were at the last call of :meth:`look`."""

    def serves(self, session: Session) -> bool:
        """Tell whether row numbers, queues and the plugins' order still mean the same."""
        return (
            self._generation == session.snapshot.generation
            and self._queues is session.queues
            and self._policy is session.policy
        )

    def look(self, session: Session) -> list[int]:
        """Return the job rows in which a column that plugins may read has changed."""
        snapshot, count = session.snapshot, len(session.jobs.pending)
        changed = set(range(self.rows, count))
        for name, rows in snapshot.changed_since(self._mark) if self._mark is not None else ():
            of_jobs = session.podsets.job_of_podset[rows] if name == _MINIMUM else rows
            changed.update(of_jobs.tolist())
        self._mark = snapshot.mark(*_COLUMNS)
        self.rows = count
        return sorted(changed)
