"""Where pods may be: constraints of tasks, properties of nodes, and domains of topologies.

Parsed once, at event time, from the API objects into hashable values; the predicates plugin turns
them into masks, one per shape, with the interned columns of :class:`NodeStatics`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.devices import DeviceDemand
from kaisched.core.tables import TopologyLevel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.core.tables import QueueTable, TopologyConstraint


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint. ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration. An empty key with Exists tolerates all, an empty effect every effect.

    Operators are Equal and Exists; and Gt and Lt, by which a taint's value is greater or less.
    """

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
    if toleration.key != taint.key:
        return False
    if toleration.operator in ("Gt", "Lt"):
        bound, value = _integer(toleration.value), _integer(taint.value)
        if bound is None or value is None:
            return False
        return value > bound if toleration.operator == "Gt" else value < bound
    return toleration.operator in ("Equal", "") and toleration.value == taint.value


_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_LARGEST: Final = 2**63


def _integer(text: str) -> int | None:
    """Return a number of 64 bits as Kubernetes writes it; None for any other text."""
    number = int(text) if len(text) <= 20 and _INTEGER.fullmatch(text) else _LARGEST  # noqa: PLR2004
    return number if -_LARGEST <= number < _LARGEST else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """``key operator values`` of a selector; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def is_met(self, value: str | None) -> bool:
        """Tell whether a label's value meets it; None for no such label."""
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if self.operator not in ("Gt", "Lt") or value is None or not self.values:
            return False
        number, bound = _number(value), _number(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


_NUMBER: Final = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)


def _number(text: str) -> int | None:
    """Return a number of 64 bits as labels may have it; None for any other text."""
    number = int(text) if _NUMBER.fullmatch(text) else _LARGEST
    return number if -_LARGEST <= number < _LARGEST else None


NodeTerm: TypeAlias = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""(match expressions on labels, match fields); all must hold."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One pod affinity or anti-affinity term: which pods, and the domains that count."""

    topology_key: str
    namespaces: tuple[str, ...]
    """Namespaces whose pods count; never empty (the pod's own is the default)."""
    all_namespaces: bool
    selector: tuple[Requirement, ...]
    """matchLabels as In requirements, and matchExpressions; all must hold."""
    match_none: bool = False
    """A missing selector matches no pod."""
    home: str = ""
    """The only namespace whose pods its own pod keeps away, once that has a node; empty for all."""

    @property
    def for_others(self) -> PodTerm | None:
        """The term as it counts for pods that come later; None where it does not."""
        if not self.home:
            return self
        if self.all_namespaces or self.home in self.namespaces:
            return replace(self, namespaces=(self.home,), all_namespaces=False)
        return None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether it is about pods of a namespace with such labels."""
        if self.match_none or not (self.all_namespaces or namespace in self.namespaces):
            return False
        return all(each.is_met(labels.get(each.key)) for each in self.selector)


class SpreadRule(NamedTuple):
    """A topology spread constraint."""

    pods: PodTerm
    """The pods that count, and the label whose values are the domains."""
    max_skew: int
    """How many pods more than the domain with the fewest a domain may have."""
    min_domains: int = 1
    """With fewer domains the fewest are none."""
    honors_affinity: bool = True
    """Only nodes that the pod's selectors and affinity allow make up domains."""
    honors_taints: bool = False
    """Only nodes whose taints the pod tolerates make up domains."""


class Preferences(NamedTuple):
    """What a task prefers, and goes without where no node has it: it counts in scores alone."""

    nodes: tuple[tuple[int, NodeTerm], ...] = ()
    """Preferred node affinity: weight and term."""
    pods: tuple[tuple[int, PodTerm], ...] = ()
    """Preferred pod affinity: weight and term; the weights of anti-affinity are negative."""
    spread: tuple[SpreadRule, ...] = ()
    """Topology spread constraints with ``ScheduleAnyway``."""

    @property
    def are_about_pods(self) -> bool:
        """Whether the places of pods count, and not only nodes."""
        return bool(self.pods or self.spread)


NO_PREFERENCES: Final = Preferences()


class ClaimUse(NamedTuple):
    """A claim of a task. Tasks with equal claims, each with its own, share a shape."""

    spec: int
    """Number of what it asks for, in the table of claims."""
    key: str = ""
    """Of a claim that others use too, or that has its devices; empty for one like others."""
    unless_plugin: bool = False
    """It is for a resource, and needed only on nodes that do not offer it by a device plugin."""


class UnboundClaim(NamedTuple):
    """A claim of storage that gets its volume with its pod: from these, or it is made."""

    size: int
    """Bytes: the smallest claim of a pod chooses first."""
    key: str
    pod: str
    """Its pod: pods that use the same claim are placed one by one."""
    volumes: tuple[tuple[str, tuple[NodeTerm, ...] | None], ...]
    """Free volumes that fit, the first to be taken first, and where; None for everywhere."""
    made: tuple[tuple[NodeTerm, ...], ...] | None
    """Where one can be made: of each entry one term must hold; None for nowhere."""


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
    spread: tuple[SpreadRule, ...] = ()
    """How its kind is spread; such pods are placed one by one, since each changes the counts."""
    preferences: Preferences = NO_PREFERENCES
    """What it prefers; pods that prefer places by other pods are placed one by one, too."""
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    """The nodes where its volumes can be used: of each entry one term must hold."""
    unbound: tuple[UnboundClaim, ...] = ()
    """Its claims of storage that choose from free volumes, in this order."""
    wait: tuple[int, str] | None = None
    """Refusal code and text of a claim or unread owner that keeps it from every node."""
    averse: tuple[PodTerm, ...] = ()
    """Anti-affinity of other pods that selects it, less the domains: such pods are of one class."""
    label_set: int = -1
    """The task's own label set if it has pod terms (which may match its own gang), else -1."""
    claims: tuple[ClaimUse, ...] = ()
    """Its claims on devices, in its own order."""
    claimed_milli: int = 0
    """Thousandths of a GPU that these count in queues beyond what they take of their node. Parts
    of devices do: queues round them to the nearest and nodes down."""
    devices: DeviceDemand | None = None
    """What it asks of GPUs besides amounts; None for nearly every pod."""

    @property
    def own_selector(self) -> tuple[tuple[str, str], ...]:
        """The part of the node selector that is the pod's own."""
        return tuple(it for it in self.node_selector if it[0] not in self.flavor_keys)

    @property
    def has_pod_terms(self) -> bool:
        """Whether other pods, and not only nodes, limit where the task may go."""
        affinity = self.pod_affinity or self.pod_anti_affinity
        return bool(affinity or self.host_ports or self.spread or self.unbound)


