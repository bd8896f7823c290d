"""A look at jobs that wait alike: which changes are tried for them, and what they are told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.framework.advice.advice import Advice, Change, Kind, sentence_of
from kaisched.framework.advice.adviser import TRIALS, more_nodes
from kaisched.framework.advice.alike import subject_of
from kaisched.framework.advice.proposals import is_possible, proposals
from kaisched.framework.advice.trials import OWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.framework.advice.advice import Proposal
    from kaisched.framework.advice.alike import Alike, Key, Subject
    from kaisched.framework.advice.trials import Trials

HOLD_S: Final = 300.0
"""What was tried for a job is not tried again sooner, so that no text changes more often."""
_MOST: Final = 2 * TRIALS
"""So many changes that were told before are tried again in one look, and twice as many in all."""


def is_held(since_s: float, now_s: float) -> bool:
    """Tell whether it is too soon to try, or say, anything else; a clock may have been set back."""
    return since_s <= now_s < since_s + HOLD_S


class Told(NamedTuple):
    """What a job was told."""

    code: int
    """The reason for which it was."""
    subject: Subject
    advice: tuple[Advice, ...]
    """Of waiting, the amount is the second until which."""
    text: str
    since_s: float


@dataclass(slots=True)
class Look:
    """What was found so far for one group; it may take several turns."""

    key: Key
    revision: int
    """Of the snapshot with which it began; -1 where what is due shifts by itself."""
    verdicts: dict[Proposal, dict[str, bool]] = field(default_factory=dict)
    """Of each change tried, by job, whether it helps; of some jobs it may be unknown."""


class Work:
    """What one turn does for a look."""

    def __init__(self, look: Look, trials: Trials, group: Alike, told: dict[str, Told]) -> None:
        """Find out who stands where in the line: first come, first served."""
        self._verdicts, self._trials, self._told = look.verdicts, trials, told
        self._session = session = trials.session
        self._now_s = session.now_s
        jobs = session.jobs
        self._code = group.code
        self._line = sorted(
            group.rows.tolist(), key=lambda row: (jobs.created_s[row], jobs.name[row])
        )
        self._subject = subject_of(session, self._line[0])  # of the others too, but for their age
        self._before = {
            jobs.name[row]: known
            for row in self._line
            if (known := told.get(jobs.name[row])) is not None
            and known.code == self._code
            and known.subject == self._subject_of(row)
        }

    def _subject_of(self, row: int) -> Subject:
        return self._subject._replace(created_s=float(self._session.jobs.created_s[row]))

    # -- what is tried ---------------------------------------------------------------------------

    def untried(self) -> Iterator[Proposal]:
        """Yield what is to be judged next: what was told before, and new ideas if that is false."""
        for proposal in islice(self._told_before(), _MOST):
            if proposal not in self._verdicts:
                yield proposal
        if self._before and all(self._holds(known, name) for name, known in self._before.items()):
            return
        for proposal in self._ideas():  # others in each turn, maybe, where numbers change
            if proposal not in self._verdicts and len(self._verdicts) < 2 * _MOST:
                yield proposal

    def _told_before(self) -> list[Proposal]:
        found = [
            (each.kind, each.changes) for known in self._before.values() for each in known.advice
        ]
        return list(dict.fromkeys(found))

    def _ideas(self) -> Iterator[Proposal]:
        # The last in line has come latest, so that what is enough for it is so for the others.
        last = self._line[-1]
        for kind, changes in islice(proposals(self._session, last, self._code), TRIALS):
            idea = kind, self._lasting(kind, changes)
            yield idea
            helped = self._verdicts.get(idea, {})
            if kind is Kind.NODES and not helped.get(self._session.jobs.name[last]):
                yield kind, more_nodes(changes)

    def _lasting(self, kind: Kind, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return changes so that they say the same tomorrow, and of whichever of these jobs."""
        if kind is Kind.TIME:
            now_s = math.ceil(self._now_s)
            return tuple(Change("", amount=now_s + change.amount) for change in changes)
        return tuple(replace(it, on="") for it in changes) if kind in OWN else changes

    # -- what comes of it ------------------------------------------------------------------------

    def judge(self, proposal: Proposal) -> None:
        """Find out whom a change helps."""
        self._verdicts[proposal] = self._verdict(*proposal)

    def _verdict(self, kind: Kind, changes: tuple[Change, ...]) -> dict[str, bool]:
        names, line = self._session.jobs.name, self._line
        if kind is Kind.TIME:
            late_s = max(change.amount for change in changes) - self._session.now_s
            changes = (Change("", amount=math.ceil(late_s)),)
        if not is_possible(self._session, kind, changes):
            return {}
        if kind not in OWN:
            return {names[row]: self._trials.helps(row, kind, changes) for row in line}
        if self._trials.helps(line[-1], kind, changes):
            return {names[row]: True for row in line}
        if len(line) > 1 and self._trials.helps(line[0], kind, changes):
            return {names[line[0]]: True, names[line[-1]]: False}
        return {names[row]: False for row in line}

    def _holds(self, known: Told, name: str) -> bool:
        """Tell whether all that a job was told is still so."""
        verdicts = [
            (each.helps, self._verdicts.get((each.kind, each.changes), {}).get(name))
            for each in known.advice
        ]
        return bool(verdicts) and all(said == found for said, found in verdicts)

    def tell(self) -> float | None:
        """Keep what was found; who was told what is so hears nothing new.

        Nor does who was told something just before; returned is then when that was.
        """
        held_s: float | None = None
        for row in self._line:
            name = self._session.jobs.name[row]
            known = self._before.get(name)
            advice = self._found(name)
            if known is not None and (known.advice == advice or self._holds(known, name)):
                continue
            if known is not None and is_held(known.since_s, self._now_s):
                held_s = min(known.since_s, known.since_s if held_s is None else held_s)
            else:
                self._told[name] = self._told_now(row, advice)
        return held_s

    def _found(self, name: str) -> tuple[Advice, ...]:
        """Return one change of each kind: the first that helps, else the last that does not."""
        found: dict[Kind, Advice] = {}
        for (kind, changes), verdict in self._verdicts.items():
            helps = verdict.get(name)
            if helps is not None and not (kind in found and found[kind].helps):
                found[kind] = Advice(kind, changes, helps)
        return tuple(found.values())

    def _told_now(self, row: int, advice: Sequence[Advice]) -> Told:
        tried = datetime.fromtimestamp(self._now_s, UTC).strftime("tried %Y-%m-%d %H:%M UTC")
        text = sentence_of(advice, tried, _words)
        return Told(self._code, self._subject_of(row), tuple(advice), text, self._now_s)


def _words(advice: Advice) -> str:
    """Name a change so that it is true tomorrow too."""
    if advice.kind is not Kind.TIME:
        return str(advice)
    until = datetime.fromtimestamp(advice.changes[0].amount, UTC)
    return until.strftime("waiting until %Y-%m-%d %H:%M:%S UTC")
