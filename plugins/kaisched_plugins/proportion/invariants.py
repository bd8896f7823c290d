"""Invariants of proportion after each cycle: limits and quotas, and reclaim.

I7 and I8: no queue grows over its limit, nor non-preemptibly over its quota. I9 and I10: which
queues lose to reclaim, how much, and which queues take, claim by claim. Each claim is judged by
what queues held at its turn: all earlier decisions of the cycle count as done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kaisched import (
    GPU,
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Moves,
    RowVec,
    Step,
    format_amount,
    roll_up,
    shares,
    worth,
)
from kaisched_plugins.proportion.reasons import UNDERSHOT
from kaisched_plugins.proportion.standing import firm_quotas

_RECLAIM: Final = "reclaim"


@dataclass(frozen=True)
class _Take:
    """A claim that was met, with what queues hold at every level, ``(R, Q)``."""

    moves: Moves
    told: Amounts
    """Fair shares of the division, ``(R, Q)``."""
    deserved: Amounts
    """What quotas are worth (R34), and shares."""
    share: Amounts
    queue: int
    """The claim's leaf queue."""
    held: Amounts
    """What queues held before the claim."""
    asked: Amounts
    """What was placed for the claim."""
    lost: Amounts
    """What queues lost for the claim; a moved pod is no loss."""
    is_said: bool
    """True when the reason of its evictions says that a quota is undershot."""
    parts: BoolVec
    """``(Q,)`` leaf queues that lost parts of GPUs."""

    def say(self, resource: int, amount: int) -> str:
        """Return a resource and an amount of it as text."""
        name = self.moves.snapshot.axis.names[resource]
        return f"{name} {format_amount(name, amount)}"


def broken(moves: Moves, quota_scope: str) -> Iterator[str]:
    """Yield a line for each rule that a result breaks."""
    yield from _bounds(moves, quota_scope)
    wanted = {step.beneficiary for step in moves.result.steps if step.action == _RECLAIM}
    names = enumerate(moves.snapshot.jobs.name) if wanted else ()
    yield from _reclaims(moves, {name: row for row, name in names if name in wanted})


def _bounds(moves: Moves, quota_scope: str) -> Iterator[str]:
    """I7, I8: no queue grows over its limit, or non-preemptibly over its quota."""
    snapshot = moves.snapshot
    queues = snapshot.queues
    if not len(moves.placed):
        return
    for rule, word, counts, held, bound in (
        ("I7", "limit", None, snapshot.allocated, queues.limit),
        (
            "I8",
            "quota",
            ~snapshot.jobs.is_preemptible,
            snapshot.allocated_non_preemptible,
            firm_quotas(queues.deserved, snapshot.overdrawn, quota_scope),
        ),
    ):
        change = moves.change(counts)
        for more, after, when in (
            (change, held + change, ""),
            (*moves.bound_beside(counts), ", with what still leaves"),
        ):
            growth, has = (roll_up(each, queues.tree) for each in (more, after))
            is_broken = (growth > 0) & (bound < UNLIMITED) & (has > bound)
            for resource, row in np.argwhere(is_broken).tolist():
                name = snapshot.axis.names[resource]
                yield (
                    f"{rule} queue {queues.name[row]}:"
                    f" {name} {format_amount(name, int(has[resource, row]))}"
                    f" is over its {word} of {format_amount(name, int(bound[resource, row]))}{when}"
                )


def _reclaims(moves: Moves, taker_of_name: Mapping[str, int]) -> Iterator[str]:
    """I9, I10: reclaim takes from queues over their share, for queues that stay within theirs."""
    result, snapshot = moves.result, moves.snapshot
    steps = [step for step in result.steps if step.action == _RECLAIM]
    in_steps = [at for step in steps for at in range(*step.evictions)]
    said = [at for at, each in enumerate(result.evictions) if each.action == _RECLAIM]
    if in_steps != said:
        yield "I9 evictions of reclaim belong to no claim, or to more than one"
        return
    share = _fair_share(moves)
    for step in steps:
        job = taker_of_name.get(step.beneficiary)
        if job is None or step.evictions[0] == step.evictions[1]:
            continue  # I12 speaks of the one; the other took from nobody
        yield from _judge(_take(moves, share, int(snapshot.jobs.queue_of_job[job]), step))


