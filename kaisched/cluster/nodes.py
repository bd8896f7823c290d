"""The rows of nodes, sorted by name; their amounts change in place, their set rarely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from kaisched.cluster.columns import Block, Column
from kaisched.core.axis import GPU_UNIT, BoolVec, IntVec, ResourceAxis, RowVec
from kaisched.core.constraints import NodeStatics, Taint
from kaisched.core.devices import CardTable
from kaisched.core.tables import NodeTable, TopologyLevel


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the store keeps it. ``allocatable`` is in base units by resource name."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    is_unschedulable: bool = False
    has_pressure: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    card_mib: int = 0
    """Memory of each GPU in MiB; 0 where it is unknown."""
    can_share: bool = True
    """Whether pods may share its GPUs."""


class NodeRows:
    """Nodes. New and removed ones take effect when :meth:`lay_out` is called."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty table."""
        self._axis = axis
        self._node: dict[str, NodeRow] = {}
        self.name: tuple[str, ...] = ()
        self.row_of_name: dict[str, int] = {}
        self.allocatable = Block(len(axis), 0)
        self.idle = Block(len(axis), 0, is_hot=True)
        self.releasing = Block(len(axis), 0, is_hot=True)
        self.version = Column(np.int64, 0, is_hot=True)
        self.is_laid_out = True
        self.is_changed = True
        """An amount changed since the last table."""
        self._statics: NodeStatics | None = None
        self._annotations: tuple[Mapping[str, str], ...] | None = None
        self._topologies: Mapping[str, tuple[TopologyLevel, ...]] = MappingProxyType({})
        self._table: NodeTable | None = None
        self._card_sizes: tuple[int, int] | None = None
        self._cards: tuple[IntVec, IntVec] | None = None

    def __len__(self) -> int:
        return len(self.name)

    def put(self, node: NodeRow) -> None:
        """Add or replace a node."""
        old = self._node.get(node.name)
        self._node[node.name] = node
        self._card_sizes = self._cards = None
        if old is None or node.name not in self.row_of_name:
            self.is_laid_out = False
            return
        if _statics_of(old) != _statics_of(node):
            self._statics = None
            self.is_changed = True
        if old.annotations != node.annotations:
            self._annotations = None
            self.is_changed = True
        if old.allocatable != node.allocatable:
            self._resize(self.row_of_name[node.name], node)

    def remove(self, name: str) -> None:
        """Drop a node; unknown names are fine."""
        if self._node.pop(name, None) is not None:
            self.is_laid_out = False
            self._card_sizes = None

    def put_topology(self, name: str, levels: tuple[TopologyLevel, ...]) -> bool:
        """Add or replace a topology, or drop it if it has no levels; tell whether it changed."""
        others = {key: it for key, it in self._topologies.items() if key != name}
        known = {**others, name: levels} if levels else others
        if known == self._topologies:
            return False
        self._topologies = MappingProxyType({key: known[key] for key in sorted(known)})
        self.is_changed = True
        return True

    def is_known(self, name: str) -> bool:
        """Tell whether there is such a node, laid out already or not."""
        return name in self._node

    def lay_out(self) -> RowVec:
        """Sort anew and return the new row of each old one, -1 where it went.

        All amounts start again from allocatable: the caller puts the tasks back.
        """
        before = self.name
        self.name = tuple(sorted(self._node))
        self.row_of_name = {name: row for row, name in enumerate(self.name)}
        self.is_laid_out = True
        self.reset()
        return np.array([self.row_of_name.get(name, -1) for name in before], np.int64)

    def reset(self) -> None:
        """Empty every node."""
        resources, count = len(self._axis), len(self.name)
        allocatable = np.zeros((resources, count), np.int64)
        for row, name in enumerate(self.name):
            allocatable[:, row] = self._vector(self._node[name])
        self.allocatable.replace(allocatable)
        self.idle.replace(allocatable.copy())
        self.releasing.replace(np.zeros_like(allocatable))
        newest = int(self.version.data.max(initial=0))
        self.version.replace(np.full(count, newest + 1, np.int64))
        self._statics = self._annotations = self._cards = None
        self.is_changed = True

    def set_axis(self, axis: ResourceAxis) -> None:
        """Count by another axis; every node is empty afterwards."""
        self._axis = axis
        self.reset()

    def hold(
        self, node: int, more: tuple[int, ...], less: tuple[int, ...], *, is_releasing: bool
    ) -> None:
        """Let a task hold ``more`` of a node, which is ``less`` idle; the other way round, less."""
        self.idle.add(node, less)
        if is_releasing:
            self.releasing.add(node, more)
        self.version.edit()[node] += 1
        self.is_changed = True

    def note_held(self, rows: RowVec) -> None:
        """Take note that tasks hold more or less of these nodes."""
        np.add.at(self.version.own(), rows, 1)
        self.is_changed = True

    def card_mib_of(self, name: str) -> int:
        """Return the MiB of each card of a node; 0 where no label says."""
        node = self._node.get(name)
        return 0 if node is None else node.card_mib

    def card_sizes(self) -> tuple[int, int]:
        """Return the MiB of the smallest and of the largest card; 0 for none of known size."""
        if self._card_sizes is None:
            nodes = (node for node in self._node.values() if node.can_share)
            sizes = {node.card_mib for node in nodes if node.card_mib}
            self._card_sizes = (min(sizes), max(sizes)) if sizes else (0, 0)
        return self._card_sizes

    def cards(self) -> tuple[IntVec, IntVec]:
        """``(N,)`` GPUs that pods may share, and the MiB of each; 1 where that is unknown."""
        if self._cards is None:
            rows = [self._node[name] for name in self.name]
            cards = [it.allocatable.get("gpu", 0) // GPU_UNIT * it.can_share for it in rows]
            sizes = [it.card_mib or 1 for it in rows]
            self._cards = np.array(cards, np.int64), np.array(sizes, np.int64)
        return self._cards

    def statics(self) -> NodeStatics:
        """Return labels, taints and conditions; the same object while none changed."""
        if self._statics is None:
            nodes = [self._node[name] for name in self.name]
            self._statics = NodeStatics(
                name=self.name,
                labels=tuple(node.labels for node in nodes),
                taints=tuple(node.taints for node in nodes),
                is_ready=_flags([node.is_ready for node in nodes]),
                is_unschedulable=_flags([node.is_unschedulable for node in nodes]),
                has_pressure=_flags([node.has_pressure for node in nodes]),
            )
        return self._statics

    def table(self, cards: CardTable | None = None) -> NodeTable:
        """Freeze; the same object while nothing changed."""
        if self._table is None or self.is_changed:
            size = len(self.name)
            if self._annotations is None:
                self._annotations = tuple(self._node[name].annotations for name in self.name)
            self._table = NodeTable(
                name=self.name,
                statics=self.statics(),
                allocatable=self.allocatable.frozen(size),
                idle=self.idle.frozen(size),
                releasing=self.releasing.frozen(size),
                version=self.version.frozen(size),
                annotations=self._annotations,
                topologies=self._topologies,
            )
            self.is_changed = False
        if self._table.cards is not cards:
            self._table = replace(self._table, cards=cards)
        return self._table

    def _vector(self, node: NodeRow) -> IntVec:
        amounts = node.allocatable
        return np.array([amounts.get(name, 0) for name in self._axis.names], np.int64)

    def _resize(self, row: int, node: NodeRow) -> None:
        allocatable = self._vector(node)
        more = allocatable - self.allocatable.data[:, row]
        if more.any():
            self.allocatable.own()[:, row] = allocatable
            self.idle.own()[:, row] += more
            self.version.own()[row] += 1
            self.is_changed = True


def _statics_of(node: NodeRow) -> tuple[object, ...]:
    return (node.labels, node.taints, node.is_ready, node.is_unschedulable, node.has_pressure)


def _flags(values: list[bool]) -> BoolVec:
    flags = np.array(values, np.bool_)
    flags.setflags(write=False)
    return flags
