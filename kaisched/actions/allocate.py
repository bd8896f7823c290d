"""Allocate: give idle capacity to pending jobs, in fair order.

A job that does not fit does not block other jobs. Runs of jobs with equal pods are placed as one
batch; the result is the same as placing them one after the other. Fair share is not a gate here: it
decides the order, and limits and quotas decide what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.order.candidates import (
    Candidates,
    alike,
    drop_gated,
    drop_roomless,
    gather,
    measure_again,
    note_no_room,
    pending_jobs,
    sets_of,
)
from kaisched.actions.order.gates import are_covered, first_shut
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.predicted import Pick, PredictedOrder
from kaisched.actions.order.stepwise import StepwiseOrder, are_few
from kaisched.actions.order.tries import try_limit
from kaisched.actions.reclaim import NAME, TakingBack
from kaisched.actions.room.placing import (
    is_spread,
    is_tight,
    place_mixed,
    place_within,
)
from kaisched.actions.room.promises import hold_broken, keep_promises
from kaisched.core.refusals import Refusal
from kaisched.framework.session.batches import other_batches
from kaisched.framework.session.claim_payers import shape_changes
from kaisched.framework.session.node_sets import NodeSets, node_sets, shapes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement

    Place = Callable[[Statement, RowVec], bool]


# Owed claims: pending batches within quota that do not fit, and that reclaim has yet to try.
#
# Where there are some, allocate places nothing beyond quota before reclaim has tried them.
# Otherwise what becomes free would go to jobs beyond their quota in each cycle. No cycle evicts
# what it has started, so a batch that needs a whole node might never get one.

_OWED: Final = "owed"


def owed_claims(session: Session) -> OwedClaims:
    """Return the claims of this cycle."""
    owed: OwedClaims | None = session.found.get(_OWED)
    if owed is None:
        owed = session.found[_OWED] = OwedClaims(session)
    return owed


class OwedClaims:
    """Tells allocate when to stop, and lets reclaim try the claims then."""

    def __init__(self, session: Session) -> None:
        """Note nothing yet."""
        self._session = session
        self._is_on = any(action.name == NAME for action in session.policy.actions)
        self._tried: BoolVec = np.zeros(len(session.jobs.name), np.bool_)
        self._spared: BoolVec = self._tried
        self.wait = False
        """Whether any such claim waits."""

    def begin(self, candidates: Candidates) -> None:
        """Look for claims among the jobs that are no candidates: those fit nowhere."""
        if self._is_on and len(candidates) < len(pending_jobs(self._session)):
            self.spare(candidates, np.ones(len(candidates), np.bool_))
            self.wait = TakingBack(self._session, self._spared).has_claims()

    def note(self, candidates: Candidates, at: RowVec) -> None:
        """Note candidates that did not fit."""
        if self._is_on and not self.wait:
            is_new = ~self._tried[candidates.job[at]]
            self.wait = bool((is_new & are_covered(self._session, candidates, at)).any())

    def go_before(self, candidates: Candidates, at: int) -> bool:
        """Tell whether such claims wait, and come before a candidate: quotas do not cover it."""
        return self.wait and not are_covered(self._session, candidates, np.array([at]))[0]

    def spare(self, candidates: Candidates, waits: BoolVec) -> None:
        """Leave out the candidates that may still fit."""
        self._spared = self._tried.copy()
        self._spared[candidates.job[waits]] = True

    def take_back(self) -> None:
        """Let reclaim try the claims."""
        session = self._session
        action, session.action = session.action, NAME
        TakingBack(session, self._spared).run()
        session.action, self.wait = action, False
        self._tried |= ~self._spared


_LONGEST_RUN: Final = 512
_WAITING = int(Refusal.WAITING_FOR_RELEASE)


@dataclass(frozen=True, slots=True)
class Allocate:
    """The allocate action."""

    name: str = "allocate"

    def run(self, session: Session) -> None:
        """Place the pending jobs that fit."""
        if not session.jobs_waiting:
            return
        held = hold_broken(session, keep_promises(session))
        self._allocate(session, [*held])
        for statement in held.values():
            statement.rollback()
        if held:
            if session.claim_payers is not None:
                session.claim_payers.settle(session.ledger)
            session.hints.clear()  # some hints count the held room as taken: true only here
            self._place(session, self._gather(session, np.array(sorted(held), np.int64)))

    def _allocate(self, session: Session, held: list[int]) -> None:
        if session.policy.queue_depth.get(self.name) is None and session.placement.is_full:
            return  # records ask the other questions, see framework/report/reasons.py
        self._place(session, self._waiting(session, held), held)
        limit = try_limit(session)
        if limit is None or session.policy.queue_depth.get(self.name) is not None:
            return
        while (job := limit.more(session)).size:
            self._place(session, _without(self._gather(session, job), held), held)

    def _waiting(self, session: Session, held: Sequence[int]) -> Candidates:
        return _without(self._gather(session, pending_jobs(session)), held)

    def _place(self, session: Session, candidates: Candidates, held: Sequence[int] = ()) -> None:
        owed = owed_claims(session)
        while len(candidates) and not _Allocation(session, candidates, self.name, owed).run():
            candidates = self._waiting(session, held)

    def _gather(self, session: Session, job: RowVec) -> Candidates:
        candidates = gather(session, self.name, job)
        depth = session.policy.queue_depth.get(self.name)
        if depth is not None:
            candidates = keep_best(session, candidates, depth)
        candidates = drop_roomless(session, candidates)
        return drop_gated(session, self.name, candidates)


def _without(candidates: Candidates, held: Sequence[int]) -> Candidates:
    """Leave out the jobs for which nominated capacity is reserved."""
    return candidates.keep(~np.isin(candidates.job, held)) if held else candidates


class _Allocation:
    """One run of the action over its candidates."""

    def __init__(
        self, session: Session, candidates: Candidates, action: str, owed: OwedClaims
    ) -> None:
        self._session = session
        self._owed = owed
        owed.begin(candidates)
        self._action = action
        self._candidates = candidates
        ask = session.ask
        few = (
            len(candidates) == 1
            or are_few(candidates.most, candidates.count_queues())
            or not ask.rests_on_sums(session)
            or session.shapes.by_card is not None  # what a job will count is not known before
        )
        self._fair_order: PredictedOrder | StepwiseOrder = (
            StepwiseOrder if few else PredictedOrder
        )(session, action, candidates)
        self._has_sets = ask.has_node_sets(session)
        """Whether any plugin may bind jobs to sets of nodes in this cycle."""
        self._promised = self._with_a_promise()
        """Candidates with a nomination: their other pods must not start before the gang."""
        self._has_shares = session.capacity.cards is not None and not session.is_careful

    def _with_a_promise(self) -> set[int]:
        """Return the candidates with nominations, made or kept earlier in the cycle."""
        promised = self._session.outcome.nominations
        if not promised:
            return set()
        tasks = np.array([task for task, _ in promised])
        jobs = self._session.tasks.job_of_task[tasks]
        return set(np.isin(self._candidates.job, jobs).nonzero()[0].tolist())

    @property
    def _longest(self) -> int:
        """The most candidates that are placed together."""
        return 1 if self._session.is_careful or self._owed.wait else _LONGEST_RUN

    def _is_alone(self, shape: int) -> bool:
        """Tell whether pods of a shape are placed one by one: the next may count less."""
        payers = self._session.claim_payers
        return payers is not None and payers.counts(shape)

    def run(self) -> bool:
        """Place what fits; return False where the candidates are to be gathered again.

        So they are after owed claims, which come first, and once claims count with other pods.
        """
        fair_order, counted = self._fair_order, shape_changes(self._session)
        while (item := fair_order.peek()) is not None:
            if not item.code and self._owed.go_before(self._candidates, item.at):
                self._owed.spare(self._candidates, fair_order.waiting())
                self._owed.take_back()
                return False
            job, shape = int(self._candidates.job[item.at]), int(self._candidates.shape[item.at])
            self._session.trying = (job,)
            if item.code:
                self._session.outcome.refusal[job] = item.code
                fair_order.refused(item)
            elif self._has_sets and (sets := self._sets_of(item)) is not None:
                self._take_within(item, sets)
            elif shape >= 0 and not self._is_tight(item) and not is_spread(self._session, shape):
                if not (self._has_shares and self._take_shares(item)):
                    self._take_run(item, shape)
            else:
                self._take_mixed(item)
            if shape_changes(self._session) != counted:
                return False
        return True

    def _is_tight(self, item: Pick) -> bool:
        """Tell whether a queue on the job's path accepts its pods only on GPUs of some sizes."""
        session = self._session
        return session.shapes.by_card is not None and is_tight(
            session, self._candidates.tasks(session, [item.at])
        )

    def _sets_of(self, item: Pick) -> NodeSets | None:
        return sets_of(self._session, self._action, self._candidates, item.at)

    def _is_bound(self, item: Pick) -> bool:
        """Tell whether a job's pods may go to some sets of nodes only."""
        return self._has_sets and self._sets_of(item) is not None

    def _take_within(self, item: Pick, sets: NodeSets) -> None:
        """Place the next batch of a job on the first set of nodes on which it fits."""
        session, at = self._session, item.at
        has_promises = at in self._promised

        def place(statement: Statement, tasks: RowVec) -> bool:
            some = sets if tasks is first else self._sets_of_batch(at, tasks)
            return place_within(session, statement, tasks, some, has_promises=has_promises)

        first = self._candidates.batch(session, at)
        if self._take_batch(item, first, place):
            return
        waits = self._fair_order.waiting().copy()
        self._refuse(item)
        waits[at] = False
        others = alike(session, self._action, self._candidates, at, waits)
        if others.size:
            self._note_no_room(others)
            self._fair_order.drop(others)

    def _sets_of_batch(self, at: int, tasks: RowVec) -> NodeSets:
        """Return the sets of nodes of some pods of a job that has some."""
        session, job = self._session, int(self._candidates.job[at])
        ask = session.shapes.charge[:, session.tasks.shape_of_task[tasks]].sum(axis=1)
        sets = node_sets(session, self._action, job, ask, shapes_of(session, tasks))
        return NodeSets() if sets is None else sets

    def _take_run(self, first: Pick, shape: int) -> None:
        """Place the next candidates together, as long as their pods are equal and fit."""
        session, fair_order = self._session, self._fair_order
        placement = session.placement
        free = placement.free_capacity(shape)
        run: list[Pick] = []
        need = 0
        item: Pick | None = first
        candidates = self._candidates
        while item is not None and not item.code:
            size = int(candidates.size[item.at])
            if need + size > free.total or item.at in self._promised:
                break
            run.append(item)
            need += size
            if need == free.total or len(run) == self._longest or self._is_alone(shape):
                break
            last, item = item, fair_order.peek(len(run))
            if item is None or candidates.shape[item.at] != shape:
                break
            if self._comes_back(last) or self._is_bound(item):
                break
        if not run:
            self._wait_or_refuse(first, shape)
            return
        if len(run) > 1:
            session.trying = tuple(candidates.job[[item.at for item in run]].tolist())
        nodes = placement.choose(free, need)
        assert nodes is not None
        statement = session.statement()
        statement.place(candidates.tasks(session, [item.at for item in run]), nodes, shape)
        statement.commit(self._action)
        for item in run:
            fair_order.placed(item)
        self._go_on(run[-1])

    def _take_shares(self, first: Pick) -> bool:
        """Place the next candidates of one pod with a share each, in one statement.

        Their shapes may differ: each gets the node that it would get by itself. Return False if
        not even the first can be placed in this way.
        """
        run: list[Pick] = []
        statement = self._session.statement()
        statement.place_each(self._shares(first, run))
        statement.commit(self._action)
        for item in run:
            self._fair_order.placed(item)
        if run:
            self._go_on(run[-1])
        return bool(run)

    def _shares(self, first: Pick, run: list[Pick]) -> Iterator[tuple[int, int, int]]:
        """Yield (task, node, shape) of candidates as :meth:`_take_shares` places them.

        They are added to ``run``.
        """
        session, fair_order, candidates = self._session, self._fair_order, self._candidates
        next_share, pending = session.placement.next_share, session.ledger.job_pending
        item: Pick | None = first
        while item is not None and not item.code and len(run) < self._longest:
            at = item.at
            shape = int(candidates.shape[at])
            if shape < 0 or candidates.size[at] != 1 or at in self._promised:
                return
            if self._is_alone(shape):
                return
            if run and self._is_bound(item):
                return
            following = fair_order.peek(len(run) + 1)
            if following is not None and candidates.shape[following.at] == shape:
                return  # equal pods are placed together
            if (node := next_share(shape)) is None:
                return
            job = int(candidates.job[at])
            session.trying = (job,)
            run.append(item)
            yield int(candidates.tasks(session, [at])[0]), node, shape
            if pending[job] > 1:  # its other pods come next: it is counted once the run ends
                return
            item = following

    def _take_mixed(self, item: Pick) -> None:
        """Place the next batch of a job whose pods differ, or may go to some GPUs only."""
        batch = self._candidates.batch(self._session, item.at)
        if not self._take_batch(item, batch, partial(place_mixed, self._session)):
            self._refuse(item)

    def _take_batch(self, item: Pick, tasks: RowVec, place: Place) -> bool:
        """Place a batch, or that of other subgroups of the job if it finds no room."""
        session, at = self._session, item.at
        job = int(self._candidates.job[at])
        if self._commit(item, tasks, place):
            self._fair_order.placed(item)
            self._go_on(item)
            return True

        def fits(some: RowVec) -> bool:
            statement = session.statement()
            is_placed = place(statement, some)
            statement.rollback()
            return is_placed

        for other in other_batches(session, job, tasks, fits):
            ask = session.least_charge[:, session.tasks.shape_of_task[other]].sum(axis=1)
            if first_shut(session, self._action, job, ask):
                continue
            if self._commit(item, other, place):
                self._fair_order.refused(item)  # what was predicted of it was not placed
                self._go_on(item)
                return True
        return False

    def _commit(self, item: Pick, tasks: RowVec, place: Place) -> bool:
        """Place pods of a candidate if all of them fit, else none."""
        statement = self._session.statement()
        if not place(statement, tasks):
            statement.rollback()
            return False
        self._keep(item, statement.has_pipelined)
        statement.commit(self._action)
        return True

    def _wait_or_refuse(self, item: Pick, shape: int) -> None:
        """Place a job in another way, or refuse it and all that ask for no less.

        It is nominated for releasing capacity, or gets other GPUs than the first that have room.
        """
        session = self._session
        tasks = self._candidates.tasks(session, [item.at])
        if self._commit(item, tasks, partial(place_mixed, session)):
            self._fair_order.placed(item)
            self._go_on(item)
            return
        size = int(self._candidates.size[item.at])
        self._refuse(item)
        self._drop_no_smaller(shape, size)

    def _drop_no_smaller(self, shape: int, size: int) -> None:
        candidates = self._candidates
        waits = self._fair_order.waiting()
        if not np.count_nonzero(waits):
            return
        too_large = (waits & (candidates.shape == shape) & (candidates.size >= size)).nonzero()[0]
        if too_large.size:
            self._note_no_room(too_large)
            self._fair_order.drop(too_large)

    def _refuse(self, item: Pick) -> None:
        self._note_no_room(np.array([item.at]))
        self._fair_order.refused(item)

    def _note_no_room(self, at: RowVec) -> None:
        note_no_room(self._session, self._candidates.job[at])
        self._owed.note(self._candidates, at)

    def _keep(self, item: Pick, is_waiting: bool) -> None:
        if is_waiting:
            self._promised.add(item.at)
            self._session.outcome.refusal[int(self._candidates.job[item.at])] = _WAITING

    def _comes_back(self, item: Pick) -> bool:
        job = int(self._candidates.job[item.at])
        size = int(self._candidates.size[item.at])
        return bool(self._session.ledger.job_pending[job] > size)

    def _go_on(self, item: Pick) -> None:
        """Put a job with more pods to place back into the order."""
        job = int(self._candidates.job[item.at])
        if self._session.ledger.job_pending[job] == 0:
            return
        if measure_again(self._session, self._candidates, item.at):
            self._fair_order.again(item)
