"""Advice to waiting jobs that stands from cycle to cycle: what was found, until it is not so.

A daemon says the same of a job for as long as it is true, and has little time to find out. So
changes are tried between cycles, a few steps' worth each time, for the queues in turn and for jobs
that wait alike together. What was found is tried again only when something has changed since, and
not before a while has passed; as long as it holds, not a word of it changes.
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
    """What waiting jobs were told would help. For one thread."""

    def __init__(self) -> None:
        """Have tried nothing."""
        self.told: dict[str, Told] = {}
        self.tried: dict[Key, tuple[int, float]] = {}
        """The revision of the snapshot when jobs were last looked at, and when that was."""
        self.look: Look | None = None
        """What the last turn had no steps left to finish."""
        self.queue = ""
        """Whose jobs were looked at last."""
        self.trials = 0
        """How many there were."""
        self.left = 0
        """Steps that may be used; below zero what is still to be paid for."""
        self._at_rest: tuple[int, bytes] | None = None
        self._rests_since_s = -math.inf

    def words(self, session: Session, job: int, record: DecisionRecord) -> str | None:
        """Return what was found for a job that still waits for the same reason; empty for nothing.

        None where nothing was tried for it yet.

        Args:
            session: of the cycle.
            job: its row.
            record: why it waits.

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
    """What is tried after one cycle."""

    def __init__(self, standing: StandingAdvice, records: Records) -> None:
        session: Session = records.session
        self._of, self._session = standing, session
        self._now_s = session.now_s
        self._groups = {each.key: each for each in alike(session, records)}
        self._trials = Trials(session, len(self._groups))
        # With history, what is due to queues shifts by itself.
        self._revision = self._session.snapshot.revision if self._session.usage is None else -1
        self._forget(records)
        self.again_s = self._now_s + HOLD_S
        """When to look again where nothing happens."""
        self._due = self._by_queue()

    def run(self) -> bool:
        """Look at jobs until the steps are used up; True when nothing is left to be tried."""
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
        """Try what is left to be tried for a group; False when the steps do not suffice."""
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
        """Return the groups that are to be looked at, by queue; the next one stands last."""
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
        """Return the group of the next queue in turn that was looked at longest ago."""
        names = list(self._due)
        if not names:
            return None
        name = names[bisect_right(names, self._of.queue) % len(names)]
        group = self._due[name].pop()
        if not self._due[name]:
            del self._due[name]
        return group

    def _forget(self, records: Records) -> None:
        """Forget jobs that wait no longer, and how jobs waited that do not any more."""
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
