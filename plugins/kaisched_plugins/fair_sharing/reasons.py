"""What fair-sharing says to people: of jobs that are refused, and of evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np

from kaisched import (
    UNLIMITED,
    Change,
    Claim,
    EvictionReason,
    Kind,
    Proposal,
    Reason,
    Session,
    Unit,
    asked_of,
    end_of_work,
    format_amount,
    larger_bounds,
)
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.choices import Choices, Obstacle
from kaisched_plugins.fair_sharing.flavors import Offer, flavors_of
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Terms
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.victims import (
    Reach,
    Rules,
    Way,
    borrowing_of,
    claim_work,
    contested,
)
from kaisched_plugins.fair_sharing.work import Work, meeting

# The sentences about room: which queue is full, and of each flavor what is in its way.


ROOM: Final = (refusals.NO_ROOM, refusals.NO_FLAVOR, refusals.NO_NODES, refusals.TOO_LARGE)
"""What is told of each flavor."""
_MOST: Final = 4
"""So many flavors are named."""


def room_by_flavor(
    session: Session, table: Table, holdings: Holdings, choices: Choices, job: int, code: int
) -> Reason | None:
    """Return what is in the way of each flavor that a job's queue offers."""
    told = list(_by_flavor(session, table, holdings, choices, job))
    if not told:
        return _apart(session, choices, job) if code == refusals.NO_NODES else None
    text = "; ".join(each.sentence for each in told[:_MOST])
    if len(told) > _MOST:
        text += f"; {len(told) - _MOST} more flavors"
    return Reason(text, next((each.numbers for each in told if each.numbers), {}))


def _by_flavor(
    session: Session, table: Table, holdings: Holdings, choices: Choices, job: int
) -> Iterator[Reason]:
    queue = int(table.home[session.jobs.queue_of_job[job]])
    ask, offer = asked_of(session, job), choices.offer(queue)
    assert offer is not None  # the caller has looked
    is_bound = session.job_active_now[job] > 0  # to the flavor in which it runs
    names = choices.names()
    for group, _, ways in choices.looked_at(session, job, ask):
        for flavor, obstacle in ways.items():
            if obstacle == Obstacle.NO_NODES:
                yield Reason(f"flavor {names[flavor]}: {_no_node(offer, flavor)}")
            elif obstacle != Obstacle.NO_MATCH:
                row = [(table.pair[flavor, at], int(ask[at])) for at in group.resources if ask[at]]
                found = no_room(session, table, holdings, queue, row)
                if found is not None:
                    yield found
            elif not is_bound:
                yield Reason(f"flavor {names[flavor]}: its pods do not select its nodes")


def _apart(session: Session, choices: Choices, job: int) -> Reason:
    """Say that there are nodes of flavors of each group, but none of all groups."""
    names = choices.names()
    groups = [
        " or ".join(names[flavor] for flavor, it in ways.items() if it < Obstacle.NO_NODES)
        for _, _, ways in choices.looked_at(session, job, asked_of(session, job))
    ]
    return Reason(f"no node is of flavor {' and of flavor '.join(groups)}")


def _no_node(offer: Offer, flavor: int) -> str:
    labels = dict(offer.labels)[flavor]
    if not labels:
        return "all nodes are of other flavors"
    return f"no node has {' and '.join(f'{key}={value}' for key, value in labels)}"


def no_room(
    session: Session, table: Table, holdings: Holdings, queue: int, ask: Ask
) -> Reason | None:
    """Name the queue nearest to the leaf that is full, counting what is left at those above it."""
    for at, asked in ask:
        free = max(0, holdings.available(queue, at))
        if asked <= free:
            continue
        row, quotas = _tightest(holdings, queue, at, asked), holdings.rows
        name = session.axis.names[int(table.rows[at])]
        has, most = holdings.used[row][at], quotas.cap[row][at]
        told = f"{format_amount(name, has)} of {format_amount(name, most)} held"
        told = f"{table.name(at, session)} {told}"
        numbers = {
            "queue": session.queues.name[row],
            "resource": name,
            "held": has,
            "most": most,
            "asked": asked,
            "available": free,
        }
        return Reason(
            f"queue {session.queues.name[row]}: {told}, {format_amount(name, asked)} asked;"
            f" {format_amount(name, free)} left for queue {session.queues.name[queue]}",
            numbers,
        )
    return None


def _tightest(holdings: Holdings, queue: int, at: int, asked: int) -> int:
    """Return the queue on a path that has too little room left for what reaches it."""
    rows, more = holdings.rows, asked
    for row in rows.path(queue):
        if holdings.used[row][at] + more > rows.cap[row][at]:
            return row
        more -= max(0, rows.local[row][at] - holdings.used[row][at])
    return rows.path(queue)[-1]


