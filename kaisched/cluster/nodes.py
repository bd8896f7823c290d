"""The rows of nodes, sorted by name; here Node objects become rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from kaisched.core.axis import GPU_UNIT, Amounts, BoolVec, IntVec, ResourceAxis, RowVec
from kaisched.core.constraints import NodeStatics, Taint
from kaisched.core.devices import CardTable
from kaisched.core.sums import NOT_SUMMED, NOTHING_SUMMED
from kaisched.core.tables import NodeTable, TopologyLevel
from kaisched.objects.gpus import can_share, card_mib_of
from kaisched.objects.node import Node
from kaisched.objects.requests import node_allocatable

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_TRUE: Final = "True"


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
        self.is_laid_out = True
        self._statics: NodeStatics | None = None
        self._annotations: tuple[Mapping[str, str], ...] | None = None
        self._topologies: Mapping[str, tuple[TopologyLevel, ...]] = MappingProxyType({})
        self._allocatable: Amounts | None = None
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
        if old.annotations != node.annotations:
            self._annotations = None
        if old.allocatable != node.allocatable:
            self._allocatable = None

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
        return True

    def is_known(self, name: str) -> bool:
        """Tell whether there is such a node, laid out already or not."""
        return name in self._node

    def lay_out(self) -> RowVec:
        """Sort anew and return the new row of each old one, -1 where it went."""
        before = self.name
        self.name = tuple(sorted(self._node))
        self.row_of_name = {name: row for row, name in enumerate(self.name)}
        self.is_laid_out = True
        self._statics = self._annotations = self._cards = self._allocatable = None
        return np.array([self.row_of_name.get(name, -1) for name in before], np.int64)

    def count_by(self, axis: ResourceAxis) -> None:
        """Count by another axis."""
        self._axis, self._allocatable = axis, None

    def allocatable(self) -> Amounts:
        """``(R, N)`` what each node has; the same object while none changed."""
        if self._allocatable is None:
            names, rows = self._axis.names, [self._node[name].allocatable for name in self.name]
            amounts = [[row.get(name, 0) for row in rows] for name in names]
            self._allocatable = np.array(amounts, np.int64).reshape(len(names), len(rows))
            self._allocatable.setflags(write=False)
        return self._allocatable

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

    def gpus_of(self, name: str) -> int:
        """Return how many whole GPUs a node offers, which pods may share or not."""
        return self._node[name].allocatable.get("gpu", 0) // GPU_UNIT

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

    def table(self, cards: CardTable | None) -> NodeTable:
        """Freeze, without what tasks hold."""
        if self._annotations is None:
            self._annotations = tuple(self._node[name].annotations for name in self.name)
        return NodeTable(
            name=self.name,
            statics=self.statics(),
            allocatable=self.allocatable(),
            idle=NOTHING_SUMMED,
            releasing=NOTHING_SUMMED,
            version=NOT_SUMMED,
            cards=cards,
            annotations=self._annotations,
            topologies=self._topologies,
        )


def _statics_of(node: NodeRow) -> tuple[object, ...]:
    return (node.labels, node.taints, node.is_ready, node.is_unschedulable, node.has_pressure)


def _flags(values: list[bool]) -> BoolVec:
    flags = np.array(values, np.bool_)
    flags.setflags(write=False)
    return flags


def node_row(node: Node, gpu_resources: Sequence[str]) -> NodeRow:
    """Return a node's row. A node that reports no Ready condition counts as ready."""
    status_of = {condition.type: condition.status for condition in node.status.conditions}
    return NodeRow(
        name=node.name,
        allocatable=node_allocatable(node, gpu_resources),
        labels=node.metadata.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        is_ready=status_of.get("Ready", _TRUE) == _TRUE,
        is_unschedulable=node.spec.unschedulable,
        has_pressure=any(status_of.get(kind) == _TRUE for kind in _PRESSURES),
        annotations=node.metadata.annotations,
        card_mib=card_mib_of(node),
        can_share=can_share(node, gpu_resources),
    )
