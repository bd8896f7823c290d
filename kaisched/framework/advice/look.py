"""One pass over jobs that wait alike: tries changes for them, and keeps their advice."""

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
"""The least time between two trials for a job, so that its text does not change more often."""
_MOST: Final = 2 * TRIALS
"""The most changes advised before that one pass tries again; it tries twice as many in all."""


def is_held(since_s: float, now_s: float) -> bool:
    """Tell whether it is too soon for other advice; the clock may have been set back."""
    return since_s <= now_s < since_s + HOLD_S


class Told(NamedTuple):
    """The advice that a job has."""

    code: int
    """The reason why the job waits."""
    subject: Subject
    advice: tuple[Advice, ...]
    """For advice to wait, the amount is the time until which, in seconds."""
    text: str
    since_s: float


@dataclass(slots=True)
class Look:
    """The verdicts so far for one group; a pass may take several cycles."""

    key: Key
    revision: int
    """Revision of the snapshot at the start of the pass; -1 if entitlements shift by themselves."""
    verdicts: dict[Proposal, dict[str, bool]] = field(default_factory=dict)
    """For each tried change, by job: whether it helps; some jobs may be missing."""


class Work:
    """The work of one cycle on a pass."""

    def __init__(self, look: Look, trials: Trials, group: Alike, told: dict[str, Told]) -> None:
        """Sort the jobs of the group by creation."""
        self._verdicts, self._trials, self._told = look.verdicts, trials, told
        self._session = session = trials.session
        self._now_s = session.now_s
        jobs = session.jobs
        self._code = group.code
        self._line = sorted(
            group.rows.tolist(), key=lambda row: (jobs.created_s[row], jobs.name[row])
        )
        self._subject = subject_of(session, self._line[0])  # the others differ only in age
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
        """Yield the changes to judge next: earlier advice, then new ones if it no longer holds."""
        for proposal in islice(self._told_before(), _MOST):
            if proposal not in self._verdicts:
                yield proposal
        if self._before and all(self._holds(known, name) for name, known in self._before.items()):
            return
        for proposal in self._ideas():  # may differ from cycle to cycle, as numbers change
            if proposal not in self._verdicts and len(self._verdicts) < 2 * _MOST:
                yield proposal

    def _told_before(self) -> list[Proposal]:
        found = [
            (each.kind, each.changes) for known in self._before.values() for each in known.advice
        ]
        return list(dict.fromkeys(found))

    def _ideas(self) -> Iterator[Proposal]:
        # The last job is the latest: a change that is enough for it is enough for all jobs.
        last = self._line[-1]
        for kind, changes in islice(proposals(self._session, last, self._code), TRIALS):
            idea = kind, self._lasting(kind, changes)
            yield idea
            helped = self._verdicts.get(idea, {})
            if kind is Kind.NODES and not helped.get(self._session.jobs.name[last]):
                yield kind, more_nodes(changes)

    def _lasting(self, kind: Kind, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return changes in terms that stay true later and for every job of the group."""
        if kind is Kind.TIME:
            now_s = math.ceil(self._now_s)
            return tuple(Change("", amount=now_s + change.amount) for change in changes)
        return tuple(replace(it, on="") for it in changes) if kind in OWN else changes

    # -- what comes of it ------------------------------------------------------------------------

    def judge(self, proposal: Proposal) -> None:
        """Find out which jobs a change helps."""
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
        """Tell whether all advice of a job still holds."""
        verdicts = [
            (each.helps, self._verdicts.get((each.kind, each.changes), {}).get(name))
            for each in known.advice
        ]
        return bool(verdicts) and all(said == found for said, found in verdicts)

    def tell(self) -> float | None:
        """Keep new advice; jobs whose advice still holds, or is recent, keep theirs.

        Return the time of the oldest recent advice that no longer holds, or None.
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
    """Name a change in words that stay true later."""
    if advice.kind is not Kind.TIME:
        return str(advice)
    until = datetime.fromtimestamp(advice.changes[0].amount, UTC)
    return until.strftime("waiting until %Y-%m-%d %H:%M:%S UTC")