ABSENT = -1


@dataclass(frozen=True)
class NodeStatics:
    """What rarely changes of nodes.

    One object serves every snapshot until a label, taint, condition or the set of nodes changes; a
    cache may compare it by identity.
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


# -- node affinity of queues -----------------------------------------------------------------------

Terms: TypeAlias = "tuple[tuple[NodeTerm, ...], ...]"
"""Of each entry one term must hold."""


def demands_of(table: QueueTable, workload: int, queue: int) -> Iterator[tuple[str, Terms]]:
    """Yield the queues from the root to ``queue`` that demand something, with what they demand."""
    own = table.node_affinity
    if own is not None and queue >= 0:
        for row in reversed(table.tree.path(queue).tolist()):
            if entries := own[row][workload]:
                yield table.name[row], entries


def terms_for(table: QueueTable, workload: int, queue: int) -> Terms:
    """Return what holds for jobs of a type of workload in a leaf, each entry once."""
    found = demands_of(table, workload, queue)
    return tuple(dict.fromkeys(entry for _, entries in found for entry in entries))


def in_words(terms: Terms) -> str:
    """Return demands as a text, as ``run.ai/type in (a100, v100)``."""
    return " and ".join(" or ".join(_term(term) for term in entry) for entry in terms)


def _term(term: NodeTerm) -> str:
    return " and ".join(_requirement(one) for part in term for one in part)


def _requirement(one: Requirement) -> str:
    if one.operator in ("In", "NotIn"):
        word = "in" if one.operator == "In" else "not in"
        return f"{one.key} {word} ({', '.join(one.values)})"
    if one.operator in ("Gt", "Lt"):
        return f"{one.key} {'>' if one.operator == 'Gt' else '<'} {', '.join(one.values)}"
    return one.key if one.operator == "Exists" else f"no {one.key}"


# -- domains of topologies -------------------------------------------------------------------------


def domain_paths(
    levels: Sequence[TopologyLevel], labels: Sequence[Mapping[str, str]]
) -> list[tuple[str, ...] | None]:
    """Return the values of all labels of a topology for each node; None if it lacks one."""
    keys = [level.label for level in levels]
    return [
        tuple(each[key] for key in keys) if all(key in each for key in keys) else None
        for each in labels
    ]


def topology_of(
    topologies: Mapping[str, Sequence[TopologyLevel]], constraint: TopologyConstraint
) -> str:
    """Return which of some topologies a constraint is about, empty for none."""
    if constraint.topology or not (constraint.is_pod_set or constraint.is_label):
        return constraint.topology
    wanted = {constraint.required, constraint.preferred, *dict(constraint.slices)} - {""}
    for name, levels in sorted(topologies.items()):
        aliases = () if constraint.is_label else (level.alias for level in levels)
        if wanted <= {level.label for level in levels}.union(aliases):
            return name
    return ""


def levels_of(
    topologies: Mapping[str, tuple[TopologyLevel, ...]], constraint: TopologyConstraint
) -> tuple[TopologyLevel, ...]:
    """Return the levels of the topology that a constraint is about, none if there is no such one.

    A label of nodes that no topology has is a topology of one level: equal values are one domain.
    """
    levels = topologies.get(topology_of(topologies, constraint), ())
    return levels or ((TopologyLevel(constraint.required),) if constraint.is_label else ())


def level_of(levels: Sequence[TopologyLevel], name: str) -> int:
    """Return the number of the level with a label or alias, -1 for none."""
    found = [at for at, level in enumerate(levels) if name in (level.label, level.alias)]
    return found[0] if name and found else -1


class Domains(NamedTuple):
    """The domains of one level, in the order of their values."""

    word: str
    """The name of the level for people."""
    names: list[str]
    """Values, with those of the levels above where the last one occurs more than once."""
    of_node: RowVec
    """``(N,)``; -1 for a node that lacks a label of the topology."""

    def sums(self, each: IntVec) -> IntVec:
        """``(D,)`` the sums of a column of the nodes."""
        inside = self.of_node >= 0
        found = np.zeros(len(self.names), np.int64)
        np.add.at(found, self.of_node[inside], each[inside])
        return found


def domains_at(
    levels: Sequence[TopologyLevel], level: int, labels: Sequence[Mapping[str, str]]
) -> Domains:
    """Return the domains of one level."""
    paths = [None if it is None else it[: level + 1] for it in domain_paths(levels, labels)]
    known = sorted({path for path in paths if path is not None})
    number = {path: at for at, path in enumerate(known)}
    of_node = np.array([-1 if path is None else number[path] for path in paths], np.int64)
    return Domains(levels[level].alias or levels[level].label, unique_names(known), of_node)


def unique_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the last value of each path, or all of them where that is not unique."""
    often = Counter(path[-1] for path in paths)
    return [path[-1] if often[path[-1]] == 1 else "/".join(path) for path in paths]
