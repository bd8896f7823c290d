"""The constraints of tasks and the properties of nodes, as hashable values.

Parsed once, at event time, from the API objects; the predicates plugin turns them into masks, one
per shape, with the interned columns of :class:`NodeStatics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.devices import DeviceDemand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.core.axis import BoolVec, RowVec


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint. ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration. An empty key with Exists tolerates all, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str


KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods from a node; others are wishes."""
CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint of a cordoned node."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether a toleration covers a taint, by the rules of Kubernetes."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


@dataclass(frozen=True, slots=True)
class Requirement:
    """``key operator values`` of a selector; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


NodeTerm: TypeAlias = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""(match expressions on labels, match fields); all must hold."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One required pod affinity or anti-affinity term."""

    topology_key: str
    namespaces: tuple[str, ...]
    """Namespaces whose pods count; never empty (the pod's own is the default)."""
    all_namespaces: bool
    selector: tuple[Requirement, ...]
    """matchLabels as In requirements, and matchExpressions; all must hold."""
    match_none: bool = False
    """A missing selector matches no pod."""


class ClaimUse(NamedTuple):
    """A claim of a task. Tasks with equal claims, each with its own, share a shape."""

    spec: int
    """Number of what it asks for, in the table of claims."""
    key: str = ""
    """Of a claim that others use too, or that has its devices; empty for one like others."""
    unless_plugin: bool = False
    """It is for a resource, and needed only on nodes that do not offer it by a device plugin."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Everything besides amounts that limits the nodes of a task."""

    node_selector: tuple[tuple[str, str], ...] = ()
    flavor_keys: tuple[str, ...] = ()
    """Keys of the node selector that the flavor of the queue adds; the rest is the pod's own."""
    node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity: any one term must hold; None for no requirement."""
    node_types: tuple[str, ...] = ()
    """Values of the label ``run.ai/type`` of which its job wants one; empty for any node."""
    queue_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    """The node affinity of the queues of its job: of each entry one term must hold."""
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(protocol, host IP, port)."""
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    """The nodes where its volumes can be used: of each entry one term must hold."""
    wait: tuple[int, str] | None = None
    """Refusal code and text of a claim or unread owner that keeps it from every node."""
    label_set: int = -1
    """The task's own label set if it has pod terms (which may match its own gang), else -1."""
    claims: tuple[ClaimUse, ...] = ()
    """Its claims on devices, in its own order."""
    claimed_milli: int = 0
    """Thousandths of a GPU that these count in queues beyond what they take of their node: parts
    of devices, which queues round to the nearest and nodes down."""
    devices: DeviceDemand | None = None
    """What it asks of GPUs besides amounts; None for nearly every pod."""

    @property
    def own_selector(self) -> tuple[tuple[str, str], ...]:
        """The part of the node selector that is the pod's own."""
        return tuple(it for it in self.node_selector if it[0] not in self.flavor_keys)

    @property
    def has_pod_terms(self) -> bool:
        """Whether other pods, and not only nodes, limit where the task may go."""
        return bool(self.pod_affinity or self.pod_anti_affinity or self.host_ports)


ABSENT = -1


@dataclass(frozen=True)
class NodeStatics:
    """The properties of nodes that rarely change, with interned columns built on first use.

    One object serves every snapshot until a label, taint, condition or the set of nodes changes; a
    cache may therefore compare it by identity.
    """

    name: Sequence[str]
    labels: Sequence[Mapping[str, str]]
    taints: Sequence[tuple[Taint, ...]]
    is_ready: BoolVec
    """``(N,)`` condition Ready is true."""
    is_unschedulable: BoolVec
    """``(N,)`` cordoned."""
    has_pressure: BoolVec
    """``(N,)`` memory, disk or PID pressure, or network unavailable."""

    @cached_property
    def _columns(self) -> dict[str, tuple[RowVec, tuple[str, ...]]]:
        return {}

    def label_column(self, key: str) -> tuple[RowVec, tuple[str, ...]]:
        """Return (``(N,)`` value numbers, -1 where absent; the values by number)."""
        found = self._columns.get(key)
        if found is None:
            number: dict[str, int] = {}
            column = np.full(len(self.name), ABSENT, np.int64)
            for row, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    column[row] = number.setdefault(value, len(number))
            column.setflags(write=False)
            found = self._columns[key] = (column, tuple(number))
        return found

    @cached_property
    def taint_sets(self) -> tuple[RowVec, tuple[tuple[Taint, ...], ...]]:
        """(``(N,)`` taint set numbers; the sets by number)."""
        number: dict[tuple[Taint, ...], int] = {}
        column = np.array(
            [number.setdefault(taints, len(number)) for taints in self.taints], np.int64
        )
        return column.reshape(len(self.name)), tuple(number)
