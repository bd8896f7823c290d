"""The decisions of a cycle so far: committed moves, refusals of jobs, binds that have to wait.

The intents are made from it once all is decided.

While actions run, pods that are being released count as gone, so that shares look ahead. For a bind
they do not: until a pod is gone from the API, its queues have it allocated. So at the end of the
cycle the gates are asked once more, with all such pods counted as allocated, victims of this cycle
included. What they refuse then is nominated, and bound in the cycle in which they accept it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.framework.report.records import EvictionReason, Step
from kaisched.framework.session.ledger import add_along, held_in
from kaisched.framework.session.limits import beyond_budgets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, RowVec
    from kaisched.framework.session.session import Session

    Reason: TypeAlias = str | Callable[..., EvictionReason]
    """A sentence, or a function that makes the reason from the session once it is read."""

_P = TypeVar("_P", Bind, Nominate)
PUT_OFF = int(Refusal.PUT_OFF)
_NONE = np.empty(0, np.int64)
BIND: Final = "bind"
"""What gates are asked about in place of an action: whether pods may be bound at once."""
_WAITING: Final = int(Refusal.WAITING_FOR_RELEASE)
PROMISES: Final = "promises"
"""The fact, by job: the time since when its promises are void."""


class Eviction(NamedTuple):
    """A committed eviction."""

    task: int
    node: int
    action: str
    beneficiary: int
    """Row of the job that it is for; -1 for none."""
    reason: Reason


class Outcome:
    """Collects moves and refusals while the actions run."""

    __slots__ = (
        "_bind_ends",
        "_bind_nodes",
        "_bind_tasks",
        "_bound",
        "_committed",
        "awaits",
        "claims",
        "evictions",
        "has_put_off",
        "held",
        "nominations",
        "refusal",
        "steps",
        "void",
    )

    def __init__(self, jobs: int) -> None:
        """Start with nothing decided for ``jobs`` jobs."""
        self._bind_tasks: list[RowVec] = []
        self._bind_nodes: list[RowVec] = []
        self._bind_ends: list[int] = []
        """How many pods were bound after each commit."""
        self._bound = 0
        self._committed = (0, 0, 0, 0)
        self.nominations: list[tuple[int, int]] = []
        self.evictions: list[Eviction] = []
        self.steps: list[Step] = []
        self.refusal: CodeVec = np.zeros(jobs, np.int16)
        """``(J,)`` the last refusal of each job, 0 for none."""
        self.has_put_off = False
        """Whether any job was put off; in nearly all cycles none is."""
        self.held: tuple[int, ...] = ()
        """Jobs for which allocate reserved capacity while it tried others; nearly always none."""
        self.void: dict[int, float] = {}
        """Jobs whose earlier promises cannot be kept, and since when; nearly always none."""
        self.awaits: dict[int, int] = {}
        """Jobs whose binds wait for pods to leave: the lowest queue that refuses until then."""
        self.claims: dict[str, CodeVec] = {}
        """Evicting action to ``(J,)`` why it evicted nothing for a job, 0 for untried."""

    def bind(self, tasks: RowVec, nodes: RowVec) -> None:
        """Record allocations."""
        self._bind_tasks.append(tasks)
        self._bind_nodes.append(nodes)
        self._bound += len(tasks)

    def put_off(self, job: BoolVec) -> None:
        """Note that jobs ``(J,)`` are put off; earlier refusals stay."""
        self.has_put_off = True
        self.refusal[job & (self.refusal == 0)] = PUT_OFF

    def note_claims(self, action: str, job: RowVec, codes: CodeVec) -> None:
        """Note why an action evicted nothing for jobs."""
        known = self.claims.get(action)
        if known is None:
            known = self.claims[action] = np.zeros_like(self.refusal)
        known[job] = codes

    def nominate(self, task: int, node: int) -> None:
        """Record a nomination."""
        self.nominations.append((task, node))

    def evict(
        self,
        task: int,
        node: int,
        action: str,
        beneficiary: int,
        reason: Reason,
    ) -> None:
        """Record an eviction."""
        self.evictions.append(Eviction(task, node, action, beneficiary, reason))

    def counts(self) -> tuple[int, int, int]:
        """Return how many pods were bound, promised a node and evicted so far."""
        return self._bound, len(self.nominations), len(self.evictions)

    def end_step(self, action: str, beneficiary: str, start: tuple[int, int, int]) -> None:
        """Record the moves since ``start`` as one step."""
        binds, nominations, evictions = zip(start, self.counts(), strict=True)
        self.steps.append(Step(action, beneficiary, binds, nominations, evictions))

    def commit(self) -> None:
        """Mark the moves recorded so far as complete."""
        self._bind_ends.append(self._bound)
        self._committed = (
            len(self._bind_tasks),
            len(self.nominations),
            len(self.evictions),
            len(self.steps),
        )

    def take_back(self) -> None:
        """Drop the moves since the last :meth:`commit`: an incomplete statement."""
        binds, nominations, evictions, steps = self._committed
        del self._bind_tasks[binds:], self._bind_nodes[binds:]
        del self.nominations[nominations:], self.evictions[evictions:], self.steps[steps:]
        self._bound = sum(map(len, self._bind_tasks))

    def bind_starts(self) -> RowVec:
        """Return the places in :meth:`binds` at which what a commit has bound begins."""
        ends = np.unique(np.array([0, *self._bind_ends], np.int64))
        return ends[ends < self._bound]

    def postpone(self, waits: BoolVec) -> None:
        """Turn binds, marked in the order of :meth:`binds`, into nominations of the same steps."""
        if not waits.any():
            return
        tasks, nodes = self.binds()
        before = np.append(0, np.cumsum(waits)).tolist()
        ends = [it.binds[1] for it in self.steps]
        starts = [*(it.nominations[0] for it in self.steps), len(self.nominations)]
        where = np.array(starts)[np.searchsorted(ends, np.flatnonzero(waits), "right")]
        known = np.array(self.nominations, np.int64).reshape(-1, 2)
        added = np.stack((tasks[waits], nodes[waits]), axis=1)
        self.nominations = [
            (task, node) for task, node in np.insert(known, where, added, 0).tolist()
        ]
        self.steps = [
            it._replace(
                binds=tuple(at - before[at] for at in it.binds),
                nominations=tuple(
                    at + before[bound] for at, bound in zip(it.nominations, it.binds, strict=True)
                ),
            )
            for it in self.steps
        ]
        self._bind_tasks, self._bind_nodes = [tasks[~waits]], [nodes[~waits]]
        self._bound -= before[-1]

    def binds(self) -> tuple[RowVec, RowVec]:
        """Return (tasks, nodes) of every allocation, in the order they were made."""
        if not self._bind_tasks:
            return _NONE, _NONE
        if len(self._bind_tasks) == 1:
            return self._bind_tasks[0], self._bind_nodes[0]
        return np.concatenate(self._bind_tasks), np.concatenate(self._bind_nodes)


def await_leaving(session: Session) -> None:
    """Turn binds into nominations that a queue refuses until other pods have left."""
    outcome = session.outcome
    tasks, nodes = outcome.binds()
    if not len(tasks) or not session.ask.has_queue_gates:
        return
    leaving = held_in(session.snapshot, TaskState.RELEASING)
    if leaving is None and not outcome.evictions:
        return
    batches = _Batches(session, tasks, nodes)
    batches.decide(leaving)
    if not batches.queue_of:
        return
    outcome.awaits = batches.queue_of
    outcome.refusal[list(batches.queue_of)] = _WAITING
    waits = batches.waits.repeat(np.diff(np.append(batches.first, len(tasks))))
    statement = session.statement()
    for task, node in zip(tasks[waits].tolist(), nodes[waits].tolist(), strict=True):
        statement.pipeline(task, node)
    outcome.postpone(waits)


def void_promises(session: Session) -> dict[str, dict[str, float]]:
    """Return the fact of the jobs whose promises are void and that were promised nothing anew."""
    void = session.outcome.void
    if not void:
        return {}
    again = {int(session.tasks.job_of_task[task]) for task, _ in session.outcome.nominations}
    left = {session.jobs.name[job]: void[job] for job in sorted(void.keys() - again)}
    return {PROMISES: left} if left else {}


class _Batches:
    """What each commit of a cycle binds of each job, in the order of decision."""

    def __init__(self, session: Session, tasks: RowVec, nodes: RowVec) -> None:
        job = session.tasks.job_of_task[tasks]
        is_first = np.append(True, job[1:] != job[:-1])
        is_first[session.outcome.bind_starts()] = True
        self.first: RowVec = np.flatnonzero(is_first)
        """``(B,)`` the place of the first bind of each."""
        self.waits: BoolVec = np.zeros(len(self.first), np.bool_)
        self.queue_of: dict[int, int] = {}
        """Jobs that wait: the lowest queue that has no room yet."""
        self._session = session
        self._job: RowVec = job[self.first]
        self._ask: Amounts = np.add.reduceat(charges(session, tasks, nodes), self.first, axis=1)
        self._firm = self._ask * ~session.jobs.is_preemptible[self._job]
        leaf = session.jobs.queue_of_job[self._job]
        self._paths: RowVec = session.queues.tree.path_of_leaf[leaf].T.astype(np.int64)

    def decide(self, leaving: tuple[Amounts, Amounts] | None) -> None:
        """Find out which have to wait, one after the other; what waits is not allocated yet.

        After the first batch of a job that waits none is bound: no elastic pod before the gang.
        """
        session = self._session
        held, firm = session.held.copy(), session.held_non_preemptible.copy()
        if leaving is not None:
            held += leaving[0]
            firm += leaving[1]
        left = np.arange(len(self._job))
        while left.size:
            shut = self._refusing(left, held, firm, in_turn=True) >= 0
            count = int(shut.argmax()) if shut.any() else len(left)
            add_along(held, self._paths[:, left[:count]], self._ask[:, left[:count]])
            add_along(firm, self._paths[:, left[:count]], self._firm[:, left[:count]])
            if not (left := left[count:]).size:
                return
            # The first of the rest is refused, and whoever is refused without those before it.
            queue = self._refusing(left, held, firm, in_turn=False)
            shut = queue >= 0
            shut[0] = True
            for job, row in zip(self._job[left[shut]].tolist(), queue[shut].tolist(), strict=True):
                self.queue_of.setdefault(job, row)
            shut |= np.isin(self._job[left], self._job[left[shut]])
            self.waits[left[shut]] = True
            left = left[~shut]

    def _refusing(self, at: RowVec, held: Amounts, firm: Amounts, *, in_turn: bool) -> RowVec:
        """``(K,)`` the lowest queue that refuses some batches, -1 for none.

        ``in_turn`` counts all of them that come before as held.
        """
        found = np.full(len(at), -1, np.int64)
        for rows in self._paths[::-1, at]:
            on = np.flatnonzero(rows >= 0)
            if not on.size:
                continue
            row = rows[on]
            ask, strict = self._ask[:, at[on]], self._firm[:, at[on]]
            has, has_firm = held[:, row], firm[:, row]
            if in_turn:
                has, has_firm = has + _before(row, ask), has_firm + _before(row, strict)
            gate, job = self._session.ask.queue_gate, self._job[at[on]]
            codes = gate(self._session, BIND, row, job, ask, has, has_firm)
            if codes is not None:
                found[on[codes != 0]] = row[codes != 0]
        return found


def _before(row: RowVec, amounts: Amounts) -> Amounts:
    """``(R, K)`` the sums of the amounts that come before each in the same row."""
    order = np.argsort(row, kind="stable")
    ordered = amounts[:, order]
    sums = ordered.cumsum(axis=1) - ordered
    starts = np.flatnonzero(np.append(True, np.diff(row[order]) != 0))
    sums -= sums[:, starts].repeat(np.diff(np.append(starts, len(row))), axis=1)
    before = np.empty_like(sums)
    before[:, order] = sums
    return before


# -- intents -------------------------------------------------------------------------------------


def _placed(session: Session, kind: type[_P], tasks: RowVec, nodes: RowVec) -> Iterator[_P]:
    """Yield intents that pair a pod with a node, in the order they were decided."""
    for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
        job = int(session.tasks.job_of_task[task])
        group = session.jobs.name[job] if job >= 0 else ""
        pod, uid = session.tasks.name[task], session.tasks.uid[task]
        yield kind(pod, uid, session.nodes.name[node], group, task, node)


def binds(session: Session, tasks: RowVec, nodes: RowVec) -> Iterator[Bind]:
    """Yield bind intents, with the cards of shares and the devices of claims."""
    cards, devices = session.capacity.cards, session.devices
    groups = {} if cards is None else dict(cards.table.group_of_slot)
    names = set(groups.values())
    for bind in _placed(session, Bind, tasks, nodes):
        made = bind
        if cards is not None:
            slots = [(bind.node_row, slot) for slot in cards.slots_of(bind.task)]
            for slot in slots:
                if slot not in groups:
                    groups[slot] = _new_name(bind.uid, names)
            made = replace(made, cards=tuple(groups[slot] for slot in slots))
        if devices is not None:
            made = replace(made, claims=tuple(devices.granted.get(bind.task, ())))
        yield made


def _new_name(uid: str, names: set[str]) -> str:
    """Return a name for a card that is opened for a pod: an earlier try may have left others."""
    name = next(it for number in itertools.count() if (it := f"{uid}-{number}") not in names)
    names.add(name)
    return name


def nominations(session: Session, tasks: RowVec, nodes: RowVec) -> Iterator[Nominate]:
    """Yield nominations, with the open cards that shares are promised."""
    cards, steps = session.capacity.cards, session.outcome.steps
    step_of = _step_of([it.nominations for it in steps], len(tasks))
    for promise, step in zip(_placed(session, Nominate, tasks, nodes), step_of, strict=True):
        each = promise if step < 0 else replace(promise, step=step)
        told = cards.promised.get(each.task) if cards is not None else None
        if cards is None or told is None:
            yield each
            continue
        groups = [cards.table.group_of_slot.get((each.node_row, it)) for it in told.opened]
        yield replace(each, cards=tuple(filter(None, groups)))


def _step_of(ranges: Iterable[tuple[int, int]], count: int) -> list[int]:
    """Return the step of each of so many moves, -1 for none."""
    found = [-1] * count
    for step, (start, end) in enumerate(ranges):
        found[start:end] = [step] * (end - start)
    return found


_IGNORED: Final = "; its disruption budget does not hold, by the shard's disruptionBudgets"


def evictions(session: Session, moves: Sequence[Eviction]) -> Iterator[Evict]:
    """Yield evictions, in the order they were decided."""
    tasks, jobs, names = session.tasks, session.jobs, session.queues.name
    step_of = _step_of((it.evictions for it in session.outcome.steps), len(moves))
    made: tuple[object, EvictionReason] = None, EvictionReason("")
    beyond = beyond_budgets(session.snapshot, [move.task for move in moves])
    for move, step, ignores_budget in zip(moves, step_of, beyond, strict=True):
        if move.reason is not made[0]:  # all evictions of one claim have one reason
            told = move.reason
            made = told, EvictionReason(told) if isinstance(told, str) else told(session)
        job = int(tasks.job_of_task[move.task])
        queue = int(jobs.queue_of_job[job])
        whose = move.beneficiary
        claimant = int(jobs.queue_of_job[whose]) if whose >= 0 else -1
        yield Evict(
            tasks.name[move.task],
            tasks.uid[move.task],
            session.nodes.name[move.node],
            jobs.name[job],
            move.action,
            jobs.name[whose] if whose >= 0 else "",
            f"{made[1].sentence}{_IGNORED}" if ignores_budget else made[1].sentence,
            move.task,
            move.node,
            names[queue] if queue >= 0 else jobs.queue_name[job],
            names[claimant] if claimant >= 0 else "",
            jobs.owner_of(job),
            jobs.owner_of(whose),
            made[1].kinds.get(queue, move.action),
            step,
            ignores_budget,
        )
