"""Why no pods were evicted for a job: the refusal of each action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.core.refusals import Refusal, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.framework.session.session import Session


def eviction_refusals_of(session: Session, job: int) -> dict[str, str]:
    """Return, by action, why the action evicted nothing for a job."""
    refusals: dict[str, str] = {}
    for action, codes in session.outcome.claims.items():
        code = int(codes[job])
        if code == Refusal.NONE:
            continue
        reason = session.ask.refusal_reason(session, action, job, code)
        refusals[action] = reason.sentence if reason is not None else text_of(code).sentence
    return refusals


def in_words(refusals: Mapping[str, str]) -> str:
    """Return refusals by action as a sentence; actions with the same refusal are named together."""
    actions: dict[str, list[str]] = {}
    for action, reason in refusals.items():
        actions.setdefault(reason, []).append(action)
    return ". ".join(f"{', '.join(those)}: {reason}" for reason, those in actions.items())
