"""The tree of domains of one topology over the nodes of a shard (D1, D2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kaisched import (
    BoolVec,
    IntVec,
    NodeSet,
    NodeStatics,
    RowVec,
    Session,
    TopologyLevel,
    domain_paths,
    level_of,
    unique_names,
)

_HINT = "topology.trees"
_MOST_KEPT = 64


class Kept(NamedTuple):
    """A tree, with the nodes of which it was made."""

    statics: NodeStatics
    tree: Tree


class Tree:
    """Domains by level, numbered so that those below one domain are next to each other."""

    def __init__(
        self, levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
    ) -> None:
        """Read the labels of the nodes; a node takes part if it has all of them."""
        self.levels = tuple(levels)
        paths = domain_paths(levels, labels)
        self.domain_of_node: list[RowVec] = []
        """By level, ``(N,)``; -1 for a node that does not take part."""
        self.parent: list[RowVec] = []
        """By level, ``(D,)`` the domain of the level above; -1 at the outermost level."""
        self._names: list[list[str]] = []
        self._masks: dict[tuple[int, int], BoolVec] = {}
        self.sets: dict[tuple[int, int, bool, bool], NodeSet] = {}
        """Domains as sets of nodes without an order, by what else tells them apart."""
        above: dict[tuple[str, ...], int] = {}
        for depth in range(1, len(levels) + 1):
            known = sorted({path[:depth] for path in paths if path is not None})
            number = {path: at for at, path in enumerate(known)}
            of_node = [-1 if path is None else number[path[:depth]] for path in paths]
            self.domain_of_node.append(np.array(of_node, np.int64))
            self.parent.append(np.array([above.get(path[:-1], -1) for path in known], np.int64))
            self._names.append(unique_names(known))
            above = number
        lowest = self.domain_of_node[-1]
        self._members = np.argsort(lowest, kind="stable")[np.count_nonzero(lowest < 0) :]
        """The nodes that take part, domain by domain."""
        self._starts = [np.flatnonzero(np.diff(lowest[self._members], prepend=-1))]
        """By level from the lowest, where the parts of each domain begin."""
        for parents in self.parent[:0:-1]:
            self._starts.append(np.flatnonzero(np.diff(parents, prepend=-1)))

    @property
    def is_member(self) -> BoolVec:
        """``(N,)`` the nodes that take part."""
        members: BoolVec = self.domain_of_node[0] >= 0
        return members

    def level(self, name: str) -> int:
        """Return the number of a level by its label or alias, -1 for none."""
        return level_of(self.levels, name)

    def word(self, level: int) -> str:
        """Return the name of a level for people."""
        return self.levels[level].alias or self.levels[level].label

    def name(self, level: int, domain: int) -> str:
        """Return the name of a domain for people, with those above it where it is not unique."""
        return f"{self.word(level)} {self._names[level][domain]}"

    def around(self, chosen: BoolVec) -> str:
        """Return the name of the smallest domain around some of the last level."""
        domains = chosen.nonzero()[0]
        for level in range(len(self.levels) - 1, -1, -1):
            if domains.size == 1:
                return self.name(level, int(domains[0]))
            domains = np.unique(self.parent[level][domains])
        return "all labelled nodes"

    def sums(self, each: IntVec) -> list[IntVec]:
        """Return, by level, the sums ``(D,)`` of a column of the nodes."""
        found: list[IntVec] = []
        parts = each[self._members]
        for starts in self._starts:
            parts = np.add.reduceat(parts, starts) if starts.size else parts[:0]
            found.append(parts)
        return found[::-1]

    def folded(self, level: int, parts: IntVec, fold: np.ufunc) -> IntVec:
        """``(D,)`` fold a column of the level below, or of the nodes at the last level."""
        depth = len(self.levels) - 1 - level
        values = parts if depth else parts[self._members]
        starts = self._starts[depth]
        return fold.reduceat(values, starts) if starts.size else values[:0]

    def mask(self, level: int, domain: int) -> BoolVec:
        """``(N,)`` the nodes of a domain; always the same array."""
        key = level, domain
        if key not in self._masks:
            self._masks[key] = self.domain_of_node[level] == domain
            self._masks[key].setflags(write=False)
        return self._masks[key]

    def below(self, level: int, domain: int, lower: int) -> RowVec:
        """Return the domains of a lower level inside a domain; of the whole tree with level -1."""
        inside = np.arange(len(self.parent[lower]))
        above = inside
        for at in range(lower, level, -1):
            above = self.parent[at][above]
        return inside if level < 0 else inside[above == domain]


def tree_of(session: Session, levels: tuple[TopologyLevel, ...]) -> Tree:
    """Return the tree of some levels, kept while no label changes."""
    trees: dict[tuple[TopologyLevel, ...], Kept] = session.hints.setdefault(_HINT, {})
    kept, statics = trees.get(levels), session.nodes.statics
    if kept is None or kept.statics is not statics:
        if len(trees) >= _MOST_KEPT:
            trees.clear()  # any pod may name a label of which a tree is made up
        kept = trees[levels] = Kept(statics, Tree(levels, statics.labels))
    return kept.tree
