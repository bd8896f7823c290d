"""Advice for waiting jobs that is kept from cycle to cycle, for as long as it holds.

A daemon repeats the same advice while it is true, and has little time for trials. So changes are
tried between cycles, within a small budget of steps. Queues take turns, and jobs that wait alike
share trials. Soon after something has changed, what is advised is tried again, and a little less.
While the advice holds, its text stays the same; if not it goes, and new advice comes after a while.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.refusals import code_named, text_of
from kaisched.framework.advice.advice import Change, Kind, is_same, sentence_of
from kaisched.framework.advice.proposals import is_possible, proposals
from kaisched.framework.advice.search import LOOK, Search, Untried, Verdict, lesser
from kaisched.framework.advice.trials import OWN, Trials, is_own
from kaisched.framework.report.turns import Turns
from kaisched.framework.session.batches import asked_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaisched.core.axis import CodeVec, IntVec, RowVec
    from kaisched.framework.advice.advice import Advice, Proposal
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
        self.tried: dict[Key, Tried] = {}
        """The last pass of each group."""
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
        turn = _Round(self, result)
        self._at_rest = state if turn.run() else None
        self._rests_since_s = turn.again_s - HOLD_S


class _Round:
    """The trials after one cycle."""

    def __init__(self, standing: StandingAdvice, result: CycleResult) -> None:
        records = result.records
        session: Session = records.session
        self._of, self._session = standing, session
        self._now_s = session.now_s
        self._groups = {each.key: each for each in alike(session, records)}
        self._trials, self._turns = Trials(session, len(self._groups)), Turns(result)
        self._revision = session.snapshot.revision
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
                again_s = math.inf if self._session.usage is None else self._now_s + HOLD_S
                of.tried[group.key] = Tried(look.revision, self._now_s, again_s)
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
        of, begun = self._of, self._of.trials

        def pay() -> None:
            """Let one more trial be made, at least the first."""
            if of.trials > begun and of.left < self._trials.steps:
                raise Untried
            of.trials += 1
            of.left -= self._trials.steps

        work = Work(look, self._trials, group, of.told, pay)
        try:
            work.search()
        except Untried:
            return False
        if (again_s := work.update(self._turns)) is not None:
            of.tried[group.key] = of.tried[group.key]._replace(again_s=again_s)
            self.again_s = min(self.again_s, again_s)
        return True

    # -- whose turn it is ------------------------------------------------------------------------

    def _by_queue(self) -> dict[str, list[Alike]]:
        """Return the groups with changes to try, by queue; the next group is last."""
        due: dict[str, list[tuple[float, int, Alike]]] = {}
        for group in self._groups.values():
            tried = self._of.tried.get(group.key, _NEVER)
            due_s = tried.again_s
            if tried.revision != self._revision:
                due_s = min(due_s, tried.since_s + CHECK_S)
            if tried.since_s <= self._now_s < due_s:
                self.again_s = min(self.again_s, due_s)
            else:
                entry = (-tried.since_s, -int(group.rows[0]), group)
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
            for key in [it for it, known in tried.items() if known.since_s < late_s]:
                if key not in self._groups:
                    del tried[key]


Key: TypeAlias = tuple[object, ...]
"""Identifies a group of jobs that wait alike, across cycles."""


class Alike(NamedTuple):
    """Waiting jobs with equal requests and equal reasons."""

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
"""The least time between two texts for a job; one that no longer holds goes earlier."""
CHECK_S: Final = 30.0
"""The least time between two trials for a job."""
_MOST: Final = 16
"""The most changes that are tried for jobs that wait alike, in one pass; those that are advised
already come first and are at most half of them."""


class Tried(NamedTuple):
    """The last pass of a group."""

    revision: int
    """Revision of the snapshot at its start."""
    since_s: float
    again_s: float
    """The time of the next pass though nothing changes."""


_NEVER: Final = Tried(-1, -math.inf, -math.inf)


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
    """Empty where the advice no longer holds."""
    since_s: float


@dataclass(slots=True)
class Look:
    """The verdicts so far for one group; a pass may take several cycles."""

    key: Key
    revision: int
    """Revision of the snapshot at the start of the pass."""
    verdicts: dict[Proposal, dict[str, Verdict]] = field(default_factory=dict)
    """What each trial showed, by job; some jobs may be missing."""
    after: dict[Proposal, list[Proposal]] = field(default_factory=dict)
    """What to try together with a change."""


class Work:
    """The work of one cycle on a pass."""

    def __init__(
        self,
        look: Look,
        trials: Trials,
        group: Alike,
        told: dict[str, Told],
        pay: Callable[[], None],
    ) -> None:
        """Sort the jobs of the group by creation.

        Args:
            look: the pass.
            trials: the trials of the cycle.
            group: the jobs that wait alike.
            told: what all jobs were told before.
            pay: is called before each trial; raises :class:`Untried` if it may not be made.

        """
        self._look, self._trials, self._told, self._pay = look, trials, told, pay
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
        self._found: dict[int, tuple[Advice, ...]] = {}
        """The advice of each job; none yet for those that keep theirs."""

    def _subject_of(self, row: int) -> Subject:
        return self._subject._replace(created_s=float(self._session.jobs.created_s[row]))

    # -- what is tried ---------------------------------------------------------------------------

    def search(self) -> None:
        """Find out whether earlier advice still holds, and search for new where it does not.

        Raises:
            Untried: the steps do not suffice; another cycle goes on.

        """
        verdicts, names = self._look.verdicts, self._session.jobs.name
        for proposal in islice(self._told_before(), _MOST // 2):
            if len(verdicts) < _MOST:
                self._verdict(proposal)
        rows = [row for row in self._line if not self._holds(names[row])]
        if not rows:
            return
        # The last job is the latest: a change that is enough for it is enough for all jobs.
        ideas = list(islice(proposals(self._session, self._line[-1], self._code), _MOST))
        known: dict[tuple[Verdict | None, ...], tuple[Advice, ...]] = {}
        for row in dict.fromkeys([rows[-1], *rows]):
            said = tuple(it.get(names[row]) for it in verdicts.values())
            if said not in known:
                search = Search(self._session, row, partial(self._judge, row), self._after)
                if not search.run(ideas) and len(verdicts) < _MOST:
                    raise Untried
                said = tuple(it.get(names[row]) for it in verdicts.values())
                known[said] = tuple(self._certain(row, search.advice))
            self._found[row] = known[said]

    def _certain(self, row: int, advice: Sequence[Advice]) -> Iterator[Advice]:
        """Yield advice in lasting terms, as far as it was tried for the job."""
        name = self._session.jobs.name[row]
        for each in advice:
            lasting = replace(each, changes=self._lasting(each.kind, each.changes))
            was_tried = name in self._look.verdicts[lasting.kind, lasting.changes]
            if each.is_least if each.helps else was_tried:
                yield lasting

    def _judge(self, row: int, proposal: Proposal) -> Verdict:
        """Return what a change shows for one job."""
        kind, changes = proposal
        found = self._verdict((kind, self._lasting(kind, changes)))
        return found.get(self._session.jobs.name[row], Verdict(helps=False))

    def _after(self, proposal: Proposal) -> list[Proposal]:
        """Return what to try together with a change that does not help the last job."""
        kind, changes = proposal
        key = kind, self._lasting(kind, changes)
        if key not in self._look.after:
            self._pay()
            self._look.after[key] = self._trials.after(self._line[-1], kind, changes)
        return self._look.after[key]

    def _told_before(self) -> Iterator[Proposal]:
        """Yield what jobs are advised, and of what helps a little less."""
        seen = {it for known in self._before.values() for it in known.advice}
        for each in sorted(seen, key=str):
            yield each.kind, each.changes
            if each.helps:
                yield from self._less(each)

    def _less(self, advice: Advice) -> list[Proposal]:
        """Return changes that are a little less."""
        return lesser(self._session, self._line[-1], (advice.kind, advice.changes))

    def _lasting(self, kind: Kind, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return changes in terms that stay true later and for every job of the group."""
        if kind is Kind.TIME:
            now_s = math.ceil(self._now_s)
            return tuple(Change("", amount=now_s + change.amount) for change in changes)
        return tuple(replace(it, on="") if (it.kind or kind) in OWN else it for it in changes)

    # -- what comes of it ------------------------------------------------------------------------

    def _verdict(self, proposal: Proposal) -> dict[str, Verdict]:
        """Return what a change shows, by job; it is tried if it was not yet."""
        found = self._look.verdicts.get(proposal)
        if found is None:
            if len(self._look.verdicts) >= _MOST:
                raise Untried
            found = self._look.verdicts[proposal] = self._tried(*proposal)
        return found

    def _tried(self, kind: Kind, changes: tuple[Change, ...]) -> dict[str, Verdict]:
        names, line = self._session.jobs.name, self._line
        if kind is Kind.TIME:
            late_s = max(change.amount for change in changes) - self._now_s
            changes = (Change("", amount=math.ceil(late_s)),)
        if not is_possible(self._session, kind, changes):
            return {}

        def verdict(row: int) -> Verdict:
            if not self._trials.is_known(row, kind, changes):
                self._pay()
            helps = self._trials.helps(row, kind, changes)
            return Verdict(helps, not helps and self._trials.helps_any(row, kind, changes))

        if not is_own(kind, changes):
            return {names[row]: verdict(row) for row in line}
        last = verdict(line[-1])
        if not last.helps and len(line) > 1 and (first := verdict(line[0])).helps:
            return {names[line[0]]: first, names[line[-1]]: last}
        return {names[row]: last for row in line}

    def _holds(self, name: str) -> bool:
        """Tell whether the advice of a job still holds, and is the least."""
        known = self._before.get(name)

        def verdict(kind: Kind, changes: tuple[Change, ...]) -> Verdict | None:
            found = self._look.verdicts.get((kind, changes))
            return None if found is None else found.get(name, Verdict(helps=False))

        def holds(each: Advice) -> bool:
            now = verdict(each.kind, each.changes)
            less = [verdict(*it) for it in (self._less(each) if each.helps else ())]
            return (
                now is not None
                and (now.helps, now.others) == (each.helps, each.others_first)
                and all(it is not None and not it.helps for it in less)
            )

        return known is not None and bool(known.advice) and all(map(holds, known.advice))

    def update(self, turns: Turns) -> float | None:
        """Give jobs their advice; what no longer holds goes, and comes again after a while.

        Return the time at which a job may be told otherwise, None where none waits for that.
        """
        again_s: float | None = None
        for row in self._line:
            name = self._session.jobs.name[row]
            known = self._before.get(name)
            advice = self._found.get(row, () if known is None else known.advice)
            now = self._told_now(row, advice, turns)
            if known is None or not is_held(known.since_s, self._now_s):
                is_same_text = known is not None and is_same(known.text, now.text)
                if known is None or known.advice != advice or not is_same_text:
                    self._told[name] = now
            elif known.advice != advice or not is_same(known.text, now.text):
                self._told[name] = known._replace(advice=(), text="")
                again_s = min(again_s or math.inf, known.since_s + HOLD_S)
        return again_s

    def _told_now(self, row: int, advice: Sequence[Advice], turns: Turns) -> Told:
        tried = datetime.fromtimestamp(self._now_s, UTC).strftime("tried %Y-%m-%d %H:%M UTC")
        words = partial(_words_for, self._session, row)
        text = sentence_of(advice, tried, words, lambda: turns.ahead_of(row))
        return Told(self._code, self._subject_of(row), tuple(advice), text, self._now_s)


def _words_for(session: Session, row: int, advice: Advice) -> str:
    """Name a change for readers of a job: tenants do not see jobs of other queues."""
    names = session.jobs.name
    if not session.policy.has_tenants or advice.kind is not Kind.END:
        return _words(advice)
    (change,) = advice.changes
    queues = session.jobs.queue_of_job
    queue = int(queues[names.index(change.on)]) if change.on in names else -1
    if queue in {-1, int(queues[row])}:
        return _words(advice)
    title = f"a job of queue {session.queues.name[queue]}"
    return _words(replace(advice, changes=(replace(change, title=title),)))


def _words(advice: Advice) -> str:
    """Name a change in words that stay true later."""
    if advice.kind is not Kind.TIME:
        return str(advice)
    until = datetime.fromtimestamp(advice.changes[0].amount, UTC)
    return until.strftime("waiting until %Y-%m-%d %H:%M:%S UTC")
