"""Limits of evictions and of running: disruption budgets, the shard's eviction budget, run times.

What a cycle may still evict is what budgets allow, less what it has decided to evict: a plan that
is rolled back costs nothing. Without budgets nothing is computed. Anybody who may make pods may
also make a budget for them, so a shard says up to what of each queue budgets hold against jobs of
others: what is beyond goes all the same. A shard may also limit how many pods it evicts in any
hour; a job that is refused for that waits like any other, and smaller evictions that fit into the
rest go on. A job whose time is over is queued again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.axis import GPU, PODS
from kaisched.core.refusals import Refusal
from kaisched.core.shares import allocatable_share, worth
from kaisched.core.tables import NO_LIMIT_S, SEVERAL, UNPROTECTED
from kaisched.objects.shard import BUDGETS_ALWAYS, BUDGETS_WITHIN_FAIR_SHARE
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import JobTable, QueueTable
    from kaisched.framework.policy import Policy
    from kaisched.framework.session.session import Session

_LEFT: Final = "disruptions"
_PROTECTED: Final = "disruptions.protected"
_CODE: Final = np.int16(Refusal.EVICTION_BUDGET)
_FULL: Final = np.int16(Refusal.CYCLE_EVICTIONS)
HOUR_S: Final = 3600.0
NO_BOUND: Final = -1
FACT: Final = "timelimit"
"""When the time of jobs was last over, by name, in seconds since 1970."""


def has_budgets(session: Session) -> bool:
    """Tell whether any disruption budget counts."""
    return bool(session.snapshot.disruption_budgets.name)


def disruptions_left(session: Session) -> IntVec:
    """``(B,)`` how many more pods of each budget may be evicted."""
    evictions = session.outcome.evictions
    known: tuple[int, IntVec] | None = session.found.get(_LEFT)
    if known is not None and known[0] == len(evictions):
        return known[1]
    budgets = session.snapshot.disruption_budgets
    left = budgets.allowed.copy()
    charged = budgets.of_task[[eviction.task for eviction in evictions]]
    np.subtract.at(left, charged[charged >= 0], 1)
    session.found[_LEFT] = (len(evictions), left)
    return left


def charges_of(session: Session, tasks: Iterable[int]) -> Counter[int]:
    """Return, by budget, how many evictions of running tasks count against it; SEVERAL included."""
    of_task = session.snapshot.disruption_budgets.of_task
    charges = Counter(int(of_task[task]) for task in tasks)
    del charges[UNPROTECTED]
    return charges


def is_within(charges: Counter[int], left: IntVec) -> bool:
    """Tell whether budgets allow these evictions together."""
    return SEVERAL not in charges and all(left[at] >= count for at, count in charges.items())


def may_disrupt(session: Session, tasks: Iterable[int]) -> bool:
    """Tell whether disruption budgets allow evicting running tasks together."""
    if not has_budgets(session):
        return True
    return is_within(charges_of(session, tasks), disruptions_left(session))


def has_waited(session: Session, job: int) -> bool:
    """Tell whether disruption budgets no longer hold against a job: it has waited for too long.

    It waits from its creation, or from its last eviction.
    """
    hold_s = session.policy.disruption_budgets
    since_s = waits_since(session.jobs, np.array([job]))[0]
    return isinstance(hold_s, float) and bool(session.now_s >= since_s + hold_s)


def waits_since(jobs: JobTable, job: RowVec) -> FloatVec:
    """Return ``(K,)`` when jobs were created, or evicted last."""
    since_s: FloatVec = np.fmax(jobs.created_s[job], jobs.last_evicted_s[job])
    return since_s  # never evicted is NaN


class Protected(NamedTuple):
    """Up to what of each queue disruption budgets hold."""

    amounts: Amounts
    """``(R, Q)``."""
    gpus_of_parts: IntVec
    """``(Q,)`` GPUs, for pods with parts of GPUs: they keep whole GPUs from others, so that what is
    above the quota goes."""

    def of(self, queue: RowVec, is_part: BoolVec) -> Amounts:
        """``(R, K)`` the same for units of queues, some of which have parts of GPUs."""
        amounts: Amounts = self.amounts.take(queue, axis=1)
        least = np.minimum(amounts[GPU], self.gpus_of_parts.take(queue))
        amounts[GPU] = np.where(is_part, least, amounts[GPU])
        return amounts


def protected(session: Session, job: int) -> Protected | None:
    """Return up to what of a queue disruption budgets hold against a job; None for all of it.

    Quotas and shares are lowered where the queue above has less than it has promised.
    """
    holds = session.policy.disruption_budgets
    queues = session.queues
    if isinstance(holds, float):
        nothing = np.zeros_like(queues.deserved)
        return Protected(nothing, nothing[GPU]) if has_waited(session, job) else None
    if holds == BUDGETS_ALWAYS:
        return None
    known: Protected | None = session.found.get(_PROTECTED)
    if known is None:
        columns = (queues.deserved, session.fair_share, session.held_not_evictable, queues.priority)
        quota, share = worth(session.fair_tree, session.axis.unit, columns)
        amounts = quota.copy()
        if holds == BUDGETS_WITHIN_FAIR_SHARE:
            amounts = allocatable_share(quota, queues.limit, share)
        amounts[PODS] = UNLIMITED  # nobody has a share of pod slots
        known = session.found[_PROTECTED] = Protected(amounts, quota[GPU])
    return known


def beyond_budgets(snapshot: Snapshot, tasks: Sequence[int]) -> list[bool]:
    """Tell which of some evictions, in order, a disruption budget would refuse."""
    budgets = snapshot.disruption_budgets
    if not len(budgets):
        return [False] * len(tasks)
    left = budgets.allowed.tolist()
    found = []
    for row in budgets.of_task[list(tasks)].tolist():
        found.append(row == SEVERAL or (row >= 0 and left[row] <= 0))
        if row >= 0:
            left[row] -= 1
    return found


def left_of(snapshot: Snapshot, policy: Policy, now_s: float) -> int:
    """Return how many pods may be evicted now; -1 for no limit."""
    if policy.evictions_per_hour < 0:
        return NO_BOUND
    recent = sum(now_s - HOUR_S < at_s <= now_s for at_s in snapshot.evictions_s)
    return max(policy.evictions_per_hour - recent, 0)


def may_evict(session: Session, pods: int) -> bool:
    """Tell whether so many more pods may be evicted in this cycle."""
    policy = session.policy
    if not pods:
        return True
    if is_full(session):
        return False
    if policy.evictions_per_hour < 0:
        return True
    left = left_of(session.snapshot, policy, session.now_s)
    return len(session.outcome.evictions) + pods <= left


def is_full(session: Session) -> bool:
    """Tell whether this cycle has evicted as many pods as one may."""
    return len(session.outcome.evictions) >= session.policy.max_evictions_per_cycle


def is_spent(session: Session, action: str) -> bool:
    """Tell whether no more may be evicted; if so, note it as the refusal of every waiting job."""
    if may_evict(session, 1):
        return False
    jobs = session.jobs
    waits = (jobs.refusal == 0).nonzero()[0]
    code = _FULL if is_full(session) else _CODE
    session.outcome.note_claims(action, waits, np.full(len(waits), code))
    return True


def stops_here(session: Session, action: str, job: RowVec) -> bool:
    """Tell whether the cycle evicts no more; if so, note that ``job`` wait for the next one."""
    if not is_full(session):
        return False
    session.outcome.note_claims(action, job, np.full(len(job), _FULL))
    return True


def limits_s(queues: QueueTable, jobs: JobTable, job: RowVec) -> FloatVec:
    """Return ``(K,)`` how long jobs may run at a stretch, NO_LIMIT_S where nothing limits it."""
    queue = jobs.queue_of_job[job]
    if queues.max_run_time_s is None:
        return np.full(len(job), NO_LIMIT_S)
    kinds = jobs.is_preemptible[job].astype(np.int64), jobs.workload_of(job)
    found: FloatVec = np.where(queue >= 0, queues.max_run_time_s[*kinds, queue], NO_LIMIT_S)
    return found


def limited_jobs(queues: QueueTable, jobs: JobTable) -> tuple[RowVec, FloatVec]:
    """Return the running jobs whose time is limited, and when it is over."""
    if queues.max_run_time_s is None:
        return np.empty(0, np.int64), np.empty(0)
    rows: RowVec = np.flatnonzero(jobs.active > 0)
    ends_s = jobs.last_start_s[rows] + limits_s(queues, jobs, rows)
    is_limited = np.isfinite(ends_s)  # nobody knows the start of some, for a moment
    return rows[is_limited], ends_s[is_limited]


def limiting_queue(queues: QueueTable, jobs: JobTable, job: int) -> str:
    """Return the name of the queue whose limit holds for a limited job: the topmost with it."""
    limit_s, queue = queues.max_run_time_s, int(jobs.queue_of_job[job])
    assert limit_s is not None  # a limit holds
    row = np.array([job])
    of_queue = limit_s[int(jobs.is_preemptible[job]), int(jobs.workload_of(row)[0])]
    parent = int(queues.tree.parent_of_queue[queue])
    while parent >= 0 and of_queue[parent] == of_queue[queue]:
        queue, parent = parent, int(queues.tree.parent_of_queue[parent])
    return queues.name[queue]


def requeued(jobs: JobTable, facts: Mapping[str, object]) -> JobTable:
    """Return the jobs, those whose time was over as old as that is.

    So they stand behind their equals, wherever the age of a job counts. Without such jobs the table
    is the same object.
    """
    since = facts.get(FACT)
    if not (since and isinstance(since, Mapping)):
        return jobs
    created_s = jobs.created_s.copy()
    for row, name in enumerate(jobs.name):
        if name in since:
            created_s[row] = max(created_s[row], since[name])
    created_s.setflags(write=False)
    return replace(jobs, created_s=created_s)
