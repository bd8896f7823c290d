"""Topology objects, taken in or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.cluster.problems import fault_of
from kaisched.core.tables import TopologyLevel

if TYPE_CHECKING:
    from kaisched.cluster.store import StateStore
    from kaisched.objects.node import Topology


def put_topology(store: StateStore, topology: Topology) -> None:
    """Take in a topology that came or changed; one with a fault is as good as absent."""
    fault = fault_of(topology)
    store.declared.note_topology(topology.name, fault)
    levels = tuple(TopologyLevel(it.node_label, it.alias) for it in topology.spec.levels)
    if store.rows.nodes.put_topology(topology.name, () if fault else levels):
        store.rows.touch()


def remove_topology(store: StateStore, name: str) -> None:
    """Drop a topology; jobs that require a level of it wait until it comes back."""
    store.declared.note_topology(name)
    if store.rows.nodes.put_topology(name, ()):
        store.rows.touch()
