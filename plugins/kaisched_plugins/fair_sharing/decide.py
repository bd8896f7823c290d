"""A whole decision: whom work takes from, what of it is put back, and whether the rest is just.

Rules F15 to F17 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import Entry, entry_at, meeting
from kaisched_plugins.fair_sharing.targets import STRATEGIES, Target, borrows_up_to, targets
from kaisched_plugins.fair_sharing.work import Work


def decide(
    holdings: Holdings,
    incoming: Work,
    lines: Mapping[int, Sequence[Work]],
    contested: Sequence[int],
    strategies: Sequence[str] = STRATEGIES,
    *,
    is_guarded: bool = True,
    by_size: bool = True,
) -> list[Target]:
    """Return the victims of incoming work, none where it stays out; ``holdings`` stay as they are.

    Guarded, nobody is displaced for work that it would displace again.
    """
    queue, ask = incoming.queue, incoming.ask
    taken: list[Target] = []
    fits = False
    holdings.add(queue, ask)
    found = targets(holdings, incoming, lines, contested, strategies, by_size=by_size)
    for target in found:
        taken.append(target)
        holdings.take(queue, ask)
        fits = holdings.fits(queue, ask)
        if fits:
            break
        holdings.add(queue, ask)
    if not fits:
        holdings.take(queue, ask)
        _add(holdings, taken)
        return []
    kept = _put_back(holdings, incoming, taken, is_guarded=is_guarded)
    is_declined = is_guarded and _is_unjust(holdings, incoming, kept)
    _add(holdings, kept)
    return [] if is_declined else kept


def _add(holdings: Holdings, some: Sequence[Target]) -> None:
    for target in some:
        holdings.add(target.work.queue, target.work.ask)


def _put_back(
    holdings: Holdings, incoming: Work, taken: list[Target], *, is_guarded: bool
) -> list[Target]:
    """Let victims stay that the work fits without, the last chosen first; return the others."""
    kept = list(taken)
    for target in reversed(taken[:-1]):
        rest = [other for other in kept if other is not target]
        holdings.add(target.work.queue, target.work.ask)
        is_free = holdings.fits(incoming.queue, incoming.ask)
        if is_free and not (is_guarded and _is_unjust(holdings, incoming, rest)):
            kept = rest
        else:
            holdings.take(target.work.queue, target.work.ask)
    return kept


def unjust(holdings: Holdings, incoming: Work, kept: Sequence[Work]) -> Iterator[Work]:
    """Yield the victims that may not be taken; ``holdings`` have lost them all.

    Those that would be admitted before the work they are displaced for, and those of other queues
    without which a queue below where the paths meet would hold less than its own quota.
    """
    mine: dict[int, Entry] = {}
    for work in kept:
        if work.queue == incoming.queue:
            # Inside a queue shares say nothing about who is served first.
            is_unjust = _turn(work) < _turn(incoming)
        else:
            node, theirs = meeting(holdings, incoming.queue, work.queue)
            if node not in mine:
                mine[node] = entry_at(holdings, node, incoming)
            before = entry_at(holdings, theirs, work) < mine[node]
            is_unjust = before or _is_owed(holdings, incoming, work)
        if is_unjust:
            yield work


def _is_unjust(holdings: Holdings, incoming: Work, kept: Sequence[Target]) -> bool:
    works = [target.work for target in kept]
    return next(unjust(holdings, incoming, works), None) is not None


def _turn(work: Work) -> tuple[float, int, int, float]:
    """Return what work of one queue is ordered by, the first to be served first."""
    return work.usage, -work.priority, work.standing, work.created_s


def _is_owed(holdings: Holdings, incoming: Work, work: Work) -> bool:
    """Tell whether some queue below the meeting point holds its quota or less with the work back.

    Of what the work holds; a queue that is within it borrows nothing that others could want back.
    """
    holdings.add(work.queue, work.ask)
    held = [at for at, _ in work.ask]
    is_lent = borrows_up_to(holdings, incoming.queue, work.queue, held)
    holdings.take(work.queue, work.ask)
    return not is_lent
