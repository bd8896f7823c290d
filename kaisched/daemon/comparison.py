"""Comparison of our decisions with those of another scheduler for the same pods.

Our decisions are not carried out, so every cycle starts from what the other scheduler has made of
the cluster. Each of its steps is compared with what we would do from the same start. Equal pods of
a job are interchangeable, so nodes are compared by the number of the job's pods on each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import HOLDING_STATES, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.cycle import Cycle

SAME_TIME_S: Final = 5.0
"""Starts up to this far apart count as simultaneous, since both schedulers run in cycles."""
MOST_QUEUES: Final = 2000
SAME, EARLIER, NOT_YET = "same_time", "earlier", "not_yet"
SAME_NODE, OTHER_NODE, NO_NODE = "same_node", "other_node", "not_placed"
IN_ORDER, OUT_OF_ORDER = "same_order", "other_order"
OTHER: Final = "other"
_PENDING: Final = int(TaskState.PENDING)


class Waiting(NamedTuple):
    """A pod that was pending when the last cycle began."""

    uid: str
    job: str
    queue: str


class Started(NamedTuple):
    """A job of which the other scheduler has started at least one pod."""

    job: str
    queue: str
    time: str
    """``same_time``, ``earlier`` (we would have started it before) or ``not_yet``."""
    lead_s: float
    """How much earlier we would have started it; 0 if we would not have started it yet."""
    pods: int
    same_node: int
    other_node: int
    is_in_order: bool
    """Whether no job that we would have started first is still pending in the queue."""


@dataclass
class Tally:
    """Counts of each outcome."""

    jobs: Counter[str] = field(default_factory=Counter)
    pods: Counter[str] = field(default_factory=Counter)
    order: Counter[str] = field(default_factory=Counter)

    def add(self, started: Started) -> None:
        """Count one start."""
        self.jobs[started.time] += 1
        self.order[IN_ORDER if started.is_in_order else OUT_OF_ORDER] += 1
        self.pods[SAME_NODE] += started.same_node
        self.pods[OTHER_NODE] += started.other_node
        self.pods[NO_NODE] += started.pods - started.same_node - started.other_node

    def document(self) -> dict[str, Any]:
        """Return the counts and their share of agreement, null where nothing was seen."""
        return {
            "jobs": {name: self.jobs[name] for name in (SAME, EARLIER, NOT_YET)},
            "pods": {name: self.pods[name] for name in (SAME_NODE, OTHER_NODE, NO_NODE)},
            "order": {name: self.order[name] for name in (IN_ORDER, OUT_OF_ORDER)},
            "agreement": {
                "time": _part(self.jobs, SAME),
                "node": _part(self.pods, SAME_NODE),
                "order": _part(self.order, IN_ORDER),
            },
        }


class Comparison:
    """Comparison for one shard, updated with every cycle from the loop's thread."""

    def __init__(self) -> None:
        """Start with empty counts."""
        self.total = Tally()
        self.by_queue: dict[str, Tally] = {}
        self._waiting: dict[str, Waiting] = {}
        self._first_s: dict[str, float] = {}
        """When we would have started each job that is still pending."""
        self._nodes: dict[str, Counter[str]] = {}
        """Nodes for the pods of each job, from the last cycle that placed any of them."""

    def after(self, cycle: Cycle) -> list[Started]:
        """Return the jobs that the other scheduler started since the cycle before."""
        waiting = _waiting(cycle.snapshot)
        started = self._started(cycle, waiting)
        for it in started:
            self.total.add(it)
            name = it.queue
            if name not in self.by_queue and len(self.by_queue) >= MOST_QUEUES:
                name = OTHER
            self.by_queue.setdefault(name, Tally()).add(it)
        self._decide(cycle, waiting)
        self._waiting = waiting
        return started

    def document(self) -> dict[str, Any]:
        """Return all counts so far, as ``kaisched.io/observed/v1``."""
        return {
            "schemaVersion": "kaisched.io/observed/v1",
            "sameTimeSeconds": SAME_TIME_S,
            **self.total.document(),
            "queues": {name: self.by_queue[name].document() for name in sorted(self.by_queue)},
        }

    def _started(self, cycle: Cycle, waiting: Mapping[str, Waiting]) -> list[Started]:
        now = {it.uid for it in waiting.values()}
        gone = {it.uid: it for it in self._waiting.values() if it.uid not in now}
        nodes: dict[str, Counter[str]] = {}
        queue_of: dict[str, str] = {}
        for uid, node in _nodes_of(cycle.snapshot, gone).items():
            nodes.setdefault(gone[uid].job, Counter())[node] += 1
            queue_of[gone[uid].job] = gone[uid].queue
        left: dict[str, set[str]] = {}
        for it in waiting.values():
            left.setdefault(it.queue, set()).add(it.job)
        return [
            self._compared(
                job, queue_of[job], theirs, cycle.start_s, left.get(queue_of[job], set())
            )
            for job, theirs in sorted(nodes.items())
        ]

    def _compared(
        self, job: str, queue: str, theirs: Counter[str], now_s: float, left: set[str]
    ) -> Started:
        ours = self._nodes.get(job, Counter())
        first_s = self._first_s.get(job)
        lead_s = 0.0 if first_s is None else max(now_s - first_s, 0.0)
        pods = theirs.total()
        same = (ours & theirs).total()
        time = NOT_YET if first_s is None else SAME if lead_s <= SAME_TIME_S else EARLIER
        ahead = [
            other
            for other in left - {job}
            if (other_s := self._first_s.get(other)) is not None
            and (first_s is None or other_s < first_s)
        ]
        other_node = min(ours.total(), pods) - same
        return Started(job, queue, time, lead_s, pods, same, other_node, not ahead)

    def _decide(self, cycle: Cycle, waiting: Mapping[str, Waiting]) -> None:
        """Note what we would start now, and forget jobs without pending pods."""
        nodes: dict[str, Counter[str]] = {}
        for bind in cycle.result.binds:
            nodes.setdefault(bind.pod_group, Counter())[bind.node] += 1
        for job in nodes:
            self._first_s.setdefault(job, cycle.start_s)
        jobs = {it.job for it in waiting.values()}
        self._first_s = {job: at_s for job, at_s in self._first_s.items() if job in jobs}
        self._nodes = {job: it for job, it in (self._nodes | nodes).items() if job in jobs}


def _waiting(snapshot: Snapshot) -> dict[str, Waiting]:
    """Return our pending pods by name."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    rows = np.flatnonzero((tasks.state == _PENDING) & (tasks.job_of_task >= 0))
    found = {}
    for row, job in zip(rows.tolist(), tasks.job_of_task[rows].tolist(), strict=True):
        found[tasks.name[row]] = Waiting(tasks.uid[row], jobs.name[job], jobs.queue_name[job])
    return found


def _nodes_of(snapshot: Snapshot, uids: Collection[str]) -> dict[str, str]:
    """Map the UIDs of pods to their present nodes; pods without a node are left out."""
    if not uids:
        return {}
    tasks, names = snapshot.tasks, snapshot.nodes.name
    rows = np.flatnonzero(HOLDING_STATES[tasks.state] & (tasks.node_of_task >= 0))
    found = ((tasks.uid[row], int(tasks.node_of_task[row])) for row in rows.tolist())
    return {uid: names[node] for uid, node in found if uid in uids}


def _part(counts: Mapping[str, int], agreed: str) -> float | None:
    whole = sum(counts.values())
    return round(counts[agreed] / whole, 4) if whole else None
