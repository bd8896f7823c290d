"""Invariants of evictions: victims, beneficiaries, and the pods that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES
from kaisched.core.tables import DRAINED
from kaisched.framework.invariants.sums import Moves, is_job_met
from kaisched.framework.session.limits import beyond_budgets, limited_jobs
from kaisched.objects.shard import BUDGETS_ALWAYS, BUDGETS_WITHIN_FAIR_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Evict

_PREEMPT: Final = "preempt"
_RECLAIM: Final = "reclaim"
_CONSOLIDATE: Final = "consolidate"
STALE: Final = "stalegang"
_DRAIN: Final = "drain"
_TIME_LIMIT: Final = "timelimit"


def victims(moves: Moves) -> Iterator[str]:
    """I13: an evicted pod runs, is ours, is evicted once, and is one that its action may evict."""
    snapshot, result = moves.snapshot, moves.result
    tasks, jobs = snapshot.tasks, snapshot.jobs
    if [each.task for each in result.evictions] != result.evict_tasks.tolist():
        yield "I13 the evictions and their column differ"
        return
    rows, counts = np.unique(result.evict_tasks, return_counts=True)
    for row in rows[counts > 1].tolist():
        yield f"I13 pod {tasks.name[row]} is evicted more than once"
    for each in result.evictions:
        job = int(tasks.job_of_task[each.task])
        if job < 0:
            yield f"I13 pod {tasks.name[each.task]} is evicted but is not ours"
        elif not ACTIVE_STATES[tasks.state[each.task]]:
            yield f"I13 pod {tasks.name[each.task]} is evicted but does not run"
        elif tasks.node_of_task[each.task] < 0:
            yield f"I13 pod {tasks.name[each.task]} is evicted but is on no node that is known"
        elif each.action not in {STALE, _DRAIN, _TIME_LIMIT} and not jobs.is_preemptible[job]:
            yield f"I13 pod {tasks.name[each.task]} is evicted but is not preemptible"


def evictions(
    moves: Moves,
    budgets_hold: str | float = BUDGETS_WITHIN_FAIR_SHARE,
    *,
    may_take_own: bool = False,
) -> Iterator[str]:
    """I4, I11, I12, I14, I23: each eviction has a beneficiary and obeys the rules of its action.

    Args:
        moves: what the cycle has moved.
        budgets_hold: when disruption budgets hold, as the policy says.
        may_take_own: the policy of the shard lets reclaim take from the claim's own queue.

    """
    if not moves.result.evict_tasks.size:
        return
    yield from _whole_or_nothing(moves)
    yield from _moved_elsewhere(moves)
    yield from _within_budgets(moves, budgets_hold)
    wanted = {each.beneficiary for each in moves.result.evictions}
    names = enumerate(moves.snapshot.jobs.name)
    taker_of_name = {name: row for row, name in names if name in wanted}
    by_action: dict[str, list[Evict]] = {}
    for each in moves.result.evictions:
        by_action.setdefault(each.action, []).append(each)
    yield from _stale(moves, by_action.pop(STALE, []))
    yield from _drained(moves, by_action.pop(_DRAIN, []))
    yield from _ended(moves, by_action.pop(_TIME_LIMIT, []))
    yield from _served(moves, by_action, taker_of_name)
    yield from _preempted(moves.snapshot, by_action.get(_PREEMPT, []), taker_of_name)
    if not may_take_own:
        yield from _made_way(moves, by_action.get(_RECLAIM, []), taker_of_name)


def _whole_or_nothing(moves: Moves) -> Iterator[str]:
    """I4: a job that loses pods keeps or moves all pods that it needs, or keeps none.

    Pods on unknown nodes cannot be evicted, and count neither before nor after.
    """
    snapshot = moves.snapshot
    podsets, jobs = snapshot.podsets, snapshot.jobs
    lost = moves.by_podset(moves.gone)
    before = podsets.active - moves.by_podset(moves.stranded)
    kept = before - lost
    for row in np.flatnonzero((lost > 0) & (kept > 0) & (kept < podsets.minimum)).tolist():
        if before[row] >= podsets.minimum[row]:
            name = jobs.name[int(podsets.job_of_podset[row])]
            yield f"I4 job {name}, pod set {podsets.name[row]}: {kept[row]} of a gang are left"
    for job in np.unique(snapshot.tasks.job_of_task[moves.gone]).tolist():
        first = int(jobs.first_podset[job])
        last = first + int(jobs.podset_count[job])
        if not kept[first:last].any() or job not in jobs.structure:
            continue
        if is_job_met(snapshot, job, before) and not is_job_met(snapshot, job, kept):
            yield f"I4 job {jobs.name[job]}: it keeps pods, but not all that it needs"


def _gets_other_gpus(moves: Moves, task: int) -> bool:
    """Tell whether a pod with parts of GPUs is promised parts of other ones."""
    cards, promised = moves.snapshot.nodes.cards, moves.result.nominate_cards.get(task)
    if cards is None or promised is None:
        return False
    return bool(promised.later) or set(promised.opened) != set(cards.slots_of_task[task])


def _moved_elsewhere(moves: Moves) -> Iterator[str]:
    """I14: a move is to another node or to other GPUs, and consolidate only moves.

    Of pods that move together, one pod may come back to its old node.
    """
    tasks = moves.snapshot.tasks
    result = moves.result
    target = dict(zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True))
    moved = {
        int(tasks.job_of_task[task])
        for task in result.evict_tasks.tolist()
        if target.get(task, tasks.node_of_task[task]) != tasks.node_of_task[task]
        or _gets_other_gpus(moves, task)
    }
    for each in result.evictions:
        node = target.get(each.task)
        if node is None and each.action == _CONSOLIDATE:
            yield f"I14 pod {tasks.name[each.task]} is evicted to be moved, but gets no node"
        elif node == tasks.node_of_task[each.task] and tasks.job_of_task[each.task] not in moved:
            yield f"I14 pod {tasks.name[each.task]} is moved to the node it is on"


def _within_budgets(moves: Moves, hold: str | float) -> Iterator[str]:
    """I23: a disruption budget is only exceeded for a job that may do so.

    It says so, and nothing else does.
    """
    tasks, evictions = moves.snapshot.tasks, moves.result.evictions
    beyond = beyond_budgets(moves.snapshot, [each.task for each in evictions])
    for each, is_beyond in zip(evictions, beyond, strict=True):
        name = tasks.name[each.task]
        if each.ignores_budget != is_beyond:
            what = "would" if is_beyond else "would not"
            yield f"I23 a disruption budget {what} refuse to evict pod {name}, unlike it says"
        elif is_beyond and (each.action not in {_RECLAIM, _PREEMPT} or hold == BUDGETS_ALWAYS):
            yield f"I23 pod {name} is evicted by {each.action}, but a disruption budget refuses it"


def _stale(moves: Moves, found: Sequence[Evict]) -> Iterator[str]:
    """I4: a gang that is evicted as stale lacks pods, and all its pods are evicted."""
    snapshot = moves.snapshot
    podsets, jobs = snapshot.podsets, snapshot.jobs
    kept = podsets.active - moves.by_podset(moves.gone) - moves.by_podset(moves.stranded)
    rows = np.array([each.task for each in found], np.int64)
    for job in np.unique(snapshot.tasks.job_of_task[rows]).tolist():
        first = int(jobs.first_podset[job])
        part = slice(first, first + int(jobs.podset_count[job]))
        if (podsets.active[part] >= podsets.minimum[part]).all():
            yield f"I4 job {jobs.name[job]} is ended as stale, but is whole"
        if kept[part].any():
            yield f"I4 job {jobs.name[job]} is ended as stale, but keeps pods"


def _drained(moves: Moves, found: Sequence[Evict]) -> Iterator[str]:
    """I13: a pod is drained only from a queue whose stop policy drains it."""
    snapshot = moves.snapshot
    for each in found:
        queue = int(snapshot.jobs.queue_of_job[int(snapshot.tasks.job_of_task[each.task])])
        if queue < 0 or snapshot.queues.stop_of_queue[queue] != DRAINED:
            yield f"I13 pod {snapshot.tasks.name[each.task]} is drained, but its queue is not"


def _ended(moves: Moves, found: Sequence[Evict]) -> Iterator[str]:
    """I13: a pod whose time is over is in a queue that limits the time of its job."""
    snapshot = moves.snapshot
    limited = set(limited_jobs(snapshot.queues, snapshot.jobs)[0].tolist()) if found else ()
    for each in found:
        if int(snapshot.tasks.job_of_task[each.task]) not in limited:
            yield f"I13 pod {snapshot.tasks.name[each.task]} is ended, but its time is not limited"


def _served(
    moves: Moves, by_action: Mapping[str, list[Evict]], taker_of_name: Mapping[str, int]
) -> Iterator[str]:
    """I12: the beneficiary of an eviction is placed, with all pods it needs to run."""
    snapshot = moves.snapshot
    placed = moves.by_podset(moves.placed)
    after = snapshot.podsets.active - moves.by_podset(moves.gone) + placed
    claims = {(action, each.beneficiary) for action, some in by_action.items() for each in some}
    for action, name in sorted(claims):
        job = taker_of_name.get(name)
        if job is None:
            yield f'I12 {action} evicts for "{name}", which is no job'
            continue
        first = int(snapshot.jobs.first_podset[job])
        part = slice(first, first + int(snapshot.jobs.podset_count[job]))
        if not placed[part].any() or not is_job_met(snapshot, job, after):
            yield f"I12 {action} evicts for job {name}, which is not placed"


def _preempted(
    snapshot: Snapshot, found: Sequence[Evict], taker_of_name: Mapping[str, int]
) -> Iterator[str]:
    """I11: preempt takes from lower priorities of the same queue."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    for each in found:
        taker = taker_of_name.get(each.beneficiary)
        if taker is None:
            continue  # I12 says so
        job = int(tasks.job_of_task[each.task])
        if jobs.queue_of_job[job] != jobs.queue_of_job[taker]:
            yield (
                f"I11 pod {tasks.name[each.task]} is preempted by job {each.beneficiary}"
                " of another queue"
            )
        elif jobs.priority[job] >= jobs.priority[taker]:
            yield (
                f"I11 pod {tasks.name[each.task]} of priority {jobs.priority[job]} is preempted by"
                f" job {each.beneficiary} of priority {jobs.priority[taker]}"
            )


def _made_way(
    moves: Moves, found: Sequence[Evict], taker_of_name: Mapping[str, int]
) -> Iterator[str]:
    """I11, I14: pods that reclaim evicts of the claim's own queue move, for no lower priority."""
    jobs, tasks = moves.snapshot.jobs, moves.snapshot.tasks
    placed = set(moves.result.nominate_tasks.tolist())
    for each in found:
        taker = taker_of_name.get(each.beneficiary)
        job = int(tasks.job_of_task[each.task])
        if taker is None or jobs.queue_of_job[job] != jobs.queue_of_job[taker]:
            continue
        if each.task not in placed:
            yield f"I14 pod {tasks.name[each.task]} makes way in its own queue, but gets no node"
        if jobs.priority[job] > jobs.priority[taker]:
            yield (
                f"I11 pod {tasks.name[each.task]} of priority {jobs.priority[job]} makes way for"
                f" job {each.beneficiary} of priority {jobs.priority[taker]}"
            )
