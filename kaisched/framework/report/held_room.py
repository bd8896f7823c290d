"""What jobs hear while room is held for others whose promise could be kept only in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session


def held_for_others(session: Session, job: int) -> str:
    """Say for whom this cycle held room while it tried a job; empty if it held none."""
    held = session.outcome.held
    if not held or job in held:
        return ""
    first = f"held in this cycle for {session.jobs.name[held[0]]}"
    if len(held) == 1:
        return f"{first}, which lacks the rest of what it was promised"
    others = "another job" if len(held) == 2 else f"{len(held) - 1} other jobs"  # noqa: PLR2004
    return f"{first} and {others}, which lack the rest of what they were promised"


def held_sentence(session: Session, job: int, code: int) -> str:
    """Return what a job hears whose room is kept, or was kept for others for a while, or ""."""
    if code == Refusal.WAITING_FOR_RELEASE and job in session.outcome.awaits:
        queue = session.queues.name[session.outcome.awaits[job]]
        return f"its room is kept for it until pods that leave are gone: queue {queue} is full"
    held = held_for_others(session, job)
    if held and code == Refusal.ROOM_HELD:
        return f"room that it could have is {held}"
    if held and code == Refusal.OPENED_SINCE:  # the queue may have counted what was held
        return f"its queue has room for it now, and room was {held}"
    return ""
