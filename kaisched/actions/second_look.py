"""A second look at units: node by node, where units in order do not suffice.

In order, a unit that makes no room for the claim, or too little, can use up what its queue may
lose, so that one behind it that would have helped is refused. Here it is asked of one node after
the other which of the units on it may go and make room for more pods; the node that gains most
comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.actions.victim_line import as_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaisched.actions.need import Need
    from kaisched.actions.units import Part
    from kaisched.framework.claims import Claim
    from kaisched.framework.session import Session

LOOKS: Final = 32
"""How often one second look may ask about units."""
READ: Final = 256
"""Units of the line that one looks at. Guesses, both."""


def may_suffice(session: Session, claim: Claim, chosen: list[Part], seen: list[Part]) -> bool:
    """Tell whether other units of the same queues could free what a claim asks for.

    ``chosen`` are the units that may go in order, of all those seen. By amounts a queue has little
    more to lose than it lost in order: the last unit that may go can be its largest one.
    """
    ledger, units = session.ledger, as_units(session, seen)
    missing = claim.ask - (ledger.idle + ledger.releasing).sum(axis=1)
    missing -= as_units(session, chosen).amounts.sum(axis=1)
    for queue in np.unique(units.queue):
        missing -= units.amounts[:, units.queue == queue].max(axis=1)
    return not (missing > 0).any()


class SecondLook:
    """Units by their places in the line, some of which are kept."""

    def __init__(
        self,
        session: Session,
        needs: Sequence[Need],
        parts: list[Part],
        judge: Callable[[list[Part]], list[int]],
    ) -> None:
        """Start with nothing kept; nothing may be taken from ``needs`` yet."""
        self._session = session
        self._needs = needs
        self._parts = parts
        self._judge = judge
        self._looks = LOOKS

    def run(self) -> list[Part] | None:
        """Return units that suffice and may go together, taken from the needs; else None."""
        nodes = self._nodes()
        kept: list[int] = []
        while not all(need.is_met for need in self._needs):
            able = [added for places in nodes if (added := self._on_node(places, kept))]
            if not able:
                return None
            best = max(able, key=lambda added: (self._gain_of(added), -added[-1]))
            self._take(best)
            kept = self._helpful(sorted((*kept, *best)))
        return [self._parts[at] for at in kept]

    def _gain(self) -> int:
        """Return how many of the claim's pods fit by now."""
        return sum(min(need.total, need.count) for need in self._needs)

    def _gain_of(self, places: Sequence[int]) -> int:
        """Return how many would fit with these units gone."""
        self._take(places)
        gain = self._gain()
        self._give_back(places)
        return gain

    def _take(self, places: Sequence[int]) -> None:
        for at in places:
            for need in self._needs:
                need.take(self._parts[at].tasks)

    def _give_back(self, places: Sequence[int]) -> None:
        for at in places:
            for need in self._needs:
                need.give_back(self._parts[at].tasks)

    def _helpful(self, taken: Sequence[int]) -> list[int]:
        """Give back the units without which as many pods fit, the most important first."""
        gain = self._gain()
        cores: set[int] = set()
        kept: list[int] = []
        for at in reversed(taken):
            job, _, is_core = self._parts[at]
            if is_core or job not in cores:
                self._give_back((at,))
                if self._gain() == gain:
                    continue
                self._take((at,))
            if is_core:
                cores.add(job)
            kept.append(at)
        return kept[::-1]

    def _nodes(self) -> list[list[int]]:
        """Return the units of each node on which more pods would fit without them all."""
        node_of_task = self._session.ledger.node_of_task
        of_node: dict[int, list[int]] = {}
        for at, part in enumerate(self._parts):
            for node in dict.fromkeys(node_of_task[list(part.tasks)].tolist()):
                of_node.setdefault(node, []).append(at)
        gain = self._gain()
        return [places for places in of_node.values() if self._gain_of(places) > gain]

    def _on_node(self, places: Sequence[int], kept: Sequence[int]) -> list[int]:
        """Return the first units of a node that may go and make room for another pod, or none.

        Where those in front keep those behind from going, they are left out one by one.
        """
        gain = self._gain()
        left = [at for at in places if at not in kept]
        for first in range(len(left)):
            self._looks -= 1
            if self._looks < 0:
                break
            tried = self._with_elastic(left[first:], kept)
            allowed = self._allowed(tried, kept)
            for end in range(1, len(allowed) + 1):
                if self._gain_of(allowed[:end]) > gain:
                    return allowed[:end]
            if len(allowed) == len(tried):
                break  # all of them are not enough
        return []

    def _with_elastic(self, places: Sequence[int], kept: Sequence[int]) -> list[int]:
        """Add the elastic pods, on whatever node, without which a core may not go."""
        cores = {self._parts[at].job for at in places if self._parts[at].is_core}
        more = {
            at
            for at, part in enumerate(self._parts)
            if part.job in cores and not part.is_core and at not in kept
        }
        return sorted(more.union(places)) if more else list(places)

    def _allowed(self, tried: Sequence[int], kept: Sequence[int]) -> list[int]:
        """Return which of ``tried`` may go along with all that is kept."""
        order = sorted((*kept, *tried))
        codes = dict(zip(order, self._judge([self._parts[at] for at in order]), strict=True))
        if any(codes[at] for at in kept):
            return []
        shut = {self._parts[at].job for at in tried if codes[at]}
        return [
            at
            for at in tried
            if not codes[at] and not (self._parts[at].is_core and self._parts[at].job in shut)
        ]
