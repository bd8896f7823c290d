"""Past usage of the queues in pools, as of a cycle: rules F31 to F33.

A pool is a queue that has the queues below it served in the order of their usage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

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
from kaisched_plugins.fair_sharing.columns import Keys
from kaisched_plugins.fair_sharing.past_usage import (
    part_of_history,
    penalties,
    scores,
    whole_history_s,
)
from kaisched_plugins.fair_sharing.tables import Table

_UNITS = ((CPU, 1000.0), (GPU, 1000.0), (MEMORY, 1 / 64))
"""Base units in a core, a GPU and a byte."""


class Terms(Protocol):
    """The arguments of the policy that say how usage is measured."""

    @property
    def is_compatible(self) -> bool:
        """Count cores, bytes and pieces instead of parts of the cluster."""

    @property
    def half_life_s(self) -> float:
        """0 for none."""

    @property
    def window_s(self) -> float:
        """Length of the history."""

    @property
    def counted_s(self) -> float:
        """For how long what just started is taken to have run."""

    def weight_of(self, resource: str) -> float:
        """Return the weight of a resource in the usage."""


@dataclass(eq=False)
class Pools:
    """What the queues in pools used, worked out when first needed."""

    session: Session
    table: Table
    terms: Terms

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
