"""The sentences of evictions and refusals in a tree without fair sharing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from kaisched import Claim, EvictionReason, Reason, Session, Unit, asked_of, format_amount
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.allowed import Rules, claim_work, contested
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.classical.reach import Reach, Way, borrowing_of
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.reasons import PRIORITY, RECLAMATION
from kaisched_plugins.fair_sharing.tables import Table

_NAMED: Final = 3
"""So many queues are named."""


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


def taken(
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
        f"{why} for {jobs.name[claim.job]} (queue {names[claim.queue]}: {mine})"
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
