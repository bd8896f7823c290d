"""Priority: orders the jobs of a leaf queue by their priority."""

from __future__ import annotations

from kaisched import FloatVec, IntVec, Plugin, RowVec, Session, hookimpl


class Priority(Plugin):
    """Inside a queue, the higher priority first."""

    name = "priority"

    def key_names(self, question: str) -> tuple[str, ...]:
        """Name the key of jobs."""
        del question
        return ("-priority",)

    def key_words(self, question: str) -> tuple[str, ...]:
        """Say what the key of jobs puts behind."""
        del question
        return ("{whose} has the lower priority, {own} against {other}",)

    @hookimpl
    def job_order(self, session: Session, job: RowVec) -> tuple[IntVec | FloatVec, ...]:
        """Answer minus the priority: keys are low first."""
        return (-session.jobs.priority.take(job),)
