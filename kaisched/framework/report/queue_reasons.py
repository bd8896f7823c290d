"""Why a job's queue accepts no jobs: the queue's name and its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.core.refusals import Refusal
from kaisched.core.tables import DRAINED
from kaisched.objects.faults import did_you_mean
from kaisched.objects.labels import DEFAULT_QUEUE, QUEUE

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session

_SHOWN: Final = 5


def queue_sentence(session: Session, job: int, code: int) -> str:
    """Return the queue's name and its problem; an empty text if no queue is the reason."""
    queues = session.queues
    name = session.jobs.queue_name[job] if len(session.jobs.queue_name) else ""
    if code == Refusal.QUEUE_ON_HOLD:
        return _on_hold(session, int(session.jobs.queue_of_job[job]))
    if code == Refusal.QUEUE_NOT_LEAF:
        below = [queues.name[row] for row in _children(session, name)]
        shown = ", ".join(below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
        return f"queue {name} has queues below it, which take the jobs: {shown}"
    if code not in (Refusal.QUEUE_MISSING, Refusal.QUEUE_ORPHAN):
        return ""
    if name in queues.why_not:
        return queues.why_not[name]
    if name == DEFAULT_QUEUE:
        return f"queue {name} does not exist: pods without the label {QUEUE} go there"
    leaves = [queues.name[row] for row in queues.tree.is_leaf.nonzero()[0].tolist()]
    fix = did_you_mean(name, leaves)
    return f"queue {name} does not exist" + (f"; {fix}" if fix else "")


def _children(session: Session, name: str) -> list[int]:
    row = session.queues.row_of_name.get(name, -1)
    parents = session.queues.tree.parent_of_queue.tolist()
    return [at for at, parent in enumerate(parents) if parent == row >= 0]


def _on_hold(session: Session, queue: int) -> str:
    """Name the queue on hold: the highest queue on the path with the strictest stop policy."""
    queues = session.queues
    stop = queues.stop_of_queue[queue]
    path = [row for row in queues.tree.path(queue).tolist() if queues.stop_of_queue[row] == stop]
    what = "is on hold and drained" if stop == DRAINED else "is on hold"
    return f"queue {queues.name[path[-1]]} {what}: stopPolicy"
