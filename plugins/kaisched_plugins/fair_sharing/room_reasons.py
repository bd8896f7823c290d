"""The sentences about room: which queue is full, and of each flavor what is in its way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched import Reason, Session, asked_of, format_amount
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.by_flavor import Offer
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.obstacles import Obstacle
from kaisched_plugins.fair_sharing.tables import Table

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
