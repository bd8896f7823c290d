"""Which waiting jobs a cycle looks at: of one queue so many kinds, and the others in turn.

To ask about a second job of a kind costs next to nothing. To ask about thousands of kinds does not,
so that whoever may create pods could make everybody's cycles as long as they like. So a queue has a
ration of steps in a cycle: kinds that find a place cost nothing, those that find none cost their
steps, and when the ration is used up the rest is put off. Half of the ration goes to the first in
line; the other half goes round, so that everybody's turn comes. Kinds with many constraints have a
ration of their own, so that plain ones need not wait for them. Steps are counted, never seconds: a
slow machine decides the same.
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
"""Of each lane of a queue, in one cycle. A plain pod that fits nowhere costs one."""
CLAIM_STEPS: Final = 8
"""The same for the actions that evict, where a kind costs several times as much."""
PLAIN: Final = 4
"""Kinds of at most so many steps are in the plain lane."""
FACT: Final = "rations"
_FOUND: Final = "rations"
_ORDERS: Final = "rations.orders"
_WAITING: Final = "waiting"
_NOBODY: Final = np.empty(0, np.int64)


class Order(NamedTuple):
    """The kinds of one lane in order, and their numbers by creation."""

    kinds: list[Kind]
    keys: list[tuple[float, str]]
    """By creation."""
    numbers: list[int]
    """Where each of these stands among the kinds."""


def order_of(kinds: list[Kind]) -> Order:
    """Return kinds with their order by creation."""
    # One priority after the other, each by creation: sorted runs, which are merged quickly.
    ranked = sorted((kind.key[1:], number) for number, kind in enumerate(kinds))
    return Order(kinds, [key for key, _ in ranked], [number for _, number in ranked])


class Round:
    """Goes round the kinds of a lane, from cycle to cycle.

    It goes by creation. Who came after a round had begun waits for the next one, so that no stream
    of arrivals, however urgent, keeps others from their turn.
    """

    def __init__(self, order: Order, turn: Mapping[str, Any]) -> None:
        """Take the kinds, and how far the round had come in the cycle before."""
        self._keys, self._numbers = order.keys, order.numbers
        self._after: tuple[Any, ...] = tuple(turn.get("after", ()))
        self._until: tuple[Any, ...] = tuple(turn.get("until", self._keys[-1]))
        self._at: int = bisect_right(self._keys, self._after)
        self._left = len(order.kinds)

    def turn(self) -> dict[str, list[Any]]:
        """Return how far the round has come, to be remembered."""
        return {"after": list(self._after), "until": list(self._until)}

    def peek(self) -> int | None:
        """Return the number of the kind whose turn it is; None after once round."""
        if not self._left:
            return None
        if self._at >= len(self._keys) or self._keys[self._at] > self._until:  # a new round
            self._at, self._after, self._until = 0, (), self._keys[-1]
        return self._numbers[self._at]

    def pop(self) -> None:
        """Say that this kind has had its turn."""
        self._after = self._keys[self._at]
        self._at += 1
        self._left -= 1


class Lane:
    """The plain kinds of one queue, or those with many constraints: whom this cycle serves."""

    def __init__(self, order: Order, turn: Mapping[str, Any]) -> None:
        """Take the kinds in order, and how far the round had come in the cycle before."""
        self._kinds = order.kinds
        self._is_served = [False] * len(order.kinds)
        self._line = 0
        self._spent = 0
        self.round = Round(order, turn)
        self.served: list[Kind] = []
        """Those served last."""

    def serve(self, steps: int, *, is_first: bool = True) -> list[Kind]:
        """Serve kinds of so many steps; the first time, one of either half in any case."""
        self.served = []
        self._serve_line(steps - steps // 2, is_first=is_first)
        self._serve_round(steps // 2, is_first=is_first)
        return self.served

    def serve_more(self, pending: IntVec) -> list[Kind]:
        """Serve more for the steps of those that have found a place; ``pending`` is ``(J,)``."""
        self._spent += sum(kind.steps for kind in self.served if pending[kind.jobs].any())
        self.served = []
        if self._spent >= STEPS:
            return []
        return self.serve(STEPS - self._spent, is_first=False)

    def _serve_line(self, left: int, *, is_first: bool) -> None:
        while self._line < len(self._kinds):
            if not self._is_served[self._line]:
                kind = self._kinds[self._line]
                if kind.steps > left and not is_first:
                    return
                self._take(self._line)
                left -= kind.steps
                is_first = False
            self._line += 1

    def _serve_round(self, left: int, *, is_first: bool) -> None:
        while (number := self.round.peek()) is not None:
            if not self._is_served[number]:
                kind = self._kinds[number]
                if kind.steps > left and not is_first:
                    return
                self._take(number)
                left -= kind.steps
                is_first = False
            self.round.pop()

    def _take(self, number: int) -> None:
        self._is_served[number] = True
        self.served.append(self._kinds[number])


class Rations:
    """Whom the queues that ask for too much are served in one cycle."""

    def __init__(self, session: Session, job: RowVec, kinds: Mapping[int, list[Kind]]) -> None:
        """Serve what a cycle begins with; ``job`` are the waiting jobs of these queues."""
        self.off: BoolVec = np.zeros(len(session.jobs.name), np.bool_)
        """``(J,)`` jobs that are put off."""
        self.off[job] = True
        self.claims_off: BoolVec = self.off.copy()
        """``(J,)`` jobs for which nothing is evicted in this cycle."""
        self.is_short: BoolVec = np.zeros(len(session.queues), np.bool_)
        """``(Q,)`` queues that ask for more than their ration."""
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
        """Serve one queue; who may claim may also be placed."""
        rounds: dict[str, Round] = {}
        for name, order in orders.items():
            claims, lane = (Lane(order, known.get(of, {})) for of in (f"{name}Claims", name))
            for kind in claims.serve(CLAIM_STEPS):
                self.off[kind.jobs] = self.claims_off[kind.jobs] = False
            for kind in lane.serve(STEPS):
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
        """Serve queues again whose kinds have found places; return the jobs that may be tried."""
        if not session.has_moved:
            return _NOBODY
        pending = session.ledger.job_pending
        served = [kind.jobs for lane in self._lanes for kind in lane.serve_more(pending)]
        if not served:
            return _NOBODY
        job = np.concatenate(served)
        job = job[self.off[job]]
        self.off[job] = False
        session.outcome.refusal[job] = 0
        self._remember(session)
        return np.sort(job)


def _orders_of(
    session: Session, kinds: Mapping[int, list[Kind]]
) -> list[tuple[int, dict[str, Order]]]:
    """Return the orders of each queue by lane, sorted once while its kinds are the same."""
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
    """Return the rows of jobs with pending tasks, as of now, that are not refused as such."""
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
    """Return who is served in this cycle; None where everybody is, which is the rule."""
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
