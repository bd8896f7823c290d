"""Filters by free volumes: what one claim takes in a cycle is not there for another.

As kube-scheduler's VolumeBinding does: the smallest claim of a pod chooses first, and takes the
first of its volumes that can be used on the node. What is not there may be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from kaisched import CodeVec, Refusal, RowVec, Session, UnboundClaim
from kaisched_plugins.predicates.statics import StaticMasks

_NONE, _MADE = -1, -2


@dataclass(slots=True)
class _Given:
    """What a claim gets in this cycle."""

    number: int
    """Of its volume."""
    rows: RowVec
    """The nodes where it can be used."""
    tasks: set[int] = field(default_factory=set)
    """The tasks that were placed with the claim."""


class FreeVolumes:
    """What claims have taken in one cycle, and the shapes whose answers rest on it."""

    def __init__(self) -> None:
        """Begin with all volumes free."""
        self._given: dict[str, _Given] = {}
        self._asked: set[int] = set()
        self._number: dict[str, int] = {}
        """Of each volume, by name."""

    def codes(
        self,
        masks: StaticMasks,
        shape: int,
        claims: Sequence[UnboundClaim],
        codes: CodeVec | None,
    ) -> CodeVec | None:
        """Return the codes ``(N,)`` of all nodes for a shape with claims, on top of others."""
        self._asked.add(shape)
        refused = np.zeros(len(masks.statics.name), np.int16) if codes is None else codes.copy()
        for pick in self._picks(masks, claims):
            refused[(pick == _NONE) & (refused == 0)] = int(Refusal.VOLUME_AFFINITY)
        return refused if refused.any() else None

    def stale(
        self, session: Session, masks: StaticMasks, moves: tuple[RowVec, RowVec], sign: int
    ) -> list[int]:
        """Count tasks on nodes, or no more; return the shapes whose codes may now differ."""
        if not self._asked:
            return []
        claimed = False
        for task, node in zip(moves[0].tolist(), moves[1].tolist(), strict=True):
            claims = session.shapes.constraints[session.tasks.shape_of_task[task]].unbound
            claimed |= bool(claims)
            if sign > 0:
                self._give(masks, claims, task, node)
            else:
                self._take_back(claims, task)
        return sorted(self._asked) if claimed else []

    def _give(
        self, masks: StaticMasks, claims: Sequence[UnboundClaim], task: int, node: int
    ) -> None:
        for claim, pick in zip(claims, self._picks(masks, claims), strict=True):
            if claim.key not in self._given:
                number, rows = int(pick[node]), np.array([node])
                for name, terms in claim.volumes:
                    if self._number[name] == number:
                        rows = masks.rows_met(terms)
                self._given[claim.key] = _Given(number, rows)
            self._given[claim.key].tasks.add(task)

    def _take_back(self, claims: Sequence[UnboundClaim], task: int) -> None:
        for claim in claims:
            given = self._given.get(claim.key)
            if given is not None:
                given.tasks.discard(task)
                if not given.tasks:
                    del self._given[claim.key]

    def _picks(self, masks: StaticMasks, claims: Sequence[UnboundClaim]) -> list[RowVec]:
        """``(N,)`` for each claim: the number of the volume that it takes on each node."""
        taken = {it.number for it in self._given.values()}
        picks: list[RowVec] = []
        for claim in claims:
            pick = np.full(len(masks.statics.name), _NONE, np.int64)
            if (given := self._given.get(claim.key)) is not None:
                pick[given.rows] = given.number
            else:
                if claim.made is not None:
                    every = masks.rows_met(None)
                    pick[reduce(np.intersect1d, map(masks.rows_met, claim.made), every)] = _MADE
                for name, terms in reversed(claim.volumes):  # the first is written last
                    number = self._number.setdefault(name, len(self._number))
                    if number not in taken:
                        rows = masks.rows_met(terms)
                        for other in picks:
                            rows = rows[other[rows] != number]
                        pick[rows] = number
            picks.append(pick)
        return picks
