"""What must hold for evictions: whose, for whom, and what is left behind.

They are judged from the snapshot and the result alone, so what depends on the moment within the
cycle at which a unit was taken is judged in the way that is kindest to the cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.states import ACTIVE_STATES
from kaisched.core.tree import roll_up
from kaisched.framework.invariant_sums import Moves, is_job_met
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import Amounts, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.intents import Evict

UNDERSHOOTS: Final = "below its quota"
"""What an eviction says that may leave its queue with less than it deserves."""
_RECLAIM: Final = "reclaim"
_PREEMPT: Final = "preempt"
_CONSOLIDATE: Final = "consolidate"
_STALE: Final = "stalegang"


def victims(moves: Moves) -> Iterator[str]:
    """I13: what is evicted runs, is ours, goes once, and may be preempted or is stale."""
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
        elif each.action != _STALE and not jobs.is_preemptible[job]:
            yield f"I13 pod {tasks.name[each.task]} is evicted but is not preemptible"


def evictions(moves: Moves) -> Iterator[str]:
    """I4, I9, I11, I12, I14: each eviction is for somebody, by the rules of its action."""
    if not moves.result.evict_tasks.size:
        return
    yield from _whole_or_nothing(moves)
    yield from _moved_elsewhere(moves)
    wanted = {each.beneficiary for each in moves.result.evictions}
    names = enumerate(moves.snapshot.jobs.name)
    taker_of_name = {name: row for row, name in names if name in wanted}
    by_action: dict[str, list[Evict]] = {}
    for each in moves.result.evictions:
        by_action.setdefault(each.action, []).append(each)
    yield from _stale(moves, by_action.pop(_STALE, []))
    yield from _served(moves, by_action, taker_of_name)
    yield from _preempted(moves.snapshot, by_action.get(_PREEMPT, []), taker_of_name)
    yield from _reclaimed(moves, by_action.get(_RECLAIM, []), taker_of_name)


def _whole_or_nothing(moves: Moves) -> Iterator[str]:
    """I4: of a job that loses pods, all that are needed keep running or move, or none does."""
    snapshot = moves.snapshot
    podsets, jobs = snapshot.podsets, snapshot.jobs
    lost = moves.by_podset(moves.gone)
    kept = podsets.active - lost
    for row in np.flatnonzero((lost > 0) & (kept > 0) & (kept < podsets.minimum)).tolist():
        if podsets.active[row] >= podsets.minimum[row]:
            name = jobs.name[int(podsets.job_of_podset[row])]
            yield f"I4 job {name}, pod set {podsets.name[row]}: {kept[row]} of a gang are left"
    for job in np.unique(snapshot.tasks.job_of_task[moves.gone]).tolist():
        first = int(jobs.first_podset[job])
        last = first + int(jobs.podset_count[job])
        if not kept[first:last].any() or job not in jobs.structure:
            continue
        if is_job_met(snapshot, job, podsets.active) and not is_job_met(snapshot, job, kept):
            yield f"I4 job {jobs.name[job]}: it keeps pods, but not all that it needs"


def _moved_elsewhere(moves: Moves) -> Iterator[str]:
    """I14: a move is to another node, and consolidate does nothing but move."""
    tasks = moves.snapshot.tasks
    result = moves.result
    target = dict(zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True))
    for each in result.evictions:
        node = target.get(each.task)
        if node is None and each.action == _CONSOLIDATE:
            yield f"I14 pod {tasks.name[each.task]} is evicted to be moved, but gets no node"
        elif node == tasks.node_of_task[each.task]:
            yield f"I14 pod {tasks.name[each.task]} is moved to the node it is on"


def _stale(moves: Moves, found: Sequence[Evict]) -> Iterator[str]:
    """I4: a gang that is ended for being stale lacks pods, and all of it ends."""
    snapshot = moves.snapshot
    podsets, jobs = snapshot.podsets, snapshot.jobs
    kept = podsets.active - moves.by_podset(moves.gone)
    rows = np.array([each.task for each in found], np.int64)
    for job in np.unique(snapshot.tasks.job_of_task[rows]).tolist():
        first = int(jobs.first_podset[job])
        part = slice(first, first + int(jobs.podset_count[job]))
        if (podsets.active[part] >= podsets.minimum[part]).all():
            yield f"I4 job {jobs.name[job]} is ended as stale, but is whole"
        if kept[part].any():
            yield f"I4 job {jobs.name[job]} is ended as stale, but keeps pods"


def _served(
    moves: Moves, by_action: Mapping[str, list[Evict]], taker_of_name: Mapping[str, int]
) -> Iterator[str]:
    """I12: who others are evicted for is placed, with all it needs to run."""
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


def _reclaimed(
    moves: Moves, found: Sequence[Evict], taker_of_name: Mapping[str, int]
) -> Iterator[str]:
    """I9: reclaim takes from who is over its share, for who stays within its own."""
    if not found:
        return
    snapshot = moves.snapshot
    jobs, tree = snapshot.jobs, snapshot.queues.tree
    stays = set(moves.moved.tolist())
    pairs: dict[tuple[int, int], bool] = {}
    for each in found:
        taker = taker_of_name.get(each.beneficiary)
        if taker is None or each.task in stays:
            continue
        giver = int(jobs.queue_of_job[int(snapshot.tasks.job_of_task[each.task])])
        key = giver, int(jobs.queue_of_job[taker])
        pairs[key] = pairs.get(key, False) or UNDERSHOOTS in each.reason
    losers: dict[int, bool] = {}
    met: set[int] = set()
    for (giver, taker), is_said in pairs.items():
        path = _own_part(tree.path(giver).tolist(), tree.path(taker).tolist())
        if not path:
            yield f"I9 queue {snapshot.queues.name[giver]} reclaims from itself"
            continue
        met.add(path[-1])
        for queue in path:
            losers[queue] = losers.get(queue, False) or is_said
    share = _fair_share(moves)
    yield from _were_over(moves, sorted(met), share)
    yield from _keep_quota(moves, found, losers)
    yield from _stay_within(
        moves, {taker_of_name[name] for name in _names(found, taker_of_name)}, share
    )


def _names(found: Sequence[Evict], taker_of_name: Mapping[str, int]) -> set[str]:
    return {each.beneficiary for each in found if each.beneficiary in taker_of_name}


def _own_part(mine: list[int], other: list[int]) -> list[int]:
    """Return a path, leaf first, up to where it meets the other one."""
    above = set(other)
    return [queue for queue in mine if queue not in above]


def _fair_share(moves: Moves) -> Amounts:
    """``(R, Q)`` fair shares as the result tells them."""
    snapshot = moves.snapshot
    share = np.full((len(snapshot.axis), len(snapshot.queues)), UNLIMITED, np.int64)
    for row, queue in enumerate(moves.result.shares):
        for name, amount in queue.fair_share.items():
            if amount >= 0:
                share[snapshot.axis.position[name], row] = amount
    return share


def _were_over(moves: Moves, queues: Sequence[int], share: Amounts) -> Iterator[str]:
    """Report queues that lose although, with all they ever held, they are over nothing."""
    snapshot = moves.snapshot
    table = snapshot.queues
    most = roll_up(snapshot.allocated + moves.by_queue(moves.placed), table.tree)
    bound = np.minimum(np.minimum(share, table.deserved), table.limit)
    is_over = (most > bound) & (bound < UNLIMITED)
    is_over[PODS] = False
    for queue in queues:
        if not is_over[:, queue].any():
            yield f"I9 queue {table.name[queue]} gives, but holds no more than its share"


def _keep_quota(moves: Moves, found: Sequence[Evict], losers: Mapping[int, bool]) -> Iterator[str]:
    """Report queues taken from at least their quota to below it by evictions that do not say so."""
    snapshot = moves.snapshot
    table = snapshot.queues
    taken: RowVec = np.intersect1d(moves.gone, [each.task for each in found])
    others = np.setdiff1d(moves.gone, taken)
    held = snapshot.allocated - moves.by_queue(others)
    before = roll_up(held + moves.by_queue(moves.result.bind_tasks), table.tree)
    after = roll_up(held + moves.by_queue(moves.placed) - moves.by_queue(taken), table.tree)
    crossed = (before >= table.deserved) & (after < table.deserved) & (table.deserved < UNLIMITED)
    crossed[PODS] = False
    for queue, is_said in sorted(losers.items()):
        if is_said:
            continue
        for row in np.flatnonzero(crossed[:, queue]).tolist():
            name = snapshot.axis.names[row]
            yield (
                f"I9 queue {table.name[queue]} is left with"
                f" {name} {format_amount(name, int(after[row, queue]))} of a quota of"
                f" {format_amount(name, int(table.deserved[row, queue]))}, and no eviction says so"
            )


def _stay_within(moves: Moves, takers: set[int], share: Amounts) -> Iterator[str]:
    """Report leaf queues whose claims took them past both fair share and quota.

    Only what was claimed counts: other actions may give a queue more than its share.
    """
    snapshot = moves.snapshot
    table = snapshot.queues
    is_taker = np.zeros(len(snapshot.jobs.name), np.bool_)
    is_taker[list(takers)] = True
    claimed = moves.by_queue(moves.placed, is_taker)
    after = snapshot.allocated + claimed - moves.by_queue(moves.gone)
    bound = np.maximum(share, table.deserved)
    over = (after > bound) & (claimed > 0)
    over[PODS] = False
    for row, queue in np.argwhere(over).tolist():
        name = snapshot.axis.names[row]
        yield (
            f"I9 queue {table.name[queue]} reclaims up to"
            f" {name} {format_amount(name, int(after[row, queue]))}, past its fair share and quota"
            f" of {format_amount(name, int(bound[row, queue]))}"
        )
