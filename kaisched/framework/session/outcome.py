"""The decisions of a cycle so far: committed moves, and refusals of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.framework.report.records import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import BoolVec, CodeVec, RowVec
    from kaisched.framework.report.records import EvictionReason

    Reason: TypeAlias = str | Callable[..., EvictionReason]
    """A sentence, or a function that makes the reason from the session once it is read."""


class Eviction(NamedTuple):
    """A committed eviction."""

    task: int
    node: int
    action: str
    beneficiary: int
    """Row of the job that it is for; -1 for none."""
    reason: Reason


PUT_OFF = int(Refusal.PUT_OFF)
_NONE = np.empty(0, np.int64)


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
        """Jobs for which allocate held room while it tried the others; nearly always none."""
        self.awaits: dict[int, int] = {}
        """Jobs whose binds wait for pods to leave: the lowest queue that has no room before."""
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

    def note_all_claims(self, action: str, codes: CodeVec) -> None:
        """Note refusals of claims for all jobs: ``codes`` is ``(J,)``, 0 changes nothing."""
        known = self.claims.get(action)
        if known is None:
            self.claims[action] = codes
        else:
            np.copyto(known, codes, where=codes != 0)

    def nominate(self, task: int, node: int) -> None:
        """Record a promise."""
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
        """Turn binds, marked in the order of :meth:`binds`, into promises of the same steps."""
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
