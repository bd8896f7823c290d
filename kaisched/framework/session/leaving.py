"""What pods that leave still hold in their queues, and the binds that have to wait for that.

While a cycle decides, what leaves counts as gone, so that shares look ahead. A bind does not: until
a pod is gone from the API, its queues hold what it holds. So at the end of the cycle the gates are
asked once more, with all that leaves counted as held, victims of this cycle included. What they
refuse then stays on its node as a promise, and is bound in the cycle in which they agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal
from kaisched.framework.session.ledger import add_along, held_in

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, RowVec
    from kaisched.framework.session.session import Session

BIND: Final = "bind"
"""What gates are asked about in place of an action: whether pods may be bound at once."""
_WAITING: Final = int(Refusal.WAITING_FOR_RELEASE)


def await_leaving(session: Session) -> None:
    """Turn binds into promises that a queue has no room for beside what still leaves."""
    outcome = session.outcome
    tasks, nodes = outcome.binds()
    if not len(tasks) or session.ask.gates(session, BIND) is None:
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
        """Find out which have to wait, one after the other; what waits is not held yet.

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
