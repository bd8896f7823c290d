"""How evenly pods are spread over domains: what kube-scheduler's PodTopologySpread counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kaisched import BoolVec, IntVec, RowVec, SpreadRule

_SHOWN = 8
"""So many domains are named in a reason."""


class Tally(NamedTuple):
    """The pods that a rule counts, by domain."""

    rule: SpreadRule
    column: RowVec
    """``(N,)`` the domain of each node, -1 where it lacks the label."""
    names: Sequence[str]
    counts: IntVec
    """``(D,)`` pods on nodes that count."""
    exists: BoolVec
    """``(D,)`` whether any node of the domain counts."""
    adds: int
    """1 if the pod that is placed counts itself, else 0."""

    @property
    def least(self) -> int:
        """The pods of the domain with the fewest; 0 with fewer domains than the rule asks for."""
        present = self.counts[self.exists]
        return 0 if len(present) < self.rule.min_domains else int(present.min(initial=_MANY))

    @property
    def is_over(self) -> BoolVec:
        """``(N,)`` where one more pod would make the skew too large; False without the label."""
        over = self.counts + self.adds - self.least > self.rule.max_skew
        return np.append(over, [False])[self.column]

    @property
    def sentence(self) -> str:
        """The constraint and the counts, the domain with the fewest first."""
        rows = np.flatnonzero(self.exists)
        rows = rows[np.argsort(self.counts[rows], kind="stable")].tolist()
        each = [f"{self.names[row]} has {self.counts[row]}" for row in rows[:_SHOWN]]
        more = [f"{len(rows) - _SHOWN} more have as many or more"] if len(rows) > _SHOWN else []
        few = self.rule.min_domains
        least = [f"fewer than minDomains {few}, so the least is 0"] if len(rows) < few else []
        told = ", ".join((*each, *more, *least)) or "no node counts"
        return f"maxSkew {self.rule.max_skew} over {self.rule.pods.topology_key}: {told}"


_MANY = 1 << 40


def tally(
    rule: SpreadRule,
    domains: tuple[RowVec, Sequence[str]],
    is_eligible: BoolVec,
    counts: IntVec,
    adds: int,
) -> Tally:
    """Count pods ``(N,)`` of the nodes that count by domain."""
    column, names = domains
    rows = np.flatnonzero(is_eligible & (column >= 0))
    found = np.bincount(column[rows], weights=counts[rows], minlength=len(names))
    exists = np.zeros(len(names), np.bool_)
    exists[column[rows]] = True
    return Tally(rule, column, names, found.astype(np.int64), exists, adds)
