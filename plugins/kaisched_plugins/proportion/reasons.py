"""The sentences of proportion for people, and the changes that it proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    GPU,
    PODS,
    UNLIMITED,
    Amounts,
    Change,
    Claim,
    Kind,
    Problem,
    Proposal,
    Reason,
    Session,
    Unit,
    asked_of,
    batch_of,
    charges,
    end_of_work,
    format_amount,
    larger_bounds,
    main_resource,
    possible_asks,
    roll_up,
    worth,
)
from kaisched_plugins.proportion import refusals

# The sentences of proportion for people: on refused jobs, evictions, and queues.


_WORTH = "proportion.worth"
_NAMED = 3
"""At most so many queues are named."""


# -- refusals ------------------------------------------------------------------------------------


def refused(session: Session, job: int, code: int, firm: Amounts) -> Reason | None:
    """Return a reason with the queue, the resource and the amounts of a refusal.

    ``firm`` are the quotas for non-preemptible work.
    """
    if code == refusals.OVER_FAIR_SHARE:
        return _over_fair_share(session, job)
    if code == refusals.OVER_LIMIT:
        return _over(session, job, session.queues.limit, "limit")
    if code == refusals.OVER_QUOTA:
        return _over(session, job, firm, "quota")
    return None


def _over(session: Session, job: int, bound: Amounts, word: str) -> Reason | None:
    """Name the lowest queue over its bound, and the resource."""
    asks = possible_asks(session, job)
    for ask in asks:
        if (found := _over_by(session, job, ask, bound, word)) is not None:
            if ask is asks[0]:
                return found
            # On the largest cards it would be within: it was not placed as these lack room.
            sentence = f"{found.sentence}, counted on the smallest cards; on cards large enough"
            return found._replace(sentence=f"{sentence} to stay within it there is too little room")
    return None


def _over_by(session: Session, job: int, ask: Amounts, bound: Amounts, word: str) -> Reason | None:
    held = session.held_now if word == "limit" else session.held_non_preemptible_now
    if session.held_stuck is not None:
        held = held + session.held_stuck[word != "limit"]
    names = session.axis.names
    for row in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        for resource, asked in enumerate(ask.tolist()):
            has, most = int(held[resource, row]), int(bound[resource, row])
            if not asked or most >= UNLIMITED or has + asked <= most:
                continue
            what, queue = names[resource], session.queues.name[row]
            sentence = (
                f"queue {queue}: {what} {format_amount(what, has)} held +"
                f" {format_amount(what, asked)} asked is over its {word} of"
                f" {format_amount(what, most)}"
            )
            if word == "quota":
                sentence += f" for non-preemptible work{_left(session, row, resource, most)}"
            numbers = {"queue": queue, "resource": what, "held": has, "asked": asked, word: most}
            return Reason(sentence, numbers)
    return None


def _left(session: Session, queue: int, resource: int, firm: int) -> str:
    """Say what is left of a quota where the project holds too much in other node pools."""
    quota = int(session.queues.deserved[resource, queue])
    if quota == firm or session.overdrawn is None:
        return ""
    what = session.axis.names[resource]
    written, over = (
        format_amount(what, it) for it in (quota, int(session.overdrawn[resource, queue]))
    )
    return (
        f", which is what is left of {written}: in other node pools its project holds {what}"
        f" {over} more than its quotas there"
    )


def _over_fair_share(session: Session, job: int) -> Reason | None:
    """Name the first resource in which the job's queue would pass its fair share."""
    queue = int(session.jobs.queue_of_job[job])
    held = session.held_now[:, queue]
    share, (*less, ask) = session.fair_share[:, queue], possible_asks(session, job)
    how = ", counted on the smallest cards" if less else ""
    for row in np.flatnonzero((ask > 0) & (held + ask > share) & (share < UNLIMITED)).tolist():
        if row == PODS:
            continue
        what = session.axis.names[row]
        has, asks, fair = (format_amount(what, int(each[row])) for each in (held, ask, share))
        name = f"queue {session.queues.name[queue]}"
        if held[row] == 0:
            size = batch_of(session, job)[1]
            who = "the pod" if size == 1 else f"the gang of {size}"
            return Reason(
                f"{name}: {who} asks for {what} {asks}{how}, more than its fair share of {fair}"
            )
        return Reason(
            f"{name}: {what} {has} held + {asks} asked{how} is over its fair share of {fair}"
        )
    return None


