"""Stalegang: evict jobs that have run below their minimum for longer than their grace period.

A gang that lost a pod keeps its room for a while, since its controller may create another pod. When
the grace period is over, the remaining pods are evicted. Then the gang waits as a whole and other
jobs can use the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, HOLDING_STATES, TaskState
from kaisched.framework.session.limits import may_disrupt, may_evict
from kaisched.framework.session.order import jobs_by_age, ordered_tasks
from kaisched.units import format_duration

if TYPE_CHECKING:
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.session import Session

_DEFAULT: Final = "default"
_NAME: Final = "stalegang"
_MAY_RECOVER: Final = "stalegang.hopes"
"""The fact with the time since when jobs are stale that may soon reach their minimum again."""
_PIPELINED: Final = int(TaskState.PIPELINED)
_PRESENT_STATES: Final = ACTIVE_STATES | HOLDING_STATES
"""States of pods that are not lost: those that are being deleted are leaving only."""
_PLACED_STATES: Final = _PRESENT_STATES.copy()
_PLACED_STATES[_PIPELINED] = False
"""States of pods that have their node or are being bound to it; a promise does not count."""
_SURE_STATES: Final = ACTIVE_STATES.copy()
_SURE_STATES[[_PIPELINED, int(TaskState.ALLOCATED), int(TaskState.BINDING)]] = False
"""States of pods that have their node for sure: no bind has yet to succeed, and none leaves."""
PATIENCE_S: Final = 20.0
"""A promise keeps a gang for so long past its grace period: victims may never leave."""


@dataclass(frozen=True, slots=True)
class StaleGangs:
    """The stalegang action. It remembers by job name since when the job is stale, in seconds.

    A stale job is not evicted while a bind or a promise may complete it, or while its pods leave.
    If these fail, its time runs on: otherwise binds that fail again and again, or plans of
    evictions that are dropped, would keep the job for ever.
    """

    name: str = _NAME

    def run(self, session: Session) -> None:
        """Evict the remaining pods of gangs whose grace period is over."""
        before = _remembered(session)
        since: dict[str, float] = {}
        may_recover: dict[str, float] = {}
        served = {eviction.beneficiary for eviction in session.outcome.evictions}
        for job in _below_minimum(session, before):
            session.trying = (job,)
            name, grace_s = session.jobs.name[job], _grace(session, job)
            since_s = before.get(name, session.now_s)
            end_s = since_s + grace_s
            lacking = _lacking(session, job, _PRESENT_STATES)
            if lacking:
                since[name] = since_s
            else:
                lacking = _lacking(session, job, _PLACED_STATES)
                end_s += PATIENCE_S
                if lacking or (name in before and not _is_whole_for_sure(session, job)):
                    may_recover[name] = since_s
            # Others were evicted for it just now: the next cycle evicts it if that was of no use.
            is_due = grace_s >= 0 and session.now_s >= end_s and job not in served
            if lacking and is_due and job not in session.barred:
                self._evict(session, job, _reason(session, lacking, since_s, grace_s))
        session.facts[self.name] = since  # even if empty: its absence means a restart
        if may_recover:
            session.facts[_MAY_RECOVER] = may_recover

    def _evict(self, session: Session, job: int, reason: str) -> None:
        tasks, state = session.tasks, session.ledger.state
        gone = []
        for task in ordered_tasks(session, np.array(session.jobs.tasks[job], np.int64)).tolist():
            was = tasks.state[task]
            if ACTIVE_STATES[was] and state[task] == _PIPELINED:
                return  # a pod is being moved for a claim: the next cycle evicts the job
            if ACTIVE_STATES[was] and state[task] == was and tasks.node_of_task[task] >= 0:
                gone.append(task)
        if gone and may_evict(session, len(gone)) and may_disrupt(session, gone):
            statement = session.statement()
            for task in gone:
                statement.evict(task)
            statement.commit(self.name, -1, reason)


def _remembered(session: Session) -> dict[str, float]:
    """Return since when jobs are stale, as the last cycle remembered.

    The time in the objects is used only after a restart, when nothing is remembered. Later it may
    be left over from an earlier time that the job was stale.
    """
    facts = session.memory.facts
    if _NAME in facts:
        return {**facts.get(_MAY_RECOVER, {}), **facts[_NAME]}
    jobs = session.jobs
    noted = np.flatnonzero(~np.isnan(jobs.stale_since_s)).tolist()
    return {jobs.name[job]: min(float(jobs.stale_since_s[job]), session.now_s) for job in noted}


def _below_minimum(session: Session, before: Mapping[str, float]) -> list[int]:
    """Return the running jobs with a pod set that has, or had, too few active pods.

    The oldest comes first: the eviction budget may not be enough for all. A job without running
    pods when the cycle began is left out, even if this cycle started some. Jobs that the last cycle
    remembered are included while they have pods on nodes: a bind under way may complete them, and
    pods that are to leave may stay.
    """
    podsets, jobs = session.podsets, session.jobs
    if not (np.count_nonzero(jobs.active) or before):
        return []
    is_partial = (podsets.active > 0) & (podsets.active < podsets.minimum)
    if session.has_moved:
        active = session.ledger.podset_active
        is_partial |= (active > 0) & (active < podsets.minimum)
    short: RowVec = podsets.job_of_podset[is_partial]
    if jobs.structure:  # another pod set of the job may run where this one has no pod left
        of_trees = np.fromiter(jobs.structure, np.int64, len(jobs.structure))
        short = np.concatenate([short, of_trees])
    short = short[jobs.active[short] > 0]
    if before:
        is_held = HOLDING_STATES[session.tasks.state]
        known = [
            job
            for job, name in enumerate(jobs.name)
            if name in before and is_held[list(jobs.tasks[job])].any()
        ]
        short = np.concatenate([short, np.array(known, np.int64)])
    if not short.size:
        return []
    rows = np.unique(short)
    ordered: list[int] = jobs_by_age(session, rows).tolist()
    return ordered


def _lacking(session: Session, job: int, counting: BoolVec) -> list[tuple[str, int, int]]:
    """Return (pod set, running pods, minimum) of the pod sets a job lacks; empty if not stale.

    Pods in one of the states of ``counting`` count as running; a job without any is not stale.
    """
    counts = _present(session, job, counting)
    podsets = session.podsets
    missed = _missed_rows(session, job, counts) if any(counts.values()) else []
    return [(podsets.name[row], counts[row], int(podsets.minimum[row])) for row in missed]


def _is_whole_for_sure(session: Session, job: int) -> bool:
    return not _missed_rows(session, job, _present(session, job, _SURE_STATES))


def _missed_rows(session: Session, job: int, counts: Mapping[int, int]) -> list[int]:
    """Return the pod sets with fewer pods than a job needs, of those that it cannot do without."""
    missing = {row: int(session.podsets.minimum[row]) - count for row, count in counts.items()}
    tree = session.jobs.structure.get(job)
    rows = _missed(tree, missing) if tree is not None else list(counts)
    return [row for row in rows if missing[row] > 0]


def _missed(group: SubGroup, missing: Mapping[int, int]) -> list[int]:
    """Return the pod sets below a subgroup that are missed, where by row so many pods are missing.

    Of those it could do without, the fullest are taken for needed.
    """
    if group.podset >= 0:
        return [group.podset] if missing[group.podset] > 0 else []
    of_children = [_missed(child, missing) for child in group.children]
    of_children.sort(key=lambda rows: sum(missing[row] for row in rows))
    return [row for rows in of_children[: group.min_subgroup] for row in rows]


def _present(session: Session, job: int, counting: BoolVec) -> dict[int, int]:
    """Return by pod set row how many pods are in a counted state, as of now."""
    first = int(session.jobs.first_podset[job])
    counts = dict.fromkeys(range(first, first + int(session.jobs.podset_count[job])), 0)
    tasks = session.tasks
    state = session.ledger.state if session.has_moved else tasks.state
    for task in session.jobs.tasks[job]:
        if counting[state[task]]:
            counts[int(tasks.podset_of_task[task])] += 1
    return counts


def _grace(session: Session, job: int) -> float:
    grace_s = float(session.jobs.staleness_grace_s[job])
    return session.policy.staleness_grace_s if np.isnan(grace_s) else grace_s


def _reason(
    session: Session, lacking: list[tuple[str, int, int]], since_s: float, grace_s: float
) -> str:
    of_sets = [
        f"{running} of the {minimum} pods needed run"
        + ("" if name == _DEFAULT else f" in subgroup {name}")
        for name, running, minimum in lacking
    ]
    age = format_duration(round(session.now_s - since_s, 3))
    return f"only {', '.join(of_sets)}, for {age}; the grace period is {format_duration(grace_s)}"
