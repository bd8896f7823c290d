"""Handover of the surplus between indivisible jobs: builds the groups for the rules of slices.

Slices themselves are not remembered: starts of jobs are in the snapshot, and usage is in the
history. Only queues and jobs that could have taken the surplus, and did not, are remembered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kaisched import PARTS, Amounts, Claim, CodeVec, FloatVec, IntVec, RowVec, Session
from kaisched_plugins.time_based_fairshare import refusals
from kaisched_plugins.time_based_fairshare.indivisible import Indivisible
from kaisched_plugins.time_based_fairshare.time_slices import (
    Contest,
    Group,
    Need,
    Side,
    has_way_free,
    members,
    share_out,
)

SLICES_OF_HISTORY = 16
"""An average queue's shortest time slice at k = 1 is the length of the history divided by this."""
_OTHERS_SLICE = np.int16(refusals.OTHERS_SLICE)
_PAUSE = 10
"""Who did not take what was free is passed over for so many time slices."""

Facts = dict[str, list[float]]
"""Name of a queue or waiting job to since when its way is free, and what it held then."""


@dataclass(slots=True)
class Handover:
    """The time slices of indivisible jobs in one cycle."""

    indivisible_jobs: list[Indivisible]
    excess: FloatVec
    """``(R, Q)`` usage beyond the quota, as a part of the cluster."""
    k: float
    slice_s: float
    seen: float
    """The part of the budget period that usage covers; NaN where slices do not follow budgets."""
    left: float
    """The part of the budget period that is to come; NaN likewise."""
    before: Facts
    granted: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """Waiting indivisible jobs whose time slice it is, with the queue that was given something for
    it, and what."""
    saving: list[tuple[int, Indivisible, Need]] = field(default_factory=list)
    """The same of jobs whose time slice has come among their siblings, but not further up."""
    awaited: set[int] = field(default_factory=set)
    """Waiting jobs whose time slice is yet to come at some level."""
    young: set[int] = field(default_factory=set)
    """Running indivisible jobs whose shortest slice is not over, at some level."""
    ended: set[int] = field(default_factory=set)
    """Running indivisible jobs whose slice has ended, at some level."""
    deferred: set[int] = field(default_factory=set)
    behind: dict[int, set[int]] = field(default_factory=dict)
    """Resource to the queues that share it with a waiting indivisible job whose slice it is."""

    @property
    def keeps_room(self) -> bool:
        """Tell whether surplus is kept for a waiting indivisible job."""
        return bool(self.granted or self.saving)

    @property
    def has_waiting(self) -> bool:
        """Tell whether any indivisible job waits."""
        return any(not indivisible_job.is_running for indivisible_job in self.indivisible_jobs)

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
        """Return the head starts of the queues whose time slice it is."""
        tree = session.queues.tree
        parents = tree.parent_of_queue[queue].tolist()
        leaves = {indivisible_job.leaf for indivisible_job in self.indivisible_jobs}
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
        self.saving += group.saving
        self.awaited |= group.postponed
        for queue, _, given in group.granted + group.saving:
            for row in given:
                siblings = group.contests[row].sides.keys() - {queue}
                self.behind.setdefault(row, set()).update(siblings)

    def gate(
        self, session: Session, queue: RowVec, job: RowVec, ask: Amounts, held: Amounts
    ) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for jobs that want more than their queue has left.

        Otherwise free room would go to other jobs before the indivisible job has all it needs.
        Promised room is not taken back.
        """
        over = np.zeros(len(queue), np.bool_)
        for row, behind in self.behind.items():
            share = session.fair_share[row].take(queue)
            is_behind = np.isin(queue, np.array(sorted(behind), np.int64))
            over |= is_behind & (ask[row] > 0) & (held[row] + ask[row] > share)
        for at in np.flatnonzero(over).tolist():
            tasks = list(session.jobs.tasks[int(job[at])])
            over[at] = not (session.tasks.nominated_node[tasks] >= 0).any()
        return over * _OTHERS_SLICE if over.any() else None

    def claim(self, session: Session, job: RowVec, ask: Amounts) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for claims on the surplus of an indivisible job (R30).

        Otherwise its queue would take it from other queues bit by bit, only to give it back.
        """
        ends, leaf = session.queues.tree.end_of_queue, session.jobs.queue_of_job.take(job)
        held = session.held_now
        over = np.zeros(len(job), np.bool_)
        for queue, indivisible_job, given in self.granted + self.saving:
            if not self._still_waits(session, indivisible_job):
                continue
            is_other = (leaf >= queue) & (leaf < ends[queue])
            asks = [ask[row] >= amount for row, amount in indivisible_job.amounts.items()]
            is_other &= ~((leaf == indivisible_job.leaf) & np.logical_and.reduce(asks))
            for row, amount in given.items():
                most = session.fair_share[row, queue] - amount
                over |= is_other & (ask[row] > 0) & (held[row, queue] + ask[row] > most)
        return over * _OTHERS_SLICE if over.any() else None

    def spare(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return OTHERS_SLICE ``(K,)`` for indivisible jobs whose time slice is young (R27).

        Their queue may have to give up another job, which has run for longer: victims go youngest
        first. A claim within the queue's quota is not stopped.
        """
        young = self.young - self.ended
        if not young:
            return None
        after = session.held[:, claim.queue] + claim.ask
        if not ((claim.ask > 0) & (after > session.queues.deserved[:, claim.queue])).any():
            return None
        return np.isin(job, list(young)) * _OTHERS_SLICE

    def _group(self, session: Session, rows: list[tuple[Any, ...]]) -> Group | None:
        """Return the siblings of some rows with the indivisible jobs below them, or None.

        A row is a resource, a queue, and the queue's numbers: weight; what it has, wants and may
        share; usage; what it holds, without and with what it asks for.
        """
        ends = session.queues.tree.end_of_queue
        indivisible_jobs = [
            (queue, indivisible_job)
            for queue in sorted({row[1] for row in rows})
            for indivisible_job in self._by_use(
                session, members(self.indivisible_jobs, queue, int(ends[queue]))
            )
        ]
        if not indivisible_jobs:
            return None
        contests: dict[int, Contest] = {}
        total, held = session.total, session.held
        for resource, queue, weight, has, wants, surplus, used, held_now, asks in rows:
            contest = contests.setdefault(resource, Contest(surplus, 0.0))
            contest.sides[queue] = Side(
                weight, used / weight, has, wants, held_now, asks > held_now
            )
        for resource, contest in contests.items():
            part = contest.surplus / max(int(total[resource]), 1)
            contest.margin = part * len(contest.sides) / (2 * SLICES_OF_HISTORY * self.k)
            if not math.isnan(self.seen):
                self._set_owed(session, resource, contest, part)

        def holds(queue: int, resource: int) -> int:
            return int(held[resource, queue])

        def covers(queue: int, resource: int, amount: int) -> bool:
            quota = int(session.queues.deserved[resource, queue])
            return int(held[resource, queue]) + amount <= quota

        def is_passed_over(queue: int) -> bool:
            return self._is_passed_over(session, f"queue/{session.queues.name[queue]}")

        return Group(
            contests,
            indivisible_jobs,
            session.now_s,
            self.slice_s,
            not math.isnan(self.seen),
            holds,
            covers,
            is_passed_over,
            frozenset(self.awaited),
        )

    def _set_owed(self, session: Session, resource: int, contest: Contest, part: float) -> None:
        """Set what is left of each budget, cut to what the hours to come allow (R31)."""
        budgets = {queue: _weight_part(session, resource, queue) * part for queue in contest.sides}
        unused = {
            queue: budget - float(self.excess[resource, queue]) * self.seen
            for queue, budget in budgets.items()
        }
        cut = cut_of([(budgets[queue], unused[queue]) for queue in budgets], self.left * part)
        for queue, side in contest.sides.items():
            side.owed = unused[queue] - cut * budgets[queue]

    def _by_use(self, session: Session, indivisible_jobs: list[Indivisible]) -> list[Indivisible]:
        """Return the indivisible jobs of one sibling; its leaf queue with the least usage first."""
        known: dict[tuple[int, ...], float] = {}

        def use(indivisible_job: Indivisible) -> tuple[float, int]:
            key = (indivisible_job.leaf, *indivisible_job.amounts)
            used = known.get(key)
            if used is None:
                weight = session.queues.weight[:, indivisible_job.leaf]
                used = known[key] = max(
                    float(self.excess[row, indivisible_job.leaf]) / max(float(weight[row]), 1e-9)
                    for row in indivisible_job.amounts
                )
            return used, indivisible_job.leaf

        usable = [
            indivisible_job
            for indivisible_job in indivisible_jobs
            if indivisible_job.is_running
            or not self._is_passed_over(session, self._name(session, indivisible_job))
        ]
        return sorted(usable, key=use)

    # -- what is remembered ----------------------------------------------------------------------

    def _is_passed_over(self, session: Session, name: str) -> bool:
        entry = self.before.get(name)
        return entry is not None and session.now_s - entry[0] >= self.slice_s

    @staticmethod
    def _still_waits(session: Session, indivisible_job: Indivisible) -> bool:
        """Tell whether an indivisible job has no place after this cycle."""
        return session.pending_count(indivisible_job.job) == int(
            session.jobs.pending[indivisible_job.job]
        )

    @staticmethod
    def _name(session: Session, it: Indivisible) -> str:
        return f"job/{session.jobs.name[it.job]}"

    def facts(self, session: Session) -> Facts:
        """Return the queues and jobs that may take free surplus and have not, and since when."""
        now_s = session.now_s
        waits = {
            self._name(session, indivisible_job): 0.0
            for _, indivisible_job, _ in self.granted
            if self._still_waits(session, indivisible_job)
        }
        waits |= {
            f"queue/{session.queues.name[queue]}": float(session.held[:, queue].sum())
            for queue in self.deferred
        }
        facts = {
            name: entry
            for name, entry in self.before.items()
            if self.slice_s <= now_s - entry[0] < (1 + _PAUSE) * self.slice_s
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


def cut_of(budgets: list[tuple[float, float]], left: float) -> float:
    """Return the part that every budget loses, so that what is unused of them fits into ``left``.

    ``budgets`` are pairs of a budget and its unused part. A budget of which a smaller part is
    unused loses just that.
    """
    by_part = sorted(((unused / whole, whole, unused) for whole, unused in budgets if whole > 0))
    cut = together = wanted = 0.0
    for part, whole, unused in reversed(by_part):
        if part <= cut:
            break
        together, wanted = together + whole, wanted + unused
        cut = max((wanted - left) / together, 0.0)
    return cut


def handover_of(
    session: Session,
    indivisible_jobs: list[Indivisible],
    quota: FloatVec,
    *,
    k: float,
    history_s: float,
    seen: float,
    left: float,
    before: Facts,
) -> Handover:
    """Return the handover of a cycle, at the first question about head starts.

    Args:
        session: running and waiting jobs, and usage.
        indivisible_jobs: the indivisible jobs of this cycle.
        quota: ``(R, Q)`` parts per billion of the cluster.
        k: how strongly usage counts, above 0.
        history_s: the length of the history.
        seen: the part of the budget period that usage covers, NaN without budgets.
        left: the part of the budget period that is to come, NaN likewise.
        before: what was remembered.

    """
    parts = np.zeros(quota.shape) if session.usage is None else session.usage.parts
    excess = np.maximum(parts - quota, 0.0) / PARTS
    slice_s = history_s / (SLICES_OF_HISTORY * k)
    return Handover(indivisible_jobs, excess, k, slice_s, seen, left, before)
