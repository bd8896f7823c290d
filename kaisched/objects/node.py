"""Nodes."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import ClassVar

from kaisched.objects.wire import Amounts, Condition, KubernetesObject, Wire


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

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Node"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