# -- evictions -----------------------------------------------------------------------------------


def reclaimed(session: Session, claim: Claim, units: Sequence[Unit]) -> Callable[[Session], str]:
    """Return a function for texts like ``reclaimed for Job a/x (queue b: gpu 0 to 1, ...) ...``.

    The sentence is made when it is read, with the amounts that queues hold now.
    """
    queues = {int(session.jobs.queue_of_job[unit.job]) for unit in units}
    held = session.held_now.copy()
    short = _undershoot(session, units, held) if claim.pass_number else ""
    return partial(_reclaimed, claim, sorted(queues), held, short)


def _reclaimed(claim: Claim, queues: list[int], held: Amounts, short: str, session: Session) -> str:
    resource = main_resource(session, claim.ask)
    losers = "; ".join(_loser(session, claim, queue, resource, held) for queue in queues[:_NAMED])
    more = f"; and {len(queues) - _NAMED} more queues" if len(queues) > _NAMED else ""
    taker = _standing(session, claim.queue, resource, held)
    return f"reclaimed for {session.jobs.title[claim.job]} ({taker}) from {losers}{more}{short}"


def _loser(session: Session, claim: Claim, queue: int, resource: int, held: Amounts) -> str:
    """Describe a queue that loses, and the queue above it if that one explains the loss.

    Queues of two departments are compared by what their departments hold. In a department that has
    less than the sum of its quotas, a queue may lose though it holds no more than its own share.
    """
    standing = _standing(session, queue, resource, held)
    path = session.fair_tree.path(queue).tolist()
    shared = set(session.fair_tree.path(claim.queue).tolist())
    compared = next(at for at, row in enumerate([*path[1:], -1]) if row in shared or row < 0)
    counts = _counts(session, path[compared], resource)
    if compared:
        return f"{standing} (in {_standing(session, path[compared], resource, held)}{counts})"
    if len(path) == 1 or session.held[resource, queue] > session.fair_share[resource, queue]:
        return standing
    return f"{standing}{counts} (in {_standing(session, path[1], resource, held)})"


def _counts(session: Session, queue: int, resource: int) -> str:
    """Name the reduced share and quota where the queue above has less than their sum (R34)."""
    queues, told = session.queues, (session.fair_share, session.queues.deserved)
    found: tuple[Amounts, Amounts] | None = session.found.get(_WORTH)
    if found is None:
        firm = session.held_not_evictable
        columns = queues.deserved, session.fair_share, firm, queues.priority
        found = session.found[_WORTH] = worth(session.fair_tree, session.axis.unit, columns)
    counts = [int(amounts[resource, queue]) for amounts in reversed(found)]
    if counts == [int(amounts[resource, queue]) for amounts in told]:
        return ""
    share, quota = (_shown(session.axis.names[resource], amount) for amount in counts)
    return f", which count as {share} and {quota}"


def _undershoot(session: Session, units: Sequence[Unit], held: Amounts) -> str:
    """Name a queue that is left below its quota, and the gang that was evicted as a whole."""
    queues, tree = session.queues, session.fair_tree
    paths = [tree.path(int(session.jobs.queue_of_job[unit.job])).tolist() for unit in units]
    for row in dict.fromkeys(row for path in paths for row in path):
        lost = [unit for unit, path in zip(units, paths, strict=True) if row in path]
        shapes = session.tasks.shape_of_task[[task for unit in lost for task in unit.tasks]]
        is_lost = session.shapes.charge[:, shapes].any(axis=1)
        quota = queues.deserved[:, row]
        if not (is_lost & (held[:, row] < quota) & (quota < UNLIMITED)).any():
            continue
        whole = max(len(unit.tasks) for unit in lost)
        why = f", as a gang of {whole} goes whole" if whole > 1 else ""
        return f"; queue {queues.name[row]} is left {UNDERSHOT}{why}"
    return ""


UNDERSHOT = "below its quota"
"""Words in the reason of an eviction that may leave its queue with less than it deserves."""


