"""Which victims of a plan may not go: those that would come first again, and what a queue is owed.

Rules F16 and F25 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaisched_plugins.fair_sharing.allowed import contested
from kaisched_plugins.fair_sharing.classical.levels import turn_of
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import Entry, entry_at, meeting
from kaisched_plugins.fair_sharing.targets import borrows_up_to
from kaisched_plugins.fair_sharing.work import Work


def unjust(
    holdings: Holdings,
    incoming: Work,
    kept: Sequence[Work],
    lacks: Sequence[int],
    *,
    by_share: bool = True,
) -> Iterator[Work]:
    """Yield the victims that may not be taken; ``holdings`` have lost them all.

    Those that would be admitted before the work they are displaced for, and those of other queues
    without which a queue below where the paths meet would hold less than its own quota. Who comes
    first is decided ``by_share`` (F8), or else by level (F20). ``lacks`` are the rows that the
    claim lacks while the victims run.
    """
    mine: dict[int, Entry] = {}
    for work in kept:
        if work.queue == incoming.queue:
            # Inside a queue shares say nothing about who is served first.
            is_unjust = turn(work) < turn(incoming)
        else:
            node, theirs = meeting(holdings, incoming.queue, work.queue)
            if node not in mine:
                mine[node] = entry_at(holdings, node, incoming)
            before = entry_at(holdings, theirs, work) < mine[node]
            if not by_share:
                before = turn_of(holdings, work) < turn_of(holdings, incoming)
            is_unjust = before or _is_owed(holdings, incoming, work, lacks)
        if is_unjust:
            yield work


def turn(work: Work) -> tuple[float, int, int, float]:
    """Return what work of one queue is ordered by, the first to be served first."""
    return work.usage, -work.priority, work.standing, work.created_s


def _is_owed(holdings: Holdings, incoming: Work, work: Work, lacks: Sequence[int]) -> bool:
    """Tell whether some queue below the meeting point holds its quota or less with the work back.

    Of what the work holds and the claim lacks: what a queue borrows of something else is not what
    the claim wants back.
    """
    holdings.add(work.queue, work.ask)
    held = [at for at, _ in work.ask if at in lacks]
    is_lent = borrows_up_to(holdings, incoming.queue, work.queue, held)
    holdings.take(work.queue, work.ask)
    return not is_lent


def lacked(holdings: Holdings, incoming: Work, victims: Sequence[Work]) -> list[int]:
    """Return the rows that a claim lacks while its victims run; ``holdings`` have lost them."""
    for work in victims:
        holdings.add(work.queue, work.ask)
    lacks = contested(holdings, incoming)
    for work in victims:
        holdings.take(work.queue, work.ask)
    return lacks
