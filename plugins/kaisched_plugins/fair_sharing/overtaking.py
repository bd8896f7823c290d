"""Which waiting job would take the place that a plan makes: no plan is overtaken at once (F16).

Two jobs never displace each other, but three could for ever: a claim takes the place of a small
job of its own queue, with the idle room beside it. A job of a third queue, which comes before the
claim but not before the small one, takes it all; and the small one takes its quota back from that.
So a claim gives way to a job which waits, fits into the place but not beside the claim, comes first
in the knock-out, and whose walk begins at the queue of the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, Claim, Session, Units, asked_of
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import Rules, contested
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import Entry, entry_at
from kaisched_plugins.fair_sharing.returning import returning
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.waiting import (
    Class,
    first_of,
    free_on_nodes,
    waiting_of,
    waiting_work,
)
from kaisched_plugins.fair_sharing.work import NEVER, Work, may_take

_MOST: Final = 64
"""So many classes of waiting jobs are looked at for a plan, the lowest shares first."""


class _Place(NamedTuple):
    """What a plan frees, before the claim has it."""

    session: Session
    table: Table
    rules: Rules
    holdings: Holdings
    """Without the victims, and without the claim."""
    incoming: Work
    ask: Amounts
    """``(R,)`` of the claim."""
    free: Amounts
    """``(R,)`` on all nodes."""


def undone(
    session: Session,
    table: Table,
    rules: Rules,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    victims: Sequence[Work],
    units: Units,
) -> int:
    """Return why a plan would be undone at once, or 0; ``holdings`` lost the victims.

    Only what shares entitle to undoes a plan: a claim of high priority, one that is not preemptible
    and one of a tree without fair sharing keep their places. With flavors nobody is asked: a job
    that waits has chosen none yet.
    """
    is_open = table.is_on[claim.queue] and session.jobs.is_preemptible[claim.job]
    if incoming.is_high or not is_open or table.flavors is not None:
        return 0
    if returning(session, table, rules, holdings, claim, incoming, victims, units):
        return int(refusals.COMES_BACK)
    if overtaken_by(session, table, rules, holdings, claim, incoming):
        return int(refusals.OVERTAKEN)
    return 0


def overtaken_by(
    session: Session, table: Table, rules: Rules, holdings: Holdings, claim: Claim, incoming: Work
) -> Work | None:
    """Return the waiting job that would take the place; ``holdings`` lost the victims."""
    place = _Place(session, table, rules, holdings, incoming, claim.ask, free_on_nodes(session))
    return next(_rivals(place), None)


def _rivals(place: _Place) -> Iterator[Work]:
    """Yield the jobs that would take the place, of those that are looked at."""
    for each, node, mine in islice(_candidates(place), _MOST):
        work = _rival(place, each, node, mine)
        if work is not None:
            yield work


def _candidates(place: _Place) -> Iterator[tuple[Class, int, Entry]]:
    """Yield classes of waiting jobs, level by level as long as the claim's queue borrows there.

    With each the queue below the meeting point, and the entry of the claim there. Queues with a
    share above that of the claim have no job that comes first.
    """
    holdings, incoming = place.holdings, place.incoming
    rows, asked = holdings.rows, [at for at, _ in incoming.ask]
    waiting = waiting_of(place.session, place.table)
    path = rows.path(incoming.queue)
    holdings.add(incoming.queue, incoming.ask)
    borrows = [holdings.is_over(node, asked) for node in path]
    holdings.take(incoming.queue, incoming.ask)
    for (node, above), is_over in zip(pairwise(path), borrows, strict=False):
        if not is_over:  # what lies wholly within a quota is never taken
            return
        mine = entry_at(holdings, node, incoming)
        lower = [
            (holdings.terms(other).share, other)
            for other in rows.children[above]
            if other != node and not holdings.terms(other).share > mine.share
        ]
        lower.sort(key=lambda it: it[0])
        for _, other in lower:
            for leaf in _leaves(holdings, other, waiting):
                yield from ((each, other, mine) for each in waiting[leaf])


def _leaves(holdings: Holdings, node: int, waiting: dict[int, list[Class]]) -> Iterator[int]:
    """Yield the leaves at or below a queue that have waiting jobs."""
    stack = [node]
    while stack:
        queue = stack.pop()
        if queue in waiting:
            yield queue
        stack.extend(holdings.rows.children[queue])


def _rival(place: _Place, each: Class, node: int, mine: Entry) -> Work | None:
    """Return the first job of a class, if the claim would give way to it."""
    session, holdings = place.session, place.holdings
    job = first_of(session, each)
    if job < 0:
        return None
    amounts = asked_of(session, job)
    if not amounts.any():
        return None
    work = waiting_work(session, place.rules, place.table, job, amounts)
    if not _may_take(place, work) or not entry_at(holdings, node, work) < mine:
        return None
    return work if _fits_alone(place, each, work, amounts) else None


def _fits_alone(place: _Place, each: Class, work: Work, amounts: Amounts) -> bool:
    """Tell whether a job fits into the place, but not beside the claim, and begins with it."""
    session, holdings, incoming = place.session, place.holdings, place.incoming
    if (amounts > place.free).any() or not holdings.fits(work.queue, work.ask):
        return False
    is_strict = not session.jobs.is_preemptible[work.row]
    if is_strict and entry_at(holdings, work.queue, work).borrows:
        return False  # what is not preemptible never borrows
    if not _fits_on_nodes(session, each.shape, amounts):
        return False
    holdings.add(incoming.queue, incoming.ask)
    is_beside = bool((amounts + place.ask <= place.free).all())
    is_beside = is_beside and holdings.fits(work.queue, work.ask)
    begins = not is_beside and _begins_at(holdings, work, incoming)
    holdings.take(incoming.queue, incoming.ask)
    return begins


def _may_take(place: _Place, work: Work) -> bool:
    """Tell whether the policy of a job's queue lets it take the claim's place (F11)."""
    incoming = place.incoming
    policy = place.session.queues.sharing[work.queue].across
    if work.is_high:
        return policy != NEVER
    priority, created_s = np.array([incoming.priority]), np.array([incoming.created_s])
    return bool(may_take(policy, work, priority, created_s)[0])


def _fits_on_nodes(session: Session, shape: int, amounts: Amounts) -> bool:
    """Tell whether all pods of a job find room on nodes, one by one."""
    request = session.shapes.request[:, shape]
    at = int(request.argmax())
    return int(session.room_once_released(shape).sum()) * int(request[at]) >= int(amounts[at])


def _begins_at(holdings: Holdings, work: Work, incoming: Work) -> bool:
    """Tell whether the walk of a job begins at the claim's queue (F13); the claim is counted in."""
    lacks = contested(holdings, work)
    rows = holdings.rows
    theirs, mine = set(rows.path(work.queue)), set(rows.path(incoming.queue))
    holdings.add(work.queue, work.ask)
    node = rows.path(incoming.queue)[-1]
    while node != incoming.queue:
        open_ = [
            child
            for child in rows.children[node]
            if child != work.queue and (child in theirs or holdings.is_over(child, lacks))
        ]
        if not open_:
            break
        node = max(open_, key=lambda child: (holdings.terms(child).share, child in mine))
        if node not in mine:
            break
    holdings.take(work.queue, work.ask)
    return node == incoming.queue
