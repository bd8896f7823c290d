"""Nodes, and topologies: the levels of a data centre, as node labels."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.objects.faults import Fault
from kaisched.objects.labels import LABEL_KEY
from kaisched.objects.wire import Amounts, Condition, KubernetesObject, StrictWire, Wire


class Taint(Wire, frozen=True, kw_only=True):
    """Keeps pods without a matching toleration away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True, kw_only=True):
    """A node's settings by the administrator."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Wire, frozen=True, kw_only=True):
    """A node's report on itself."""

    allocatable: Amounts = {}
    capacity: Amounts = {}
    conditions: list[Condition] = []


class Node(KubernetesObject, frozen=True, kw_only=True):
    """A node."""

    API_VERSION = "v1"
    KIND = "Node"
    IS_NAMESPACED = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# -- topologies ------------------------------------------------------------------------------------


class TopologyLevel(StrictWire, frozen=True, kw_only=True):
    """One level: nodes with the same value of the label are together."""

    node_label: str
    alias: str = ""


class TopologySpec(StrictWire, frozen=True, kw_only=True):
    """One to sixteen levels, the outermost first."""

    levels: list[TopologyLevel]


class Topology(KubernetesObject, frozen=True, kw_only=True):
    """A tree of domains."""

    API_VERSION = "kai.scheduler/v1alpha1"
    KIND = "Topology"
    IS_NAMESPACED = False

    spec: TopologySpec


MAX_LEVELS: Final = 16
LABEL_FIX: Final = "write one such as topology.kubernetes.io/rack"
"""What to do about a name that no label of a node can have."""
_HOSTNAME: Final = "kubernetes.io/hostname"


def topology_faults(topology: Topology) -> Iterator[Fault]:
    """Yield faults: the number of levels, bad or repeated names, hosts above other levels."""
    levels = topology.spec.levels
    path = ("spec", "levels")
    if not 1 <= len(levels) <= MAX_LEVELS:
        yield Fault(path, f"{len(levels)} levels", fix=f"write 1 to {MAX_LEVELS} levels")
    labels = [level.node_label for level in levels]
    aliases: set[str] = set()
    for at, level in enumerate(levels):
        if not level.node_label:
            yield Fault((*path, at, "nodeLabel"), "empty", fix="write the key of a node label")
        elif level.node_label in labels[:at]:
            fix = "give each level its own label"
            yield Fault((*path, at, "nodeLabel"), "given twice", level.node_label, fix)
        elif not LABEL_KEY.fullmatch(level.node_label):
            yield Fault((*path, at, "nodeLabel"), "no name of a label", level.node_label, LABEL_FIX)
        if level.node_label == _HOSTNAME and at != len(levels) - 1:
            fix = "make it the last level: no level is inside a host"
            yield Fault((*path, at, "nodeLabel"), "a host holds no other level", _HOSTNAME, fix)
        if level.alias and (level.alias in aliases or level.alias in labels):
            fix = "give each level an alias of its own, which is no node label here"
            yield Fault((*path, at, "alias"), "already names a level", level.alias, fix)
        aliases.add(level.alias)
