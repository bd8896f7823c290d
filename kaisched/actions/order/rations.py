"""Budgets of steps per queue and cycle ("rations"): which kinds of waiting jobs a cycle tries.

Trying a second job of a kind costs next to nothing. Trying thousands of kinds is expensive: one
user who creates many kinds of pods could make every cycle long. So a queue has a budget of steps in
a cycle. Kinds that are placed cost nothing; kinds that find no room cost their steps. When the
budget is used up, the other kinds are put off to later cycles. Half of the budget goes to the first
kinds in job order. The other half goes to the kinds in turn, so that each is tried at some time.
Kinds with many constraints have a budget of their own, so that plain kinds need not wait for them.
Budgets count steps, never seconds: a slow machine decides the same.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.actions.order.kinds import first_of_kinds, kinds_of, most_steps, steps_of_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.actions.order.kinds import Kind
    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

STEPS: Final = 32
"""The budget of each lane of a queue in one cycle. A plain pod that fits nowhere costs one step."""
CLAIM_STEPS: Final = 8
"""The budget for the actions that evict, where a kind costs several times as much."""
PLAIN: Final = 4
"""Kinds of at most so many steps are in the lane of plain kinds, the others in the costly one."""
FACT: Final = "rations"
_FOUND: Final = "rations"
_ORDERS: Final = "rations.orders"
_WAITING: Final = "waiting"
_NO_JOBS: Final = np.empty(0, np.int64)


class Order(NamedTuple):
    """The kinds of one lane in job order, and their order by creation."""

    kinds: list[Kind]
    keys: list[tuple[float, str]]
    """(creation, name) of each kind, ascending."""
    numbers: list[int]
    """For each key, the place of its kind in ``kinds``."""


def order_of(kinds: list[Kind]) -> Order:
    """Return kinds with their order by creation."""
    # Kinds of one priority are sorted by creation already: such runs are merged quickly.
    ranked = sorted((kind.key[1:], number) for number, kind in enumerate(kinds))
    return Order(kinds, [key for key, _ in ranked], [number for _, number in ranked])


class Round:
    """Round robin over the kinds of a lane, continued from cycle to cycle.

    Kinds take turns by creation. A kind created after a round began waits for the next round. So no
    stream of arrivals, however urgent, keeps other kinds from their turn.
    """

    def __init__(self, order: Order, turn: Mapping[str, Any]) -> None:
        """Take the kinds, and where the cycle before stopped in the round."""
        self._keys, self._numbers = order.keys, order.numbers
        self._after: tuple[Any, ...] = tuple(turn.get("after", ()))
        self._until: tuple[Any, ...] = tuple(turn.get("until", self._keys[-1]))
        self._at: int = bisect_right(self._keys, self._after)
        self._left = len(order.kinds)

    def turn(self) -> dict[str, list[Any]]:
        """Return where the round stopped, to be remembered."""
        return {"after": list(self._after), "until": list(self._until)}

    def peek(self) -> int | None:
        """Return the number of the next kind; None when every kind has had a turn."""
        if not self._left:
            return None
        if self._at >= len(self._keys) or self._keys[self._at] > self._until:  # a new round
            self._at, self._after, self._until = 0, (), self._keys[-1]
        return self._numbers[self._at]

    def pop(self) -> None:
        """Count the turn of the next kind as over."""
        self._after = self._keys[self._at]
        self._at += 1
        self._left -= 1


class Lane:
    """The plain kinds of one queue, or the costly ones, and which of them this cycle tries."""

    def __init__(self, order: Order, turn: Mapping[str, Any]) -> None:
        """Take the kinds in job order, and where the cycle before stopped in the round."""
        self._kinds = order.kinds
        self._is_chosen = [False] * len(order.kinds)
        self._next = 0
        self._spent = 0
        self.round = Round(order, turn)
        self.chosen: list[Kind] = []
        """The kinds that were chosen last."""

    def choose(self, steps: int, *, is_first: bool = True) -> list[Kind]:
        """Choose kinds of so many steps; the first time, at least one for either half."""
        self.chosen = []
        self._choose_in_order(steps - steps // 2, is_first=is_first)
        self._choose_in_turn(steps // 2, is_first=is_first)
        return self.chosen

    def choose_more(self, pending: IntVec) -> list[Kind]:
        """Choose more kinds for the steps of those that were placed; ``pending`` is ``(J,)``."""
        self._spent += sum(kind.steps for kind in self.chosen if pending[kind.jobs].any())
        self.chosen = []
        if self._spent >= STEPS:
            return []
        return self.choose(STEPS - self._spent, is_first=False)

    def _choose_in_order(self, left: int, *, is_first: bool) -> None:
        while self._next < len(self._kinds):
            if not self._is_chosen[self._next]:
                kind = self._kinds[self._next]
                if kind.steps > left and not is_first:
                    return
                self._take(self._next)
                left -= kind.steps
                is_first = False
            self._next += 1

    def _choose_in_turn(self, left: int, *, is_first: bool) -> None:
        while (number := self.round.peek()) is not None:
            if not self._is_chosen[number]:
                kind = self._kinds[number]
                if kind.steps > left and not is_first:
                    return
                self._take(number)
                left -= kind.steps
                is_first = False
            self.round.pop()

    def _take(self, number: int) -> None:
        self._is_chosen[number] = True
        self.chosen.append(self._kinds[number])


class Rations:
    """The step budgets of one cycle: which jobs are put off in queues that exceed their budget."""

    def __init__(self, session: Session, job: RowVec, kinds: Mapping[int, list[Kind]]) -> None:
        """Choose the kinds that a cycle tries first; ``job`` are all waiting jobs of the queues."""
        self.off: BoolVec = np.zeros(len(session.jobs.name), np.bool_)
        """``(J,)`` jobs that are put off."""
        self.off[job] = True
        self.claims_off: BoolVec = self.off.copy()
        """``(J,)`` jobs for which nothing is evicted in this cycle."""
        self.is_short: BoolVec = np.zeros(len(session.queues), np.bool_)
        """``(Q,)`` queues whose waiting jobs exceed the budget."""
        self.is_short[list(kinds)] = True
        self._lanes: list[Lane] = []
        self._rounds: dict[str, dict[str, Round]] = {}
        past: Mapping[str, Any] = session.memory.facts.get(FACT, {})
        for queue, orders in _orders_of(session, kinds):
            name = session.queues.name[queue]
            self._rounds[name] = self._share(orders, past.get(name, {}))
        self._remember(session)
        session.outcome.put_off(self.off)

    def _share(self, orders: dict[str, Order], known: Mapping[str, Any]) -> dict[str, Round]:
        """Choose the kinds of one queue; a kind that may claim may also be placed."""
        rounds: dict[str, Round] = {}
        for name, order in orders.items():
            claims, lane = (Lane(order, known.get(of, {})) for of in (f"{name}Claims", name))
            for kind in claims.choose(CLAIM_STEPS):
                self.off[kind.jobs] = self.claims_off[kind.jobs] = False
            for kind in lane.choose(STEPS):
                self.off[kind.jobs] = False
            self._lanes.append(lane)
            rounds |= {f"{name}Claims": claims.round, name: lane.round}
        return rounds

    def _remember(self, session: Session) -> None:
        session.facts[FACT] = {
            queue: {name: turn.turn() for name, turn in rounds.items()}
            for queue, rounds in self._rounds.items()
        }

    def more(self, session: Session) -> RowVec:
        """Choose more kinds in queues whose kinds were placed; return their jobs, to be tried."""
        if not session.has_moved:
            return _NO_JOBS
        pending = session.ledger.job_pending
        chosen = [kind.jobs for lane in self._lanes for kind in lane.choose_more(pending)]
        if not chosen:
            return _NO_JOBS
        job = np.concatenate(chosen)
        job = job[self.off[job]]
        self.off[job] = False
        session.outcome.refusal[job] = 0
        self._remember(session)
        return np.sort(job)


def _orders_of(
    session: Session, kinds: Mapping[int, list[Kind]]
) -> list[tuple[int, dict[str, Order]]]:
    """Return the orders of each queue by lane; a queue is sorted again only if its kinds change."""
    known: dict[int, tuple[list[Kind], dict[str, Order]]] = session.hints.get(_ORDERS, {})
    orders: dict[int, tuple[list[Kind], dict[str, Order]]] = {}
    for queue, listed in sorted(kinds.items()):
        found = known.get(queue)
        if found is None or found[0] is not listed:
            plain = [kind for kind in listed if kind.steps <= PLAIN]
            costly = [kind for kind in listed if kind.steps > PLAIN]
            lanes = {"plain": plain, "costly": costly}
            found = listed, {name: order_of(some) for name, some in lanes.items() if some}
        orders[queue] = found
    session.hints[_ORDERS] = orders
    return [(queue, found[1]) for queue, found in orders.items()]


def waiting_jobs(session: Session) -> RowVec:
    """Return the rows of jobs with pending tasks, as of now, that the snapshot does not refuse."""
    known: tuple[int, RowVec] | None = session.found.get(_WAITING)
    if known is None or known[0] != session.moves:
        rows = session.ledger.job_pending.nonzero()[0] if session.has_moved else session.waiting
        refusal = session.jobs.refusal.take(rows)
        if np.count_nonzero(refusal):
            rows = rows[refusal == 0]
        rows.setflags(write=False)
        known = session.found[_WAITING] = session.moves, rows
    return known[1]


def rations_of(session: Session) -> Rations | None:
    """Return the step budgets of this cycle; None when all jobs are tried, the usual case."""
    if _FOUND not in session.found:
        session.found[_FOUND] = _rationed(session)
    rations: Rations | None = session.found[_FOUND]
    return rations


def _rationed(session: Session) -> Rations | None:
    job = waiting_jobs(session)
    if len(job) <= STEPS and len(job) * most_steps(session, job) <= STEPS:
        return None
    jobs = session.jobs
    steps = steps_of_jobs(session, job)
    if int(steps.sum()) <= STEPS:
        return None
    queue = jobs.queue_of_job[job]
    many = np.bincount(queue, weights=steps, minlength=len(session.queues)) > STEPS
    if not many.any():
        return None
    asks = many[queue]
    job, steps = job[asks], steps[asks]
    first = first_of_kinds(session, job, most=STEPS // int(steps.max(initial=1)))
    if first is None:
        return None
    too_many = np.zeros(len(session.queues), np.bool_)
    for is_of_lane in (steps[first] <= PLAIN, steps[first] > PLAIN):
        of_lane = first[is_of_lane]
        total = np.bincount(
            jobs.queue_of_job[job[of_lane]], weights=steps[of_lane], minlength=len(too_many)
        )
        too_many |= total > STEPS
    asks = too_many[jobs.queue_of_job[job]]
    if not asks.any():
        return None
    job, steps = job[asks], steps[asks]
    return Rations(session, job, kinds_of(session, job, steps))
