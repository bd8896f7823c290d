"""What queues hold: counted along paths, so that an addition costs the depth of the tree.

What a queue holds of the part of its quota that it never lends is not counted above it, so that
amounts higher up are no plain sums (rule F2 of docs/explanation/fair-sharing.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kaisched import Amounts
from kaisched_plugins.fair_sharing.quotas import Quotas, Row, Rows
from kaisched_plugins.fair_sharing.share import Terms, terms_of

Ask = Sequence[tuple[int, int]]
"""Rows with amounts above 0."""


class Holdings:
    """Amounts at every level of a tree, and the shares that follow from them."""

    def __init__(self, quotas: Quotas, leaves: Amounts) -> None:
        """Count what leaves hold, ``(F, Q)``; what stands at inner queues is counted there too."""
        rows = quotas.rows
        self.rows: Rows = rows
        self.used: list[Row] = leaves.T.tolist()
        self._terms: list[Terms | None] = [None] * len(self.used)
        for queue in range(len(self.used) - 1, -1, -1):
            above = rows.parent[queue]
            if above >= 0:
                upper = self.used[above]
                local = rows.local[queue]
                for at, amount in enumerate(self.used[queue]):
                    if amount > local[at]:
                        upper[at] += amount - local[at]

    def copy(self) -> Holdings:
        """Return the same amounts, to be changed by themselves."""
        made = Holdings.__new__(Holdings)
        made.rows = self.rows
        made.used = [list(used) for used in self.used]
        made._terms = list(self._terms)  # noqa: SLF001 - of its own kind
        return made

    def add(self, queue: int, ask: Ask) -> None:
        """Count more at a queue and above it."""
        parent, local, used = self.rows.parent, self.rows.local, self.used
        for at, amount in ask:
            node, more = queue, amount
            while node >= 0:
                own = used[node]
                self._terms[node] = None
                free = local[node][at] - own[at]
                own[at] += more
                if free > 0:
                    more -= free
                if more <= 0:
                    break
                node = parent[node]

    def take(self, queue: int, ask: Ask) -> None:
        """Count less at a queue and above it: the inverse of :meth:`add`."""
        parent, local, used = self.rows.parent, self.rows.local, self.used
        for at, amount in ask:
            node, less = queue, amount
            while node >= 0:
                own = used[node]
                self._terms[node] = None
                beyond = own[at] - local[node][at]
                own[at] -= less
                less = min(less, beyond)
                if less <= 0:
                    break
                node = parent[node]

    def available(self, queue: int, at: int) -> int:
        """Return how much more a queue may have of a row; negative where quota was cut.

        What a queue above holds too much, after a cut, counts against all below it, even against
        what they never lend: so does Kueue.
        """
        rows, used = self.rows, self.used
        path = rows.path(queue)
        root = path.pop()
        free = rows.subtree[root][at] - used[root][at]
        for node in reversed(path):
            local, has = rows.local[node][at], used[node][at]
            room = rows.cap[node][at] - max(has, local)
            free = max(0, local - has) + min(free, room)
        return free

    def fits(self, queue: int, ask: Ask) -> bool:
        """Tell whether a queue may have so much more."""
        return all(amount <= self.available(queue, at) for at, amount in ask)

    def is_within(self, queue: int, at: Iterable[int]) -> bool:
        """Tell whether a queue holds no more than its quota of some rows."""
        return not self.is_over(queue, at)

    def stays_within(self, queue: int, ask: Ask) -> bool:
        """Tell whether a queue would hold no more than its quota of what is asked for, with it."""
        used, quota = self.used[queue], self.rows.subtree[queue]
        return all(used[at] + amount <= quota[at] for at, amount in ask)

    def is_over(self, queue: int, at: Iterable[int]) -> bool:
        """Tell whether a queue holds more than its quota of any of some rows."""
        used, quota = self.used[queue], self.rows.subtree[queue]
        return any(used[row] > quota[row] for row in at)

    def terms(self, queue: int) -> Terms:
        """Return the share of a queue as of now."""
        known = self._terms[queue]
        if known is None:
            known = self._terms[queue] = terms_of(self.rows, queue, self.used[queue])
        return known

    def terms_with(self, queue: int, ask: Ask) -> list[Terms]:
        """Return the shares on a queue's path, the queue first, with so much more."""
        self.add(queue, ask)
        found = [self.terms(node) for node in self.rows.path(queue)]
        self.take(queue, ask)
        return found
