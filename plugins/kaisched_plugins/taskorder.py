"""Task order: orders the pods of a job by their priority label."""

from __future__ import annotations

from kaisched import FloatVec, IntVec, Plugin, RowVec, Session, hookimpl


class TaskOrder(Plugin):
    """Inside a job, labelled pods before unlabelled ones, the higher number first."""

    name = "taskorder"

    @hookimpl
    def task_order(self, session: Session, task: RowVec) -> tuple[IntVec | FloatVec, ...]:
        """Answer the bitwise complement of the label's number.

        ``~x`` is ``-x - 1``: it reverses the order and, unlike ``-x``, cannot overflow at the
        lowest number, which the table may hold where the label is absent.
        """
        return (~session.tasks.order_priority.take(task),)
