"""Asking the plugins for what people read: reasons, advice, sentences of evictions, broken rules.

None of it decides anything, but whether an eviction is guaranteed. Where a plugin fails, the host's
own words stand, and say so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.refusals import text_of
from kaisched.framework.answers import Answer, fits, wrong
from kaisched.framework.reason import Problem, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.advice import Proposal
    from kaisched.framework.claims import Claim
    from kaisched.framework.invariant_sums import Moves
    from kaisched.framework.parts import Part
    from kaisched.framework.session import Session


class ReportQuestions:
    """The questions whose answers people read."""

    def __init__(self, answers: Mapping[str, tuple[Answer, ...]]) -> None:
        """Take the answers to these questions out of all answers."""
        self._guaranteed = answers["is_guaranteed"]
        self._reasons = {answer.plugin: answer for answer in answers["refusal_reason"]}
        self._proposals = {answer.plugin: answer for answer in answers["proposals"]}
        self._evictions = answers["eviction_reason"]
        self._problems = answers["queue_problems"]
        self._rules = answers["broken_rules"]

    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec:
        """Tell, ``(K,)``, which jobs are entitled to what they ask for at any time."""
        found = np.zeros(len(job), np.bool_)
        for answer in self._guaranteed:
            said = _called(answer, session, None, job=job, ask=ask)
            if said is None:
                continue
            if fits(said, job.shape, "b"):
                found |= said
            else:
                answer.fail(session, wrong(said, job.shape, "b"))
        return found

    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Return what the plugin whose refusal it is says of one job, if anything."""
        text = text_of(code)
        answer = self._reasons.get(text.plugin)
        if answer is None:
            return None
        failed = Reason(f"{text.sentence} (plugin {answer.plugin} failed to say more)")
        said = _called(answer, session, failed, action=action, job=job, code=code)
        if said is None or isinstance(said, Reason):
            return said
        answer.fail(session, f"answered {type(said).__name__}, not a kaisched.Reason")
        return failed

    def proposals(self, session: Session, job: int, code: int) -> list[Proposal]:
        """Return the changes that the plugin whose refusal it is thinks worth a trial."""
        answer = self._proposals.get(text_of(code).plugin)
        if answer is None:
            return []
        try:
            return list(answer.call(session=session, job=job, code=code) or ())
        except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
            answer.fail(session, error)
            return []

    def eviction_reason(
        self, session: Session, claim: Claim, parts: Sequence[Part]
    ) -> Callable[[Session], str] | None:
        """Return what makes the sentence of a claim's evictions, or None where nobody answers."""
        for answer in self._evictions:
            said = _called(answer, session, None, claim=claim, parts=parts)
            if callable(said):
                return partial(_made, said, answer.plugin)
            if said is not None:
                answer.fail(session, f"answered {type(said).__name__}, not a function")
        return None

    def queue_problems(self, session: Session) -> dict[int, Problem]:
        """Return what hinders queues, by row."""
        found: dict[int, Problem] = {}
        for answer in self._problems:
            said = _called(answer, session, None)
            for queue, problem in said.items() if isinstance(said, dict) else ():
                found.setdefault(queue, problem)
        return found

    def broken_rules(self, moves: Moves) -> Iterator[str]:
        """Yield a line for each rule of a plugin that a result breaks."""
        for answer in self._rules:
            yield from answer.call(moves=moves) or ()


def _called(answer: Answer, session: Session, otherwise: object, **arguments: object) -> Any:
    try:
        return answer.call(session=session, **arguments)
    except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
        answer.fail(session, error)
        return otherwise


def _made(make: Callable[[Session], str], plugin: str, session: Session) -> str:
    try:
        return str(make(session))
    except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
        return f"evicted (plugin {plugin} failed to say why: {type(error).__name__}: {error})"
