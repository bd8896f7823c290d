"""Static filter codes kept from cycle to cycle: a hint that changes no answer.

Constraints with many requirements cost their full price once. Later cycles look the answer up, and
compute it again only for nodes that change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import CodeVec, Constraints, NodeStatics, RowVec
from kaisched_plugins.predicates.statics import StaticMasks

_CELLS = 8_000_000
"""Above so many codes all are dropped: 16 MB, far more than a normal cluster needs."""
_PATCHES = 32
"""After so many changes of nodes it is cheaper to compute all codes again."""


@dataclass(slots=True)
class _Answer:
    constraints: Constraints
    """Kept alive, so that no other object gets its identity."""
    codes: CodeVec | None
    age: int
    """How many patches the answer includes."""


class RememberedMasks:
    """The static codes of constraints, for one set of nodes."""

    def __init__(self, statics: NodeStatics) -> None:
        """Start without codes."""
        self.masks = StaticMasks(statics)
        self._patches: list[tuple[RowVec, StaticMasks]] = []
        """Node rows that changed, and masks of only these nodes."""
        self._answers: dict[int, _Answer] = {}
        self._by_value: dict[tuple[object, ...], _Answer] = {}
        self._cells = 0

    def follows(self, statics: NodeStatics) -> bool:
        """Accept changes of some nodes; False if too much is different."""
        old = self.masks.statics
        if old is statics:
            return True
        if len(self._patches) >= _PATCHES or tuple(old.name) != tuple(statics.name):
            return False
        rows = _changed(old, statics)
        self.masks = StaticMasks(statics)
        self._patches.append((rows, StaticMasks(_only(statics, rows))))
        return True

    def codes(self, constraints: Constraints) -> CodeVec | None:
        """Return the codes of all nodes, or None when every node is allowed."""
        known = self._answers.get(id(constraints))
        if known is None:
            known = self._find(constraints)
        if known.age < len(self._patches):
            self._catch_up(known)
        return self.masks.with_volumes(known.codes, constraints)

    def _find(self, constraints: Constraints) -> _Answer:
        """Return the answer for a new constraints object; an equal object may have one already."""
        key = (
            constraints.tolerations,
            constraints.node_selector,
            constraints.node_terms,
            constraints.node_types,
            constraints.queue_terms,
        )
        known = self._by_value.get(key)
        if known is None:
            if self._cells > _CELLS:
                self._answers.clear()
                self._by_value.clear()
                self._cells = 0
            codes = self.masks.standing(constraints)
            known = self._by_value[key] = _Answer(constraints, codes, len(self._patches))
        self._cells += 1 if known.codes is None else len(known.codes)
        self._answers[id(constraints)] = _Answer(constraints, known.codes, known.age)
        return self._answers[id(constraints)]

    def _catch_up(self, known: _Answer) -> None:
        """Compute the codes of the nodes that changed since."""
        count = len(self.masks.statics.name)
        codes = np.zeros(count, np.int16) if known.codes is None else known.codes.copy()
        for rows, masks in self._patches[known.age :]:
            fresh = masks.standing(known.constraints)
            codes[rows] = 0 if fresh is None else fresh
        codes.setflags(write=False)
        known.codes = codes if codes.any() else None
        known.age = len(self._patches)


def _changed(old: NodeStatics, new: NodeStatics) -> RowVec:
    """Return the rows of nodes that have changed."""
    differs = (
        (old.is_ready != new.is_ready)
        | (old.is_unschedulable != new.is_unschedulable)
        | (old.has_pressure != new.has_pressure)
    )
    pairs = zip(old.labels, new.labels, old.taints, new.taints, strict=True)
    written = [
        (before is not after and before != after) or (had is not has and had != has)
        for before, after, had, has in pairs
    ]
    rows: RowVec = np.flatnonzero(differs | np.array(written, np.bool_))
    return rows


def _only(statics: NodeStatics, rows: RowVec) -> NodeStatics:
    """Return some of the nodes."""
    listed = rows.tolist()
    return NodeStatics(
        name=[statics.name[row] for row in listed],
        labels=[statics.labels[row] for row in listed],
        taints=[statics.taints[row] for row in listed],
        is_ready=statics.is_ready[rows],
        is_unschedulable=statics.is_unschedulable[rows],
        has_pressure=statics.has_pressure[rows],
    )