# What fair-sharing says to people: of jobs that are refused, and of evictions.


PRIORITY, RECLAMATION, FAIR_SHARING = "priority", "reclamation", "fair_sharing"
KINDS = (FAIR_SHARING, PRIORITY, RECLAMATION)
_WORDS = {
    PRIORITY: "taken by high priority",
    RECLAMATION: "reclaimed",
    FAIR_SHARING: "fair sharing",
}
_NAMED = 3
"""So many queues are named."""


def refused(
    session: Session, table: Table, holdings: Holdings, choices: Choices, job: int, code: int
) -> Reason | None:
    """Return the queue, the resource and the amounts that a refusal rests on."""
    own = int(session.jobs.queue_of_job[job])
    queue = int(table.home[own])
    ask = choices.asked(session, job, asked_of(session, job))
    if code in ROOM and choices.offer(queue) is not None:
        return room_by_flavor(session, table, holdings, choices, job, code)
    if code == refusals.NO_ROOM:
        return no_room(session, table, holdings, queue, ask)
    if code == refusals.OVER_LIMIT:
        return _over_limit(session, job, own)
    if code == refusals.STRICT:
        return _strict(session, table, choices.strict(session), queue, ask)
    if code == refusals.HIGHER_SHARE:
        return _higher_share(session, table, holdings, queue, ask)
    return None


def _over_limit(session: Session, job: int, queue: int) -> Reason | None:
    ask = asked_of(session, job)
    held = session.held_now
    if session.held_stuck is not None:
        held = held + session.held_stuck[0]
    for row in session.queues.tree.path(queue).tolist():
        for resource, asked in enumerate(ask.tolist()):
            has, most = int(held[resource, row]), int(session.queues.limit[resource, row])
            if asked and most < UNLIMITED and has + asked > most:
                name = session.axis.names[resource]
                return Reason(
                    f"queue {session.queues.name[row]}: {name} {format_amount(name, has)} held +"
                    f" {format_amount(name, asked)} asked is over its limit of"
                    f" {format_amount(name, most)}"
                )
    return None


def _strict(session: Session, table: Table, firm: Holdings, queue: int, ask: Ask) -> Reason | None:
    """Name the queue that would borrow for non-preemptible work; ``firm`` is used up."""
    for at, asked in ask:
        firm.add(queue, ((at, asked),))
        for row in firm.rows.path(queue):
            if firm.is_over(row, (at,)):
                name = session.axis.names[int(table.rows[at])]
                held, quota = firm.used[row][at], firm.rows.subtree[row][at]
                told = table.name(at, session)
                return Reason(
                    f"queue {session.queues.name[row]}: non-preemptible work would hold {told}"
                    f" {format_amount(name, held)}, the quota is {format_amount(name, quota)}"
                )
    return None


def _higher_share(
    session: Session, table: Table, holdings: Holdings, queue: int, ask: Ask
) -> Reason | None:
    """Compare the claim with the highest share on its way of those that borrow what it lacks."""
    if not ask:
        return None
    lacks = contested(holdings, Work(-1, queue, ask))
    path = holdings.rows.path(queue)
    mine = dict(zip(path, holdings.terms_with(queue, ask), strict=True))
    best: tuple[Terms, int, int] | None = None
    for node, above in pairwise(path):
        for other in holdings.rows.children[above]:
            terms = holdings.terms(other)
            if other != node and holdings.is_over(other, lacks):
                found = terms, other, node
                best = found if best is None or terms.share > best[0].share else best
    if best is None:
        return None
    terms, other, node = best
    names = session.queues.name
    told = (
        f"queue {names[node]} would have a share of {_told(session, table, mine[node])}, queue"
        f" {names[other]} has {_told(session, table, terms)}"
    )
    if mine[node].share < terms.share:  # it may take something, but not enough
        told = f"{refusals.HIGHER_SHARE.text.sentence}: {told}"
    return Reason(
        told,
        {"queue": names[node], "share": mine[node].share.text(), "other": names[other]},
    )


def _told(session: Session, table: Table, terms: Terms) -> str:
    """Return a share with its terms, as ``0.2 (gpu: 2 of 10 borrowed)``."""
    if terms.resource < 0:
        return terms.share.text()
    name = session.axis.names[int(table.resources[terms.resource])]
    part, of = (format_amount(name, amount) for amount in (terms.borrowed, terms.lendable))
    return f"{terms.share.text()} ({name}: {part} of {of} borrowed)"


