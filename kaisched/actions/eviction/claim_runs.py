"""Carries out runs of equal claims together, with the same result as one by one.

A claim of one pod that takes the place of the next victim of its class changes nothing for the
claims behind it but sums: the victims go in list order, and what queues hold grows or shrinks by
the same amounts each time. So the claims of a run are judged in one question each, and moved
together. Any other claim ends the run, and is searched for by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.eviction.loops import is_loop, note_eviction
from kaisched.actions.eviction.plan import Plan
from kaisched.actions.eviction.reasons import eviction_reason
from kaisched.actions.order.gates import open_count
from kaisched.actions.room.promised_runs import nth_on_node, until_first
from kaisched.core.axis import ACTIVE_STATES, GPU, HOLDING_STATES
from kaisched.core.refusals import Refusal
from kaisched.framework.session.capacity import divisors, pods_in
from kaisched.framework.session.claims import Claim
from kaisched.framework.session.eviction_budget import may_evict
from kaisched.framework.session.task_order import pending_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.actions.eviction.search import Search
    from kaisched.actions.eviction.victim_list import VictimList
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.framework.session.claims import Unit
    from kaisched.framework.session.outcome import Reason
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

_WAITING = int(Refusal.WAITING_FOR_RELEASE)
_FIRST: Final = 16
"""How many claims the first run has at most."""
_GROWTH: Final = 4
"""The factor by which a run may be longer than a run that went through, or else is shorter."""
_LEAST: Final = 4
"""Fewer claims than this cost less one by one."""
_PAUSE: Final = 16
"""So many claims are carried out one by one after a run in which no claim could be met."""
_NONE: Final = np.empty(0, np.int64)


class ClaimRuns:
    """Runs of equal claims of one action in one cycle."""

    def __init__(
        self, session: Session, action: str, candidates: Candidates, search: Search
    ) -> None:
        """Ask nothing yet: most cycles have few claims."""
        self._session = session
        self._action = action
        self._candidates = candidates
        self._search = search
        self._most = _FIRST
        self._pause = 0
        self._is_open: bool | None = None

    def carry_out(
        self,
        ahead: Callable[[int], RowVec],
        victim_list: Callable[[int], VictimList | int | None],
    ) -> RowVec:
        """Carry out the claims that come next, as far as they are a run; return their candidates.

        Args:
            ahead: returns the candidates that come next whatever is placed, at most so many.
            victim_list: returns the list of victims of a candidate's class, if it is known.

        """
        if self._pause:
            self._pause -= 1
            return _NONE
        if self._is_open is None:
            self._is_open = self._may_run()
        if not self._is_open:
            return _NONE
        rows = self._equal(ahead(self._most))
        if len(rows) < _LEAST:
            return _NONE
        listed = victim_list(int(rows[0]))
        if listed is None or isinstance(listed, int):
            return _NONE
        listed.forget_gone()
        run = _Run(self._session, self._action, self._search, listed)
        done = rows[: run.carry_out(self._candidates, rows)]
        if len(done) == self._most:
            self._most *= _GROWTH
        elif not len(done):
            if self._most == _FIRST:
                self._pause = _PAUSE
            self._most = max(self._most // _GROWTH, _FIRST)
        return done

    def _may_run(self) -> bool:
        """Tell whether the policy, the plugins and the cluster allow runs in this cycle."""
        session = self._session
        return (
            not session.is_careful
            and not session.ask.orders_victims
            and session.capacity.cards is None
            and session.ask.rests_on_sums(session)
            and session.ask.judges_in_runs(session, self._action)
            and session.ask.node_sets(session) is None
        )

    def _equal(self, rows: RowVec) -> RowVec:
        """Return the first candidates that ask for one pod each, for jobs that are alike."""
        session, candidates = self._session, self._candidates
        jobs, ledger = session.jobs, session.ledger
        if len(rows) < _LEAST or candidates.shape[rows[0]] < 0:
            return _NONE
        job = candidates.job[rows]
        is_other = candidates.shape[rows] != candidates.shape[rows[0]]
        is_other |= candidates.size[rows] != 1
        is_other |= jobs.priority[job] != jobs.priority[job[0]]
        is_other |= (jobs.pending[job] != 1) | (ledger.job_pending[job] != 1)
        is_other |= (jobs.active[job] != 0) | (ledger.job_active[job] != 0)
        is_other |= jobs.podset_count[job] != 1
        same: RowVec = rows[: until_first(is_other)]
        return same


@dataclass(frozen=True, slots=True)
class _Swaps:
    """Claims and the units whose places they take, one each, in order."""

    job: RowVec
    task: RowVec
    """The pod of each claim."""
    units: list[Unit]
    victim: RowVec
    """The pod of each unit."""
    node: RowVec
    """The node that each pair shares."""
    queue: RowVec
    """The leaf queue of each unit."""
    amounts: Amounts
    """``(R, K)`` what each unit's queues lose."""

    def __len__(self) -> int:
        return len(self.units)

    def first(self, count: int) -> _Swaps:
        """Return the first pairs."""
        if count >= len(self):
            return self
        columns = (self.victim, self.node, self.queue)
        job, task, units = self.job[:count], self.task[:count], self.units[:count]
        victim, node, queue = (column[:count] for column in columns)
        return _Swaps(job, task, units, victim, node, queue, self.amounts[:, :count])