def _fair_share(moves: Moves) -> Amounts:
    """``(R, Q)`` fair shares of the result."""
    snapshot = moves.snapshot
    share = np.full((len(snapshot.axis), len(snapshot.queues)), UNLIMITED, np.int64)
    for row, queue in enumerate(moves.result.shares):
        for name, amount in queue.fair_share.items():
            if amount >= 0:
                share[snapshot.axis.position[name], row] = amount
    return share


def _take(moves: Moves, share: Amounts, queue: int, step: Step) -> _Take:
    snapshot, result = moves.snapshot, moves.result
    (bind, bound), (promise, promised), (evict, evicted) = step[2:]
    placed = np.concatenate((result.bind_tasks[:bind], result.nominate_tasks[:promise]))
    held = snapshot.allocated + moves.by_queue(placed)
    held -= moves.by_queue(result.evict_tasks[:evict], is_before=True)
    held += moves.handed_on(result.evict_tasks[:evict])
    gone = result.evict_tasks[evict:evicted]
    placed = np.concatenate(
        (result.bind_tasks[bind:bound], result.nominate_tasks[promise:promised])
    )
    lost = moves.by_queue(np.setdiff1d(gone, placed), is_before=True)  # who moves is in both
    lost -= moves.handed_on(gone)
    asked = moves.by_queue(np.setdiff1d(placed, gone))
    held, asked, lost = (roll_up(each, snapshot.queues.tree) for each in (held, asked, lost))
    is_said = any(UNDERSHOT in result.evictions[at].reason for at in range(evict, evicted))
    table = snapshot.queues
    stays = snapshot.allocated_non_preemptible
    stays = stays + moves.by_queue(moves.stranded, snapshot.jobs.is_preemptible)
    fixed = roll_up(stays, table.tree)
    columns = (table.deserved, share, fixed, table.priority)
    worths = worth(moves.fair_tree, snapshot.axis.unit, columns)
    return _Take(moves, share, *worths, queue, held, asked, lost, is_said, _parts(moves, gone))


def _parts(moves: Moves, gone: RowVec) -> BoolVec:
    """``(Q,)`` the leaf queues of pods with parts of GPUs."""
    snapshot = moves.snapshot
    devices = [limits.devices for limits in snapshot.shapes.constraints]
    is_part = np.array([it is not None and it.is_share for it in devices], np.bool_)
    found = np.zeros(len(snapshot.queues), np.bool_)
    tasks = gone[is_part[snapshot.tasks.shape_of_task[gone]]]
    found[snapshot.jobs.queue_of_job[snapshot.tasks.job_of_task[tasks]]] = True
    return found


def _judge(take: _Take) -> Iterator[str]:
    """Judge one claim."""
    table, tree = take.moves.snapshot.queues, take.moves.fair_tree
    mine = tree.path(take.queue).tolist()
    losers: set[int] = set()
    met: dict[int, int] = {}
    for leaf in np.flatnonzero(tree.is_leaf & (take.lost > 0).any(axis=0)).tolist():
        theirs = tree.path(leaf).tolist()
        own = [queue for queue in theirs if queue not in mine]
        if not own:
            yield f"I9 queue {table.name[leaf]} reclaims from itself"
            continue
        losers.update(own)
        # Above the compared queues, both paths are the same.
        met[own[-1]] = mine[len(own) - len(theirs) - 1]
    for giver, taker in sorted(met.items()):
        yield from _was_over(take, giver, taker)
    for queue in sorted(losers) if not take.is_said else ():
        yield from _keeps_quota(take, queue)
    yield from _stays_within(take)
    for giver, taker in sorted(met.items()):
        yield from _keeps_order(take, giver, taker)


