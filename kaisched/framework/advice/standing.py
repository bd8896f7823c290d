"""Advice for waiting jobs that is kept from cycle to cycle, for as long as it holds.

A daemon repeats the same advice while it is true, and has little time for trials. So changes are
tried between cycles, within a small budget of steps. Queues take turns, and jobs that wait alike
share trials. A change is tried again only if something has changed since, and only after a while.
While the advice holds, its text stays the same.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kaisched.core.refusals import code_named
from kaisched.framework.advice.adviser import LOOK
from kaisched.framework.advice.alike import alike, subject_of
from kaisched.framework.advice.look import HOLD_S, Look, Told, Work, is_held
from kaisched.framework.advice.trials import Trials

if TYPE_CHECKING:
    from kaisched.framework.advice.alike import Alike, Key
    from kaisched.framework.report.records import CycleResult, DecisionRecord, Records
    from kaisched.framework.session.session import Session

STEPS: Final = 40_000
"""What is tried may cost so much after each cycle on average, in the steps of 5 us, counted for the
worst case, of :mod:`kaisched.framework.advice.adviser`. In a large cluster a trial costs more: it
is made
all the same, and paid for by the cycles after which none is."""


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
