"""Topologies: the levels of a data centre, as node labels."""

from __future__ import annotations

from typing import ClassVar

from kaisched.objects.wire import KubernetesObject, StrictWire


class TopologyLevel(StrictWire, frozen=True, kw_only=True):
    """One level: nodes with the same value of the label are together."""

    node_label: str
    alias: str = ""


class TopologySpec(StrictWire, frozen=True, kw_only=True):
    """One to sixteen levels, the outermost first."""

    levels: list[TopologyLevel]


class Topology(KubernetesObject, frozen=True, kw_only=True):
    """A tree of domains."""

    API_VERSION: ClassVar[str] = "kai.scheduler/v1alpha1"
    KIND: ClassVar[str] = "Topology"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: TopologySpec