def _was_over(take: _Take, giver: int, taker: int) -> Iterator[str]:
    """Report a queue that loses although it held no more than its share (R20)."""
    table = take.moves.snapshot.queues
    has, deserved = take.held[:, giver], take.deserved[:, giver]
    after = take.held[:, taker] + take.asked[:, taker]
    over = has > shares.allocatable_share(deserved, table.limit[:, giver], take.share[:, giver])
    touched = take.lost[:, giver] > 0
    if not _but_pods(after > take.share[:, taker]).any():
        touched |= take.asked[:, taker] == 0
    over &= touched
    owes = False
    if not _but_pods(after > take.deserved[:, taker]).any():
        counts = (take.asked[:, taker] > 0) & (deserved < UNLIMITED)
        owes = bool((has > deserved)[counts].any() and (has >= deserved)[counts].all())
    if not owes and not _but_pods(over).any() and not _gives_parts(take, giver):
        yield f"I9 queue {table.name[giver]} gives, but holds no more than its share"


def _gives_parts(take: _Take, giver: int) -> bool:
    """Tell whether only parts of GPUs beyond quotas go, for a claim within its quota (R37)."""
    tree, quota, has = take.moves.fair_tree, take.deserved[GPU], take.held[GPU]
    if has[take.queue] + take.asked[GPU, take.queue] > quota[take.queue]:
        return False
    leaves = np.flatnonzero(tree.is_leaf & (take.lost > 0).any(axis=0)).tolist()
    paths = {leaf: tree.path(leaf).tolist() for leaf in leaves}
    lose = {leaf: path[: path.index(giver) + 1] for leaf, path in paths.items() if giver in path}
    return all(take.parts[leaf] and (has > quota)[path].any() for leaf, path in lose.items())


def _keeps_quota(take: _Take, queue: int) -> Iterator[str]:
    """Report a queue taken from at least its quota to below it, where no eviction says so."""
    table = take.moves.snapshot.queues
    deserved, before = take.deserved[:, queue], take.held[:, queue]
    after = before - take.lost[:, queue]
    crossed = (before >= deserved) & (after < deserved) & (deserved < UNLIMITED)
    for row in np.flatnonzero(_but_pods(crossed)).tolist():
        has, quota = take.say(row, int(after[row])), take.say(row, int(deserved[row]))
        yield (
            f"I9 queue {table.name[queue]} is left with {has} of a quota of"
            f" {quota.partition(' ')[2]}, and no eviction says so"
        )


def _stays_within(take: _Take) -> Iterator[str]:
    """Report a leaf queue whose claim took it past both fair share and quota."""
    table = take.moves.snapshot.queues
    asked = take.asked[:, take.queue]
    after = take.held[:, take.queue] + asked
    bound = np.maximum(take.told[:, take.queue], table.deserved[:, take.queue])
    for row in np.flatnonzero(_but_pods((after > bound) & (asked > 0))).tolist():
        has, most = take.say(row, int(after[row])), take.say(row, int(bound[row]))
        yield (
            f"I9 queue {table.name[take.queue]} reclaims up to {has}, past its fair share and"
            f" quota of {most.partition(' ')[2]}"
        )


def _keeps_order(take: _Take, giver: int, taker: int) -> Iterator[str]:
    """I10: report a queue that takes from a queue which is then no more saturated than the taker.

    A multiplier of the shard, which damps reclaim, would only be stricter.
    """
    table = take.moves.snapshot.queues
    after = take.held[:, taker] + take.asked[:, taker]
    left = take.held[:, giver] - take.lost[:, giver]
    touched = (take.asked[:, taker] > 0) | (take.lost[:, giver] > 0)
    broken = touched & shares.breaks_saturation_order(
        after, take.share[:, taker], left, take.share[:, giver]
    )
    for row in np.flatnonzero(_but_pods(broken)).tolist():
        mine, theirs = take.say(row, int(after[row])), take.say(row, int(left[row]))
        fair = [
            take.say(row, int(take.share[row, queue])).partition(" ")[2] for queue in (taker, giver)
        ]
        yield (
            f"I10 queue {table.name[taker]} takes up to {mine} of a fair share of {fair[0]} from"
            f" queue {table.name[giver]}, which keeps {theirs.partition(' ')[2]} of {fair[1]}"
        )


def _but_pods(found: BoolVec) -> BoolVec:
    """Leave out pod slots, which are never counted."""
    found[PODS] = False
    return found