def cures(session: Session, table: Table, job: int, code: int) -> Iterator[Proposal]:
    """Yield the changes worth a trial for a job that is refused with a code."""
    queues = session.queues
    if code == refusals.OVER_LIMIT:
        yield from larger_bounds(session, job, Kind.LIMIT, queues.limit)
        yield from end_of_work(session, job, queues.limit)
        return
    if code in (refusals.NO_FLAVOR, refusals.NO_NODES):
        return  # no quota helps
    queue = int(table.home[session.jobs.queue_of_job[job]])
    held = session.held_now
    changes = []
    for at, asked in table.ask_of(queue, asked_of(session, job), {}):  # flavors cannot be tried
        resource = int(table.rows[at])
        needed = int(held[resource, queue]) + asked
        if needed > int(queues.deserved[resource, queue]):
            changes.append(Change(queues.name[queue], session.axis.names[resource], needed))
    if changes:
        yield Kind.QUOTA, tuple(changes)
    if code == refusals.STRICT:
        yield Kind.PREEMPTIBLE, (Change(session.jobs.name[job]),)


# -- evictions -----------------------------------------------------------------------------------


def taken(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Sequence[Unit],
    *,
    is_high: bool,
) -> Callable[[Session], EvictionReason]:
    """Return what makes ``fair sharing for team/job (queue b: share 0.1 ...) from queue a: ...``.

    ``holdings`` are of now, with the claim in them and the units gone. The numbers are noted now.
    """
    jobs = session.jobs
    lost: dict[int, list[tuple[int, int]]] = {}
    for unit in units:
        ask = table.of_tasks(session, np.array(unit.tasks, np.int64))
        lost.setdefault(int(table.home[jobs.queue_of_job[unit.job]]), []).extend(ask)
    asked = table.ask_of(claim.queue, claim.ask, flavors_of(claim.within))
    incoming = Work(-1, claim.queue, asked, is_high=is_high)
    kind = _kind(holdings, incoming, lost)
    kinds = {queue: PRIORITY if queue == claim.queue else kind for queue in lost}
    why = _WORDS[kind] if set(lost) != {claim.queue} else "preempted"
    names = session.queues.name
    told = []
    for queue, asks in sorted(lost.items())[:_NAMED]:
        if queue == claim.queue:
            told.append(f"its own queue {names[queue]}")
            continue
        _, theirs = meeting(holdings, claim.queue, queue)
        after = _told(session, table, holdings.terms(theirs))
        holdings.add(queue, asks)
        before = holdings.terms(theirs).share.text()
        holdings.take(queue, asks)
        of = f"queue {names[queue]}"
        if theirs != queue:
            of += f" in {names[theirs]}"
        told.append(f"{of}: share {before} to {after}")
    if len(lost) > _NAMED:
        told.append(f"{len(lost) - _NAMED} more queues")
    mine = _mine(session, table, holdings, claim, lost)
    text = f"{why} for {jobs.title[claim.job]} ({mine}) from {'; '.join(told)}"
    told_of = table.by_leaf(kinds, jobs.queue_of_job[[unit.job for unit in units]])
    return lambda _: EvictionReason(text, told_of)


def _mine(
    session: Session, table: Table, holdings: Holdings, claim: Claim, lost: Mapping[int, Ask]
) -> str:
    others = [queue for queue in sorted(lost) if queue != claim.queue]
    node = meeting(holdings, claim.queue, others[0])[0] if others else claim.queue
    name, own = session.queues.name[node], session.queues.name[claim.queue]
    where = f"queue {name}" if node == claim.queue else f"queue {own} in {name}"
    return f"{where}: share {_told(session, table, holdings.terms(node))}"


def _kind(holdings: Holdings, incoming: Work, lost: Mapping[int, Ask]) -> str:
    """Return what entitles the claim to most: priority, its quota, or its share.

    In its own queue the order of jobs decides alone, of which priority is the first part.
    """
    if incoming.is_high or all(queue == incoming.queue for queue in lost):
        return PRIORITY
    holdings.take(incoming.queue, incoming.ask)
    for queue, asks in lost.items():  # what it lacked before they went
        holdings.add(queue, asks)
    lacks = contested(holdings, incoming)
    for queue, asks in lost.items():
        holdings.take(queue, asks)
    holdings.add(incoming.queue, incoming.ask)
    own, others = incoming.queue, [queue for queue in lost if queue != incoming.queue]
    is_within = holdings.is_within(own, lacks) or all(
        holdings.is_within(meeting(holdings, own, queue)[0], lacks) for queue in others
    )
    return RECLAMATION if is_within else FAIR_SHARING