def _standing(session: Session, queue: int, resource: int, held_after: Amounts) -> str:
    name = session.axis.names[resource]
    before, after = (
        format_amount(name, int(held[resource, queue])) for held in (session.held, held_after)
    )
    told = session.fair_share, session.queues.deserved
    share, quota = (_shown(name, int(amounts[resource, queue])) for amounts in told)
    return (
        f"queue {session.queues.name[queue]}: {name} {before} to {after},"
        f" fair share {share}, quota {quota}"
    )


def _shown(resource: str, amount: int) -> str:
    return "unlimited" if amount >= UNLIMITED else format_amount(resource, amount)


# -- queues --------------------------------------------------------------------------------------


def without_share(session: Session) -> dict[int, Problem]:
    """Return the leaf queues whose jobs ask for a resource of which their fair share is 0."""
    is_leaf = session.queues.tree.is_leaf
    lacks = (session.requested > 0) & (session.fair_share == 0) & is_leaf
    lacks[PODS] = False
    found: dict[int, Problem] = {}
    for queue in np.flatnonzero(lacks.any(axis=0)).tolist():
        resource = int(lacks[:, queue].argmax())
        name, asked = session.axis.names[resource], int(session.requested[resource, queue])
        found[queue] = Problem(
            "NoFairShare",
            f"its jobs ask for {name} {format_amount(name, asked)} and its fair share is 0; give"
            " it or the queues above it a quota or an over-quota weight, or the cluster nodes",
        )
    return found


# Proposes cures for refusals of proportion: other bounds, the end of work, preemptibility.


def cures(session: Session, job: int, code: int) -> Iterator[Proposal]:
    """Yield the changes to try for a job that is refused with a code, likely ones first."""
    queues = session.queues
    if code == refusals.OVER_LIMIT:
        yield from larger_bounds(session, job, Kind.LIMIT, queues.limit)
        yield from end_of_work(session, job, queues.limit)
    else:
        yield from larger_bounds(session, job, Kind.QUOTA, queues.deserved)
        if code == refusals.OVER_QUOTA:
            yield Kind.PREEMPTIBLE, (Change(session.jobs.name[job]),)
            yield from end_of_work(session, job, queues.deserved)
        elif code == refusals.NOT_OVER_SHARE:
            yield from _bounds_of_others(session, job)


def _bounds_of_others(session: Session, job: int) -> Iterator[Proposal]:
    """Yield a quota for the queue that holds most of a resource without GPUs and without a quota.

    Of all that the job asks for; a queue above may lack the quota, too. A queue that mentions GPUs
    alone deserves all the rest without bound, so that its work without GPUs gives way to nobody.
    With the quota it keeps what its work on GPUs holds.
    """
    queues, tree, tasks = session.queues, session.queues.tree, session.tasks
    running = np.flatnonzero(ACTIVE_STATES[tasks.state] & (tasks.job_of_task >= 0))
    queue = session.jobs.queue_of_job[tasks.job_of_task[running]]
    running, queue = running[queue >= 0], queue[queue >= 0]
    held, kept = np.zeros_like(queues.deserved), np.zeros_like(queues.deserved)
    each = charges(session, running)
    for row, amounts in enumerate(each):
        np.add.at(held[row], queue, amounts)
        np.add.at(kept[row], queue, amounts * (each[GPU] > 0))
    kept = roll_up(kept, tree)
    mine = tree.path(int(session.jobs.queue_of_job[job])).tolist()
    is_free = np.append(queues.deserved >= UNLIMITED, np.zeros((len(held), 1), np.bool_), axis=1)
    is_free[:, mine] = False
    on_path = np.any(is_free[:, tree.path_of_leaf], axis=2)  # itself, or a queue above it
    free = np.where(on_path & tree.is_leaf, held - kept, 0)
    free[:, mine] = 0
    for resource in np.flatnonzero(asked_of(session, job) > 0).tolist():
        most = int(free[resource].argmax()) if len(queues) else 0
        if resource not in (GPU, PODS) and len(queues) and free[resource, most] > 0:
            name, apart = session.axis.names[resource], set(tree.path(most).tolist()) - {*mine}
            yield (
                Kind.QUOTA,
                tuple(
                    Change(queues.name[row], name, int(kept[resource, row]))
                    for row in sorted(apart)
                    if queues.deserved[resource, row] >= UNLIMITED
                ),
            )
