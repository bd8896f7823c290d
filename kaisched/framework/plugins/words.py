# mypy: disable-error-code="empty-body"
"""The questions whose answers people read; they decide nothing.

The rules of :mod:`~kaisched.framework.plugins.questions` hold for them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.core.refusals import text_of
from kaisched.framework.plugins.combine import First
from kaisched.framework.plugins.combine_words import FirstOfEach, Lines, OfOwner
from kaisched.framework.plugins.specification import question
from kaisched.framework.plugins.validity import figures_fault, reason_fault, sentence_fault
from kaisched.framework.report.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaisched.core.axis import FloatVec
    from kaisched.framework.advice.advice import Proposal
    from kaisched.framework.invariants.sums import Moves
    from kaisched.framework.plugins.answers import Asked
    from kaisched.framework.report.records import EvictionReason, Problem
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim, Unit


def _without_more(asked: Asked) -> Reason:
    text = text_of(int(asked[-1]))
    return Reason(f"{text.sentence} (plugin {text.plugin} failed to say more)")


class Words:
    """The questions whose answers people read."""

    @question(
        OfOwner(
            reason_fault,
            without="the sentence of the refusal stands",
            fails="The sentence of the refusal stands, and says that the plugin failed.",
            instead=_without_more,
        )
    )
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Return why this plugin refuses a job, with the numbers, as of the end of the cycle.

        ``code`` is the plugin's own refusal with which ``action`` ended the attempt. Asked when the
        job's record is read.
        """

    @question(OfOwner(without="nothing is proposed", fails="It proposes nothing.", is_listed=True))
    def proposals(self, session: Session, job: int, code: int) -> Iterable[Proposal] | None:
        """Return changes that may cure a refusal of this plugin, likely ones first.

        Each change is tried on a copy before it is shown as advice. Its kind is one that the
        refusal lists as ``tried``. Asked when advice is asked for.
        """

    @question(First(sentence_fault, without="it names the claim and the queues that lose"))
    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], str | EvictionReason] | None:
        """Return a function that makes the reason of these evictions for a claim.

        The reason is a sentence, or a sentence with the kinds of the evictions by queue. Asked once
        for each claim that evicts, when all its moves are in ``session.held_now``. The function is
        called with the session when the reason is read. It may keep numbers of now, but must not
        keep the session.
        """

    @question(FirstOfEach())
    def queue_problems(self, session: Session) -> Mapping[int, Problem] | None:
        """Return, by queue row, the problems of queues that do not work under this policy.

        Shown as the condition ``Ready`` of the queue. Asked after each cycle whose shares are read.
        """

    @question(First(figures_fault, without="no figures"))
    def queue_figures(self, session: Session) -> Mapping[str, FloatVec] | None:
        """Return figures of queues under this policy, by name: a number for each queue ``(Q,)``.

        Such as what queues are compared by. Shown with the shares of a cycle, and as the metric
        ``kaisched_queue_figure_ratio``. Names are words in snake_case. Asked when the shares of a
        cycle are read.
        """

    @question(Lines())
    def broken_rules(self, moves: Moves) -> Iterable[str] | None:
        """Return a line for each rule of this plugin that a cycle's result breaks.

        Asked by tests, replays and other checks of results; never by a cycle. Each line begins with
        the rule's name.
        """
