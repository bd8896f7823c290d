"""The order of queues by their best jobs: by share, by level, by past usage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched import (
    ALLOCATED_STATES,
    CPU,
    GPU,
    MEMORY,
    PARTS,
    PODS,
    Amounts,
    FloatVec,
    RowVec,
    Session,
    charges,
)
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.quotas import Keys, order_keys
from kaisched_plugins.fair_sharing.tables import Now, Table, as_columns, some_of, turn_keys
from kaisched_plugins.fair_sharing.work import borrowing_levels

if TYPE_CHECKING:
    from kaisched_plugins.fair_sharing.plugin import FairSharingArguments

# What queues are compared by, each with the first of its jobs: rules F8 and F20.


KEYS: Final = (
    "borrows with the job (0 no, 1 yes; without fair sharing the level)",
    "infinite share with the job, or usage in a usage pool (0 no, 1 yes)",
    "share with the job, or usage in a usage pool",
    "share with the job, beyond 16 digits",
    "-priority of the job",
    "creation of the job",
)
"""Names of the keys of a queue with its best job, for programs."""
WORDS: Final = (
    "{whose} would borrow with the job, or borrow more widely than the other queue",
    "{whose} has a weight of 0, and the other queue has not, or would not borrow",
    "{whose} would have the larger share with the job, or used more lately: {own} against {other}",
    "{whose} would have a slightly larger share with the job",
    "the job of {whose} has the lower priority, {own} against {other}",
    "the job of {whose} was created later",
)
"""What puts a queue behind by each of these keys, for people."""
HIGH_PRIORITY: Final = "the job of {whose} has no priority that goes first, or a lower one"


def head_keys(
    session: Session,
    table: Table,
    now: Now,
    choices: Choices | None,
    queue: RowVec,
    job: RowVec,
    held: Amounts,
    ask: Amounts,
) -> Keys:
    """Return key columns ``(K,)``: who borrows what is asked for, and the share.

    Without fair sharing the level at which the job borrows stands for both. ``choices`` say of
    which flavors jobs ask where amounts do not add up.
    """
    leaf, asks = table.home[session.jobs.queue_of_job[job]], ask[table.rows]
    if choices is not None:
        asked = [choices.asked(session, it, ask[:, at]) for at, it in enumerate(job.tolist())]
        asks = as_columns(asked, len(table.rows))
    borrows, is_infinite = np.zeros(len(queue), np.int64), np.zeros(len(queue), np.int64)
    near, rest = np.zeros(len(queue)), np.zeros(len(queue))
    is_on = table.is_on[queue]
    on, off = np.flatnonzero(is_on), np.flatnonzero(~is_on)
    if on.size:
        some = asks[:, on]
        if choices is None:
            keys = order_keys(table.quotas, queue[on], held[table.rows][:, on], some)
        else:
            each = [some_of(amounts) for amounts in some.T]
            keys = turn_keys(now.copy(session), queue[on], leaf[on], each)
        borrows[on], is_infinite[on], near[on], rest[on] = keys
    if off.size:
        used = now.columns(session)
        borrows[off] = borrowing_levels(table.quotas, used, leaf[off], asks[:, off])
    return borrows, is_infinite, near, rest


# Past usage of queues that share one quota in the order of usage: the sums behind F31 to F33.
#
# The history is an average of what was held, recent times weighing more. What was started lately is
# hardly in it yet, so it counts at once as much as the history will hold of it a little later.
# Columns are ``(R, K)``: a row for each resource, in whatever unit the caller counts.


def part_of_history(span_s: FloatVec, half_life_s: float, window_s: float) -> FloatVec:
    """Return ``(K,)`` how much of the whole history the last seconds are.

    Without a half-life every second of the window weighs the same.
    """
    span_s = np.maximum(span_s, 0.0)
    if half_life_s > 0:
        return -np.expm1(span_s * (-math.log(2) / half_life_s))
    return np.minimum(span_s / window_s, 1.0)


def whole_history_s(half_life_s: float, window_s: float) -> float:
    """Return the seconds that a full history weighs, old ones weighing less."""
    return half_life_s / math.log(2) if half_life_s > 0 else window_s


def penalties(queue: RowVec, amounts: Amounts | FloatVec, part: FloatVec, count: int) -> FloatVec:
    """Return ``(R, count)`` what counts against each queue for work that was started lately.

    Args:
        queue: ``(K,)`` the queue of each job; a job has one entry.
        amounts: ``(R, K)`` what each job holds.
        part: ``(K,)`` the part of it that the history does not have yet.
        count: the number of queues.

    """
    total = np.zeros((len(amounts), count))
    for row, held in zip(total, amounts, strict=True):
        np.add.at(row, queue, held * part)
    return total


def scores(
    consumed: FloatVec, penalty: FloatVec, resource_weight: FloatVec, weight: FloatVec
) -> FloatVec:
    """Return ``(K,)`` the usage by which queues are compared, the lowest first.

    A queue whose weight is 0 or less comes last: its usage is infinite.

    Args:
        consumed: ``(R, K)`` the average of what each queue held.
        penalty: ``(R, K)`` what counts on top, see :func:`penalties`.
        resource_weight: ``(R,)``.
        weight: ``(K,)`` of the queues.

    """
    total = np.zeros(len(weight))
    # Row by row: a product of matrices may add up in another order on another processor.
    for row, factor in enumerate(resource_weight.tolist()):
        total += factor * (consumed[row] + penalty[row])
    has_weight = weight > 0
    return np.where(has_weight, total / np.where(has_weight, weight, 1.0), np.inf)


# Past usage of the queues in pools, as of a cycle: rules F31 to F33.
#
# A pool is a queue that has the queues below it served in the order of their usage.


_UNITS = ((CPU, 1000.0), (GPU, 1000.0), (MEMORY, 1 / 64))
"""Base units in a core, a GPU and a byte."""


@dataclass(eq=False)
class Pools:
    """What the queues in pools used, worked out when first needed."""

    session: Session
    table: Table
    terms: FairSharingArguments

    def in_place_of(self, keys: Keys, queue: RowVec, held: Amounts) -> Keys:
        """Return keys in which queues of pools are compared by their past usage (F31).

        ``held`` ``(R, K)`` is what each would hold by then.
        """
        is_member = self.table.is_member[queue]
        if not is_member.any():
            return keys
        usage = self._usage_with(queue, held)
        is_infinite = np.isinf(usage)
        borrows, infinite, near, rest = keys
        return (
            np.where(is_member, 0, borrows),
            np.where(is_member, is_infinite, infinite),
            np.where(is_member, np.where(is_infinite, 0.0, usage), near),
            np.where(is_member, 0.0, rest),
        )

    def _usage_with(self, queue: RowVec, held: Amounts) -> FloatVec:
        """Return the usage of queues ``(K,)`` that hold so much; infinite for a weight of 0."""
        if self.session.usage is None:  # without a history, what they hold is all that is known
            consumed = self._counted(held)
            more = np.zeros_like(consumed)
        else:
            consumed = self._consumed[:, queue]
            new = np.maximum(held - self.session.held[:, queue], 0)
            more = self._penalty[:, queue] + self._counted(new) * self._whole_penalty
        return scores(consumed, more, self._resource_weights, self.table.weight[queue])

    @cached_property
    def usage(self) -> FloatVec:
        """``(Q,)`` the usage of every queue as the cycle began, infinite for a weight of 0."""
        every = np.arange(len(self.table.home))
        return self._usage_with(every, self.session.held)

    @cached_property
    def _consumed(self) -> FloatVec:
        """``(R, Q)`` the average of what queues held over a whole history."""
        usage = self.session.usage
        assert usage is not None
        whole_s = whole_history_s(self.terms.half_life_s, self.terms.window_s)
        seen = min(usage.weighed_s / whole_s, 1.0)
        used = usage.parts * (self.session.total[:, None] * (seen / PARTS))
        return self._counted(used)

    @cached_property
    def _penalty(self) -> FloatVec:
        """``(R, Q)`` what counts for jobs that started lately, as the cycle began."""
        session, jobs = self.session, self.session.jobs
        count = len(self.table.home)
        ran_s = session.now_s - jobs.last_start_s
        is_new = ~(ran_s >= self.terms.counted_s)  # also where it is not known to run yet
        is_new &= (jobs.active > 0) & (jobs.queue_of_job >= 0)
        new = is_new.nonzero()[0]
        new = new[self.table.is_member[jobs.queue_of_job[new]]]
        if not new.size:
            return np.zeros((len(session.axis), count))
        assert session.usage is not None
        age_s = session.usage.age_s if np.isfinite(session.usage.age_s) else self.terms.counted_s
        known_s = np.nan_to_num(ran_s[new], nan=0.0) - age_s
        known = part_of_history(known_s, self.terms.half_life_s, self.terms.window_s)
        held = self._counted(self._held_by(new))
        return penalties(jobs.queue_of_job[new], held, self._whole_penalty - known, count)

    def _held_by(self, job: RowVec) -> Amounts:
        """Return ``(R, K)`` what jobs hold."""
        session, tasks = self.session, self.session.tasks
        some = [session.jobs.tasks[row] for row in job.tolist()]
        task = np.array([each for listed in some for each in listed], np.int64)
        of_job = np.repeat(np.arange(len(job)), [len(listed) for listed in some])
        holds = ALLOCATED_STATES[tasks.state[task]]
        task, of_job = task[holds], of_job[holds]
        amounts = charges(session, task)
        held = np.zeros((len(amounts), len(job)), np.int64)
        for total, each in zip(held, amounts, strict=True):
            np.add.at(total, of_job, each)
        return held

    @cached_property
    def _whole_penalty(self) -> float:
        """Return the part of a history that a job counts for when it starts."""
        span_s = np.array([self.terms.counted_s])
        return float(part_of_history(span_s, self.terms.half_life_s, self.terms.window_s)[0])

    @cached_property
    def _resource_weights(self) -> FloatVec:
        weights = np.array([self.terms.weight_of(name) for name in self.session.axis.names])
        weights[PODS] = 0.0
        return weights

    @cached_property
    def _unit(self) -> FloatVec:
        """``(R, 1)`` how many base units count as 1."""
        if self.terms.is_compatible:
            unit = np.ones(len(self.session.axis))
            for resource, each in _UNITS:
                unit[resource] = each
        else:
            unit = np.maximum(self.session.total, 1).astype(np.float64)
        return unit[:, None]

    def _counted(self, amounts: Amounts | FloatVec) -> FloatVec:
        counted: FloatVec = amounts / self._unit
        return counted
