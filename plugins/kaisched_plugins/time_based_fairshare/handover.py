"""Hands the surplus over between lumps: builds the groups that the rules are about, and remembers.

Nothing of a spell is remembered: who runs since when is in the snapshot, who has used what in the
usage. What is remembered is only who had the way free and did not take it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kaisched import PARTS, Amounts, Claim, CodeVec, FloatVec, IntVec, RowVec, Session
from kaisched_plugins.time_based_fairshare import refusals
from kaisched_plugins.time_based_fairshare.lumps import Lump
from kaisched_plugins.time_based_fairshare.spells import (
    Contest,
    Group,
    Need,
    Side,
    has_way_free,
    members,
    share_out,
)

SPELLS_OF_HISTORY = 16
"""An average queue's shortest spell at k = 1 is the length of the history divided by this."""
_OTHERS_SPELL = np.int16(refusals.OTHERS_SPELL)
_PAUSE = 10
"""Who did not take what was free is passed over for so many spells."""

Facts = dict[str, list[float]]
"""Name of a queue or waiting job to since when its way is free, and what it held then."""


@dataclass(slots=True)
class Handover:
    """What one cycle knows about lumps."""

    lumps: list[Lump]
    excess: FloatVec
    """``(R, Q)`` usage beyond the quota, as a part of the cluster."""
    k: float
    spell_s: float
    elapsed: float
    """How much of the budget period has passed, 0 to 1; NaN where spells do not follow budgets."""
    before: Facts
    granted: list[tuple[int, Lump, Need]] = field(default_factory=list)
    """Waiting lumps whose spell it is, with the queue that was given something for it, and what."""
    young: set[int] = field(default_factory=set)
    """Jobs of the running lumps that go on for their shortest spell, at some level."""
    ended: set[int] = field(default_factory=set)
    """Jobs of the running lumps that do not go on, at some level."""
    deferred: set[int] = field(default_factory=set)
    behind: dict[int, set[int]] = field(default_factory=dict)
    """Resource to the queues that share it with a waiting lump whose spell it is."""

    @property
    def has_waiting(self) -> bool:
        """Tell whether any lump waits."""
        return any(not lump.is_running for lump in self.lumps)

    def head_start(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        weights: FloatVec,
        has: IntVec,
        wants: IntVec,
        surplus: IntVec,
    ) -> IntVec | None:
        """Answer the question of that name."""
        tree = session.queues.tree
        parents = tree.parent_of_queue[queue].tolist()
        leaves = {lump.leaf for lump in self.lumps}
        above = {-1} | {row for leaf in leaves for row in tree.path(leaf)[1:].tolist()}
        columns = [each.tolist() for each in (resource, queue, weights, has, wants, surplus)]
        used = [each[resource, queue].tolist() for each in (self.excess, session.held)]
        columns += [*used, session.requested[resource, queue].tolist()]
        rows = list(zip(*columns, strict=True))
        answer = None
        for each in sorted(above.intersection(parents)):
            at = [place for place, parent in enumerate(parents) if parent == each]
            group = self._group(session, [rows[place] for place in at])
            if group is None:
                continue
            share_out(group)
            self._note(group)
            answer = [0] * len(rows) if answer is None else answer
            for place in at:
                side = group.contests[rows[place][0]].sides[rows[place][1]]
                answer[place] = side.ahead
        return None if answer is None else np.array(answer, np.int64)

    def _note(self, group: Group) -> None:
        self.young |= group.young
        self.ended |= group.ended
        first = has_way_free(group)
        if first is not None:
            self.deferred.add(first)
        self.granted += group.granted
        for queue, _, given in group.granted:
            for row in given:
                siblings = group.contests[row].sides.keys() - {queue}
                self.behind.setdefault(row, set()).update(siblings)

    def gate(
        self, session: Session, queue: RowVec, job: RowVec, ask: Amounts, held: Amounts
    ) -> CodeVec | None:
        """Return OTHERS_SPELL ``(K,)`` for jobs that would take more than is left to their queue.

        Else what is free would go to others before the lump has all that it needs. Promised room
        is not taken back.
        """
        over = np.zeros(len(queue), np.bool_)
        for row, behind in self.behind.items():
            share = session.fair_share[row].take(queue)
            is_behind = np.isin(queue, np.array(sorted(behind), np.int64))
            over |= is_behind & (ask[row] > 0) & (held[row] + ask[row] > share)
        for at in np.flatnonzero(over).tolist():
            tasks = list(session.jobs.tasks[int(job[at])])
            over[at] = not (session.tasks.nominated_node[tasks] >= 0).any()
        return over * _OTHERS_SPELL if over.any() else None

    def claim(self, session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
        """Return OTHERS_SPELL ``(K,)`` for jobs that would claim what a lump was given (R30).

        Else its queue would take it from others bit by bit, only to give it back.
        """
        ends, leaf = session.queues.tree.end_of_queue, session.jobs.queue_of_job.take(job)
        held = (session.ledger if session.has_moved else session).held
        over = np.zeros(len(job), np.bool_)
        for queue, lump, given in self.granted:
            if not self._still_waits(session, lump):
                continue
            is_other = (leaf >= queue) & (leaf < ends[queue])
            asks = [ask[row] >= amount for row, amount in lump.amounts.items()]
            is_other &= ~((leaf == lump.leaf) & np.logical_and.reduce(asks))
            for row, amount in given.items():
                most = session.fair_share[row, queue] - amount
                over |= is_other & (ask[row] > 0) & (held[row, queue] + ask[row] > most)
        return over * _OTHERS_SPELL if over.any() else None

    def spare(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return OTHERS_SPELL ``(K,)`` for lumps whose spell is young (R27).

        Their queue may have to give up another one, which has run for longer: victims go youngest
        first. Who claims what it deserves is not stopped.
        """
        young = self.young - self.ended
        if not young:
            return None
        after = session.held[:, claim.queue] + claim.ask
        if not ((claim.ask > 0) & (after > session.queues.deserved[:, claim.queue])).any():
            return None
        return np.isin(job, list(young)) * _OTHERS_SPELL

    def _group(self, session: Session, rows: list[tuple[Any, ...]]) -> Group | None:
        """Return the siblings of some rows with the lumps below them, or None without any.

        A row is a resource, a queue, and its numbers: weight, what it has, wants and may share;
        usage, what it holds, and that with what it asks for.
        """
        ends = session.queues.tree.end_of_queue
        lumps = [
            (queue, lump)
            for queue in sorted({row[1] for row in rows})
            for lump in self._by_use(session, members(self.lumps, queue, int(ends[queue])))
        ]
        if not lumps:
            return None
        contests: dict[int, Contest] = {}
        total, held = session.snapshot.total, session.held
        for resource, queue, weight, has, wants, surplus, used, holds, asks in rows:
            contest = contests.setdefault(resource, Contest(surplus, 0.0))
            contest.sides[queue] = Side(weight, used / weight, has, wants, holds, asks > holds)
        for resource, contest in contests.items():
            part = contest.surplus / max(int(total[resource]), 1)
            contest.margin = part * len(contest.sides) / (2 * SPELLS_OF_HISTORY * self.k)
            if not math.isnan(self.elapsed):
                for queue, side in contest.sides.items():
                    used = float(self.excess[resource, queue]) * self.elapsed
                    side.owed = _weight_part(session, resource, queue) * part - used

        def covers(queue: int, resource: int, amount: int) -> bool:
            quota = int(session.queues.deserved[resource, queue])
            return int(held[resource, queue]) + amount <= quota

        def is_passed_over(queue: int) -> bool:
            return self._is_passed_over(session, f"queue/{session.queues.name[queue]}")

        return Group(
            contests,
            lumps,
            session.now_s,
            self.spell_s,
            not math.isnan(self.elapsed),
            covers,
            is_passed_over,
        )

    def _by_use(self, session: Session, lumps: list[Lump]) -> list[Lump]:
        """Return the lumps of one sibling, those of its least used leaf queue first."""
        known: dict[tuple[int, ...], float] = {}

        def use(lump: Lump) -> tuple[float, int]:
            key = (lump.leaf, *lump.amounts)
            used = known.get(key)
            if used is None:
                weight = session.queues.weight[:, lump.leaf]
                used = known[key] = max(
                    float(self.excess[row, lump.leaf]) / max(float(weight[row]), 1e-9)
                    for row in lump.amounts
                )
            return used, lump.leaf

        usable = [
            lump
            for lump in lumps
            if lump.is_running or not self._is_passed_over(session, self._name(session, lump))
        ]
        return sorted(usable, key=use)

    # -- what is remembered ----------------------------------------------------------------------

    def _is_passed_over(self, session: Session, name: str) -> bool:
        entry = self.before.get(name)
        return entry is not None and session.now_s - entry[0] >= self.spell_s

    @staticmethod
    def _still_waits(session: Session, lump: Lump) -> bool:
        """Tell whether this cycle has found no place for a lump."""
        return session.pending_count(lump.job) == int(session.jobs.pending[lump.job])

    @staticmethod
    def _name(session: Session, lump: Lump) -> str:
        return f"job/{session.jobs.name[lump.job]}"

    def facts(self, session: Session) -> Facts:
        """Return who has the way free and has not taken it, and since when."""
        now_s = session.now_s
        waits = {
            self._name(session, lump): 0.0
            for _, lump, _ in self.granted
            if self._still_waits(session, lump)
        }
        waits |= {
            f"queue/{session.queues.name[queue]}": float(session.held[:, queue].sum())
            for queue in self.deferred
        }
        facts = {
            name: entry
            for name, entry in self.before.items()
            if self.spell_s <= now_s - entry[0] < (1 + _PAUSE) * self.spell_s
        }
        for name, held in sorted(waits.items()):
            entry = self.before.get(name, [now_s, held])
            if name not in facts:
                facts[name] = entry if entry[1] == held else [now_s, held]
        return facts


def _weight_part(session: Session, resource: int, queue: int) -> float:
    """Return a queue's part by weight among all siblings of its priority, busy or not."""
    queues = session.queues
    tree, weights = queues.tree, queues.weight[resource]
    is_sibling = tree.parent_of_queue == tree.parent_of_queue[queue]
    is_sibling &= queues.priority == queues.priority[queue]
    together = np.maximum(weights[is_sibling], 0.0).cumsum()[-1]  # one by one, in row order
    return float(weights[queue] / together)


def handover_of(
    session: Session,
    lumps: list[Lump],
    quota: FloatVec,
    *,
    k: float,
    history_s: float,
    elapsed: float,
    before: Facts,
) -> Handover:
    """Return what is known when the first head start is asked for.

    Args:
        session: what runs, waits and was used.
        lumps: of this cycle.
        quota: ``(R, Q)`` parts per billion of the cluster.
        k: how strongly usage counts, above 0.
        history_s: the length of the history.
        elapsed: part of the budget period, NaN without budgets.
        before: what was remembered.

    """
    parts = np.zeros(quota.shape) if session.usage is None else session.usage.parts
    excess = np.maximum(parts - quota, 0.0) / PARTS
    spell_s = history_s / (SPELLS_OF_HISTORY * k)
    return Handover(lumps, excess, k, spell_s, elapsed, before)
