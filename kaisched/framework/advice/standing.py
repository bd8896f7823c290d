"""Advice for waiting jobs that is kept from cycle to cycle, for as long as it holds.

A daemon repeats the same advice while it is true, and has little time for trials. So changes are
tried between cycles, within a small budget of steps. Queues take turns, and jobs that wait alike
share trials. A change is tried again only if something has changed since, and only after a while.
While the advice holds, its text stays the same.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.refusals import code_named, text_of
from kaisched.framework.advice.advice import Advice, Change, Kind, sentence_of
from kaisched.framework.advice.proposals import is_possible, proposals
from kaisched.framework.advice.trials import LOOK, OWN, TRIALS, Trials, more_nodes
from kaisched.framework.session.batches import asked_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.axis import CodeVec, IntVec, RowVec
    from kaisched.framework.advice.advice import Proposal
    from kaisched.framework.advice.trials import Trials
    from kaisched.framework.report.records import DecisionRecord
    from kaisched.framework.report.result import CycleResult, Records
    from kaisched.framework.session.session import Session

STEPS: Final = 40_000
"""What is tried may cost so much after each cycle on average, in the steps of 5 us, counted for the
worst case, of :mod:`kaisched.framework.advice.trials`. In a large cluster a trial costs more: it is
made all the same, and paid for by the cycles after which none is."""


class StandingAdvice:
    """The advice that waiting jobs have. For one thread."""

    def __init__(self) -> None:
        """Start without trials."""
        self.told: dict[str, Told] = {}
        self.tried: dict[Key, tuple[int, float]] = {}
        """By group: the revision of the snapshot of its last pass, and the time of that pass."""
        self.look: Look | None = None
        """The pass that the last cycle had no steps left to finish."""
        self.queue = ""
        """The queue of the last pass."""
        self.trials = 0
        """The number of trials so far."""
        self.left = 0
        """Steps that may be used; below zero, the steps that later cycles have to pay for."""
        self._at_rest: tuple[int, bytes] | None = None
        self._rests_since_s = -math.inf

    def words(self, session: Session, job: int, record: DecisionRecord) -> str | None:
        """Return what was found for a job that still waits for the same reason; empty for nothing.

        None where nothing was tried for it yet.

        Args:
            session: the session of the cycle.
            job: the row of the job.
            record: why the job waits.

        """
        told = self.told.get(record.pod_group)
        if told is None:
            return None
        if code_named(record.reason, record.plugin) != told.code:
            return ""
        return told.text if told.subject == subject_of(session, job) else ""

    def find(self, result: CycleResult) -> None:
        """Try some changes for jobs that wait, after a cycle; nothing where nothing is new.

        A trial asks the same plugins: where one failed, it would speak of that failure.
        """
        if result.stats.abandoned or result.failures:
            return
        records = result.records
        session: Session = records.session
        snapshot, now_s = session.snapshot, session.now_s
        state = snapshot.revision, records.codes.tobytes()
        self.left = min(self.left + STEPS, STEPS)
        is_at_rest = state == self._at_rest and is_held(self._rests_since_s, now_s)
        if is_at_rest or self.left <= 0:
            return
        turn = _Round(self, records)
        self._at_rest = state if turn.run() else None
        self._rests_since_s = turn.again_s - HOLD_S


class _Round:
    """The trials after one cycle."""

    def __init__(self, standing: StandingAdvice, records: Records) -> None:
        session: Session = records.session
        self._of, self._session = standing, session
        self._now_s = session.now_s
        self._groups = {each.key: each for each in alike(session, records)}
        self._trials = Trials(session, len(self._groups))
        # With usage history, entitlements of queues shift by themselves.
        self._revision = self._session.snapshot.revision if self._session.usage is None else -1
        self._forget(records)
        self.again_s = self._now_s + HOLD_S
        """The time of the next pass if nothing changes."""
        self._due = self._by_queue()

    def run(self) -> bool:
        """Try changes until the steps are used up; True when nothing is left to try."""
        of = self._of
        while of.left > 0:
            look, of.look = of.look, None
            group = self._next() if look is None else self._groups.get(look.key)
            if group is not None:
                look = look or Look(group.key, self._revision)
                of.tried[group.key] = look.revision, self._now_s
                of.queue = group.queue
                of.left -= LOOK
                if not self._looked(look, group):
                    of.look = look
                    return False
            elif look is None:
                return True
        return False

    def _looked(self, look: Look, group: Alike) -> bool:
        """Try the remaining changes for a group; False when the steps do not suffice."""
        of = self._of
        work = Work(look, self._trials, group, of.told)
        for proposal in work.untried():
            before = len(self._trials)
            if before and of.left < self._trials.steps:
                return False
            work.judge(proposal)
            of.trials += len(self._trials) - before
            of.left -= (len(self._trials) - before) * self._trials.steps
        if (held_s := work.tell()) is not None:
            of.tried[group.key] = -1, held_s
            self.again_s = min(self.again_s, held_s + HOLD_S)
        return True

    # -- whose turn it is ------------------------------------------------------------------------

    def _by_queue(self) -> dict[str, list[Alike]]:
        """Return the groups with changes to try, by queue; the next group is last."""
        due: dict[str, list[tuple[float, int, Alike]]] = {}
        for group in self._groups.values():
            revision, tried_s = self._of.tried.get(group.key, (-1, -math.inf))
            if revision == self._revision != -1:
                continue
            if is_held(tried_s, self._now_s):
                self.again_s = min(self.again_s, tried_s + HOLD_S)
            else:
                entry = (-tried_s, -int(group.rows[0]), group)
                due.setdefault(group.queue, []).append(entry)
        return {
            name: [group for _, _, group in sorted(due[name], key=lambda it: it[:2])]
            for name in sorted(due)
        }

    def _next(self) -> Alike | None:
        """Return the group of the next queue whose last pass was longest ago."""
        names = list(self._due)
        if not names:
            return None
        name = names[bisect_right(names, self._of.queue) % len(names)]
        group = self._due[name].pop()
        if not self._due[name]:
            del self._due[name]
        return group

    def _forget(self, records: Records) -> None:
        """Forget jobs and groups that no longer wait."""
        told, tried = self._of.told, self._of.tried
        if len(told) > 2 * len(records):
            names = self._session.jobs.name
            waiting = {names[row] for row in records.rows.tolist()}
            for gone in told.keys() - waiting:
                del told[gone]
        if len(tried) > 2 * len(self._groups):
            late_s = self._now_s - HOLD_S
            for key in [it for it, (_, tried_s) in tried.items() if tried_s < late_s]:
                if key not in self._groups:
                    del tried[key]


Key: TypeAlias = tuple[object, ...]
"""Identifies a group of jobs that wait alike, across cycles."""


class Alike(NamedTuple):
    """Some jobs that wait alike."""

    key: Key
    code: int
    queue: str
    rows: RowVec
    """Ascending."""


def alike(session: Session, records: Records) -> list[Alike]:
    """Return, in groups, the waiting jobs for whose reasons there are changes to try."""
    tried = [code for code in np.unique(records.codes).tolist() if text_of(code).tried]
    is_asked = np.isin(records.codes, tried)
    row, code = records.rows[is_asked], records.codes[is_asked]
    if not row.size:
        return []
    columns = _columns(session, row, code)
    group = np.zeros(len(row), np.int64)
    for column in columns:
        _, number = np.unique(column, return_inverse=True)
        _, group = np.unique(group * (int(number.max()) + 1) + number, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    numbers = np.stack(columns)[:, order[starts]].T.tolist()
    parts = np.split(row[order], starts[1:])
    return [_named(session, number, rows) for number, rows in zip(numbers, parts, strict=True)]


def _named(session: Session, numbers: list[int], rows: RowVec) -> Alike:
    """Replace row numbers by names: rows change when nodes or queues change."""
    queue, code, shape, *others = numbers
    pods: object = session.jobs.name[int(rows[0])]
    if shape >= 0:
        request = session.shapes.request[:, shape].tobytes()
        pods = request, session.shapes.constraints[shape]
    name = session.queues.name[queue]
    return Alike((name, code, pods, *others), code, name, rows)


def _columns(session: Session, row: RowVec, code: CodeVec) -> list[IntVec]:
    """Return ``(K,)`` columns that are equal for jobs that are alike."""
    jobs, podsets = session.jobs, session.podsets
    is_simple = (jobs.podset_count[row] == 1) & (jobs.shape_of_job[row] >= 0)
    active = session.ledger.job_active if session.has_moved else jobs.active
    columns: list[Any] = [
        jobs.queue_of_job[row],
        code,
        np.where(is_simple, jobs.shape_of_job[row], -1 - row),
        session.pending_of(row),
        active[row],
        podsets.minimum[jobs.first_podset[row]],
        jobs.is_preemptible[row],
        jobs.priority[row],
        *(codes[row] for codes in session.outcome.claims.values()),
    ]
    return [column.astype(np.int64) for column in columns]


class Subject(NamedTuple):
    """The properties of a job that advice about it depends on; compared across cycles."""

    created_s: float
    queue: str
    pods: int
    asked: tuple[tuple[str, int], ...]


def subject_of(session: Session, job: int) -> Subject:
    """Return the present subject of a job: a later job may have the same name."""
    jobs, ask = session.jobs, asked_of(session, job)
    names = session.axis.names
    return Subject(
        float(jobs.created_s[job]),
        session.queues.name[int(jobs.queue_of_job[job])],
        int(jobs.active[job] + jobs.pending[job]),
        tuple((names[at], int(ask[at])) for at in np.flatnonzero(ask).tolist()),
    )


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