class _Run:
    """The next run: every claim has the same queue and shape."""

    def __init__(
        self, session: Session, action: str, search: Search, victim_list: VictimList
    ) -> None:
        self._session = session
        self._action = action
        self._search = search
        self._victim_list = victim_list

    def carry_out(self, candidates: Candidates, rows: RowVec) -> int:
        """Commit the first claims of the run; return how many."""
        session = self._session
        self._queue, self._shape = int(candidates.queue[rows[0]]), int(candidates.shape[rows[0]])
        self._ask: IntVec = candidates.asks(session, rows[:1])[:, 0]
        future = self._search.future(self._shape)
        if future.total or not future.is_plain or session.shapes.by_card is not None:
            return 0
        swaps = self._swaps(candidates.job[rows])
        # The cheapest question first; each gets only the claims that are left.
        for count in (self._that_fit, self._without_loops, self._allowed, self._open, self._judged):
            if len(swaps) < _LEAST:
                return 0
            swaps = swaps.first(count(swaps))
        if len(swaps) < _LEAST or not may_evict(session, len(swaps)):
            return 0
        return len(swaps) if self._commit(swaps) else 0

    def _swaps(self, job: RowVec) -> _Swaps:
        """Pair the claims with the next units, up to the first that would not do by itself.

        A unit of several pods, or of more GPUs than another one, is compared with other plans.
        """
        session, victim_list = self._session, self._victim_list
        victims, ledger = victim_list.victims, session.ledger
        if victims.split_off or victim_list.charges is not None:
            job = job[:0]
        places = victim_list.places[: len(job)]
        does = victim_list.sizes[places] == 1
        does &= victims.amounts[GPU].take(places) <= victim_list.least_gpus
        places = places[: until_first(~does)]
        units = [victims.unit(place) for place in places.tolist()]
        victim = np.array([unit.tasks[0] for unit in units], np.int64)
        state = ledger.state[victim]
        runs = ACTIVE_STATES[state] & HOLDING_STATES[state] & (ledger.node_of_task[victim] >= 0)
        count = until_first(~runs)
        job, places, victim = job[:count], places[:count], victim[:count]
        task = np.array([pending_tasks(session, row)[0] for row in job.tolist()], np.int64)
        return _Swaps(
            job,
            task,
            units[:count],
            victim,
            ledger.node_of_task[victim],
            victims.queue[places],
            victims.amounts.take(places, axis=1),
        )

    # -- how many of the first claims are met -----------------------------------------------------

    def _that_fit(self, swaps: _Swaps) -> int:
        """Count those for which each unit leaves room for just its claim, and has no other place.

        Nothing fits anywhere before. So nothing fits after a claim has its place, if there was
        room for one pod only.
        """
        session, capacity, node = self._session, self._session.capacity, swaps.node
        request = session.shapes.request
        shapes = session.tasks.shape_of_task[swaps.victim]
        free = capacity.free().take(node, axis=1) + _so_far(request.take(shapes, axis=1), node)
        free -= request[:, [self._shape]] * nth_on_node(node)
        fits = pods_in(free, *divisors(request[:, [self._shape]])) == 1
        allowed = self._search.future(self._shape).allowed
        if allowed is not None:
            fits &= allowed[node]
        if session.policy.allows_consolidating_reclaim:
            free -= request[:, [self._shape]]
            for shape in set(shapes.tolist()) - {self._shape}:
                if self._search.future(shape).total:
                    return 0
                fits &= pods_in(free, *divisors(request[:, [shape]])) == 0
        return until_first(~fits)

    def _without_loops(self, swaps: _Swaps) -> int:
        loops = [is_loop(self._session, job, self._ask) for job in swaps.job.tolist()]
        return loops.index(True) if True in loops else len(loops)

    def _allowed(self, swaps: _Swaps) -> int:
        """Count those that the claim gate allows: the n-th as if it asked for the sum of n."""
        asks = self._ask[:, None] * np.arange(1, len(swaps) + 1)
        codes = self._session.ask.claim_gate(self._session, self._action, swaps.job, asks)
        return len(swaps) if codes is None else until_first(codes != 0)

    def _open(self, swaps: _Swaps) -> int:
        """Count those that the queue gates accept with the units gone."""
        gone = swaps.queue, swaps.amounts
        return open_count(self._session, self._action, self._queue, swaps.job, self._ask, gone)

    def _judged(self, swaps: _Swaps) -> int:
        """Count those whose units may go for a claim of the sum."""
        claim = Claim(self._action, int(swaps.job[0]), self._queue, self._ask * len(swaps))
        places = self._victim_list.places[: len(swaps)]
        return until_first(self._victim_list.judged(claim, places) != 0)

    # -- moves ------------------------------------------------------------------------------------

    def _commit(self, swaps: _Swaps) -> bool:
        """Evict all units and promise all places; tell whether that left the filters as they were.

        Else where a pod of the run may go depends on the others.
        """
        session, victim_list = self._session, self._victim_list
        before, news = session.ledger.held.copy(), session.placement.news
        session.trying = tuple(swaps.job.tolist())
        statement = session.statement()
        statement.evict_all(swaps.victim)
        statement.promise(swaps.task, swaps.node, self._shape)
        if session.placement.news != news:
            statement.rollback()
            return False
        reasons = self._reasons(swaps, before, statement)
        for job in swaps.job.tolist():
            note_eviction(session, job)
        statement.commit_each(self._action, swaps.job.tolist(), reasons)
        session.outcome.refusal[swaps.job] = _WAITING
        victim_list.forget_first(len(swaps))
        return True

    def _reasons(self, swaps: _Swaps, held: Amounts, statement: Statement) -> list[Reason]:
        """Return the reason of each eviction, asked while ``held`` is what queues hold then."""
        session, tree = self._session, self._session.queues.tree
        own, reasons = tree.path(self._queue), []
        now, session.ledger.held = session.ledger.held, held
        try:
            for at, (job, queue) in enumerate(
                zip(swaps.job.tolist(), swaps.queue.tolist(), strict=True)
            ):
                held[:, tree.path(queue)] -= swaps.amounts[:, at : at + 1]
                held[:, own] += self._ask[:, None]
                claim = Claim(self._action, job, self._queue, self._ask)
                plan = Plan(statement, [swaps.units[at]])
                reasons.append(eviction_reason(session, claim, plan))
        finally:
            session.ledger.held = now
        return reasons


def _so_far(amounts: Amounts, node: RowVec) -> Amounts:
    """``(R, K)`` the sum of an entry and those before it that have the same node."""
    order = np.argsort(node, kind="stable")
    ordered = node[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = amounts.take(order, axis=1).cumsum(axis=1)
    base = sums.take(begins, axis=1) - amounts.take(order[begins], axis=1)
    sums -= base.repeat(np.diff(begins, append=len(node)), axis=1)
    found = np.empty_like(sums)
    found[:, order] = sums
    return found
