"""Sets of nodes on which plugins let a job be placed, asked for one job at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, overload

import numpy as np

from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.session import Session

    Shapes = Sequence[tuple[int, int]]
    """(shape, pods) of the pods that are placed together."""


@dataclass(frozen=True, eq=False)
class NodeSet:
    """Nodes on which all pods of a job may be placed together."""

    label: str
    """The name of the set in records and reasons, such as ``flavor a100``."""
    nodes: BoolVec
    """``(N,)``."""
    parts: tuple[NodeSet, ...] = ()
    """The sets of several plugins whose common nodes these are; empty for the set of one plugin."""
    order: IntVec | None = None
    """``(N,)`` nodes of a lower number are filled first, whatever their scores; None for no
    order."""
    most: Mapping[int, Mapping[int, int]] | None = None
    """By shape and by the numbers of ``order``, how many pods of a batch the nodes of that number
    get at most; what is not in it gets none. None for no bound."""
    neighbours: IntVec | None = None
    """``(N,)`` nodes that are near each other have numbers that are near: equal pods with an index
    get the nodes chosen for them in this order."""
    peers: str = ""
    """Sets in a row with the same text are equally good: of those that evictions can free, the one
    with the cheapest evictions is taken. Empty: the set comes strictly before the next."""
    reorders: bool = False
    """Whether pods of several shapes are tried in other orders too, the largest first, where they
    do not fit in their own order."""

    @cached_property
    def key(self) -> tuple[str, bytes, bytes, str]:
        """The label, the nodes, their order and their bounds, to be compared."""
        order = b"" if self.order is None else self.order.tobytes()
        return self.label, self.nodes.tobytes(), order, "" if self.most is None else repr(self.most)

    def meet(self, other: NodeSet) -> NodeSet:
        """Return the nodes that are in both sets; a set with bounds keeps its order."""
        parts = (self.parts or (self,)) + (other.parts or (other,))
        bound = next((it for it in (other, self) if it.most is not None), None)
        order = _ordered(self.order, other.order) if bound is None else bound.order
        peers = f"{self.label}, {other.peers}" if other.peers else ""
        label = f"{self.label}, {other.label}"
        most = None if bound is None else bound.most
        near = self.neighbours if other.neighbours is None else other.neighbours
        reorders = self.reorders or other.reorders
        nodes = self.nodes & other.nodes
        return NodeSet(label, nodes, parts, order, most, near, peers, reorders)


class LazyNodeSets(Sequence[NodeSet]):
    """Sets of nodes, each made when it is first looked at."""

    def __init__(self, count: int) -> None:
        """Take how many sets there are."""
        self._count = count
        self._made: dict[int, NodeSet] = {}

    def make(self, at: int) -> NodeSet:
        """Make the set at a position."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return how many sets there are."""
        return self._count

    @overload
    def __getitem__(self, at: int) -> NodeSet: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[NodeSet]: ...
    def __getitem__(self, at: int | slice) -> NodeSet | Sequence[NodeSet]:
        """Return one set, or some."""
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        at %= self._count
        if at not in self._made:
            self._made[at] = self.make(at)
        return self._made[at]


class NodeSets(LazyNodeSets):
    """The sets of nodes to try for some pods, the best first."""

    def __init__(
        self,
        sets: Sequence[NodeSet] = (),
        code: int = Refusal.NO_NODE_ALLOWED,
        sources: tuple[object, ...] = (),
    ) -> None:
        """Take the sets, why there are none if there are none, and the answers they are of."""
        super().__init__(len(sets))
        self._sets = sets
        self.code = int(code)
        self.sources = sources

    def make(self, at: int) -> NodeSet:
        """Return the set at a position."""
        return self._sets[at]

    def meet(self, others: NodeSets) -> NodeSets:
        """Return every set with every other one: the nodes in both."""
        return NodeSets(_Meeting(self, others), others.code, (*self.sources, *others.sources))

    def within(self, around: NodeSet) -> NodeSets:
        """Return the parts of the sets that are in another one."""
        return NodeSets(_Meeting([around], self), self.code)

    def is_like(self, others: NodeSets) -> bool:
        """Tell whether the same nodes would be tried in the same order."""
        mine, theirs = self.sources, others.sources
        if mine and len(mine) == len(theirs) and all(map(is_, mine, theirs)):
            return True
        same = len(self) == len(others)
        return same and all(one.key == other.key for one, other in zip(self, others, strict=True))


class _Meeting(LazyNodeSets):
    """Every set with every other one."""

    def __init__(self, ones: Sequence[NodeSet], others: Sequence[NodeSet]) -> None:
        super().__init__(len(ones) * len(others))
        self._ones, self._others = ones, others

    def make(self, at: int) -> NodeSet:
        one, other = divmod(at, len(self._others))
        return self._ones[one].meet(self._others[other])


def _ordered(first: IntVec | None, second: IntVec | None) -> IntVec | None:
    """Return the order by one column and then by another."""
    if first is None or second is None:
        return second if first is None else first
    _, rank = np.unique(second, return_inverse=True)
    return first * (1 + int(rank.max(initial=0))) + rank


def node_sets(
    session: Session, action: str, job: int, ask: Amounts, shapes: Shapes
) -> NodeSets | None:
    """Return the sets to try for a job, the best first; None if it may be placed on all nodes."""
    if not session.ask.has_node_sets(session):
        return None
    with session.placement.within(None):
        return session.ask.node_sets(session, action, job, ask, shapes)


def subgroup_sets(session: Session, job: int, group: SubGroup, shapes: Shapes) -> NodeSets | None:
    """Return the sets to try for a subgroup, within the set of nodes that is tried now.

    None if the subgroup may be placed wherever the groups that hold it may.
    """
    asker = session.ask.speaking(session, "subgroup_sets")
    sets: NodeSets | None = None if asker is None else asker(session, job, group, shapes)
    around = session.placement.nodes
    if sets is None or around is None:
        return sets
    return sets.within(around)


def shapes_of(session: Session, tasks: RowVec) -> Shapes:
    """Return (shape, pods) of some pods, in the order of their first pods."""
    return list(Counter(session.tasks.shape_of_task[tasks].tolist()).items())