# The sentences of evictions and refusals in a tree without fair sharing.


def borrows(
    session: Session, table: Table, holdings: Holdings, choices: Choices, job: int
) -> Reason | None:
    """Return the resource for which a queue would borrow, with its quota."""
    queue = int(table.home[session.jobs.queue_of_job[job]])
    every = choices.possible(queue, asked_of(session, job))
    for at, asked in chain.from_iterable(every):
        quota = holdings.rows.subtree[queue][at]
        if asked > quota and asked > holdings.available(queue, at):
            name = session.axis.names[int(table.rows[at])]
            own = session.queues.name[queue]
            told = f"{table.name(at, session)} {format_amount(name, asked)} asked, queue {own}"
            told += f" has a quota of {format_amount(name, quota)}"
            return Reason(
                f"{refusals.BORROWS.text.sentence}: {told}",
                {"queue": own, "resource": name, "asked": asked, "quota": quota},
            )
    return None


def taken_by_level(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Sequence[Unit],
    rules: Rules,
) -> Callable[[Session], EvictionReason]:
    """Return what makes ``reclaimed for team/job (queue b: gpu 3, ...) from queue a: gpu 6 to 4``.

    ``holdings`` are of now, with the claim in them and the units gone. The numbers are noted now.
    """
    jobs = session.jobs
    after = holdings.copy()
    incoming = claim_work(session, table, rules, claim)
    holdings.take(incoming.queue, incoming.ask)
    for unit in units:
        queue = int(table.home[jobs.queue_of_job[unit.job]])
        holdings.add(queue, table.of_tasks(session, np.array(unit.tasks, np.int64)))
    lacks = contested(holdings, incoming)
    reach = Reach(holdings, incoming, borrowing_of(session, claim.queue))
    job = np.array([unit.job for unit in units], np.int64)
    queues = table.home[jobs.queue_of_job[job]]
    ways = reach.ways(queues, jobs.priority[job]) == Way.BORROWING
    losers = sorted(set(zip(queues.tolist(), ways.tolist(), strict=True)))
    names = session.queues.name
    told = []
    for queue, is_borrowing in losers[:_NAMED]:
        if queue == claim.queue:
            told.append(f"its own queue {names[queue]}")
            continue
        by = ", by borrowWithinCohort" if is_borrowing else ""
        lost = _lost(session, table, holdings, after, queue, lacks)
        told.append(f"queue {names[queue]}{by}: {lost}")
    if len(losers) > _NAMED:
        told.append(f"{len(losers) - _NAMED} more")
    why = "preempted" if all(queue == claim.queue for queue, _ in losers) else "reclaimed"
    mine = _held(session, table, after, claim.queue, lacks)
    text = (
        f"{why} for {jobs.title[claim.job]} (queue {names[claim.queue]}: {mine})"
        f" from {'; '.join(told)}"
    )
    by_priority = {queue for queue, is_borrowing in losers if is_borrowing} | {claim.queue}
    kinds = {it: PRIORITY if it in by_priority else RECLAMATION for it, _ in losers}
    told_of = table.by_leaf(kinds, jobs.queue_of_job[[unit.job for unit in units]])
    return lambda _: EvictionReason(text, told_of)


def _held(
    session: Session, table: Table, holdings: Holdings, queue: int, lacks: Sequence[int]
) -> str:
    """Return what a queue holds of the first resource that a claim lacked, and its quota."""
    if not lacks:
        return "nothing that is shared out"
    name, told = session.axis.names[int(table.rows[lacks[0]])], table.name(lacks[0], session)
    has, quota = holdings.used[queue][lacks[0]], holdings.rows.subtree[queue][lacks[0]]
    return f"{told} {format_amount(name, has)}, its quota is {format_amount(name, quota)}"


def _lost(
    session: Session,
    table: Table,
    before: Holdings,
    after: Holdings,
    queue: int,
    lacks: Sequence[int],
) -> str:
    """Return what a queue held and holds of the first lacked resource that it loses."""
    used = before.used[queue]
    at = next(
        (row for row in lacks if used[row] > after.used[queue][row]), lacks[0] if lacks else -1
    )
    if at < 0:
        return "nothing that is shared out"
    name = session.axis.names[int(table.rows[at])]
    told = table.name(at, session)
    held = _held(session, table, after, queue, [at]).removeprefix(f"{told} ")
    return f"{told} {format_amount(name, used[at])} to {held}"
