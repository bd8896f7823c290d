"""What queues are compared by at each level of the knock-out, and where two of them meet.

Rules F8 and F9 of docs/explanation/fair-sharing.md. A share at a queue depends on that queue and on
the ask alone. So after an admission only the queues on its path have another share.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.share import Share, Terms
from kaisched_plugins.fair_sharing.work import Work


class Entry(NamedTuple):
    """What one head is compared by at one level, low first."""

    high: float
    """The priority, negative, where it overrules fair sharing; else infinite."""
    borrows: bool
    """True where the queue borrows any of what the head asks for."""
    share: Share
    priority: int
    """Negative."""
    created_s: float


def entry_of(terms: Terms, work: Work, *, borrows: bool) -> Entry:
    """Return the entry of a head at a queue that has these terms with it."""
    high = -work.priority if work.is_high else math.inf
    return Entry(high, borrows, terms.share, -work.priority, work.created_s)


def entry_at(holdings: Holdings, queue: int, work: Work) -> Entry:
    """Return the entry of a head at its queue or one above it, as if it were admitted."""
    holdings.add(work.queue, work.ask)
    terms = holdings.terms(queue)
    borrows = terms.is_borrowing and holdings.is_over(queue, [at for at, _ in work.ask])
    holdings.take(work.queue, work.ask)
    return entry_of(terms, work, borrows=borrows)


def meeting(holdings: Holdings, one: int, other: int) -> tuple[int, int]:
    """Return the queues on both paths just below where they meet; the roots of two trees."""
    path = holdings.rows.path(one)
    above = {node: at for at, node in enumerate(path)}
    theirs = other
    parent = holdings.rows.parent
    while parent[theirs] >= 0 and parent[theirs] not in above:
        theirs = parent[theirs]
    met = parent[theirs]
    return (path[above[met] - 1] if met >= 0 else path[-1]), theirs
