"""ClusterQueues, Cohorts and their flavors as queues: exact where flavors are known or are one.

The rules (K1 to K6, K10) are in docs/reference/kueue-objects.md.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.faults import Fault, Source, to_error
from kaisched.objects.kueue import (
    ClusterQueue,
    Cohort,
    FairSharing,
    FlavorFungibility,
    FlavorResource,
    LocalQueue,
    ResourceFlavor,
)
from kaisched.objects.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    SelectorRequirement,
)
from kaisched.objects.podgroup import cycles
from kaisched.objects.queue import (
    BY_USAGE,
    Queue,
    QueueFairSharing,
    QueueFlavor,
    QueueFlavorFungibility,
    QueueFlavorResource,
    QueuePreemption,
    QueueResource,
    QueueSpec,
)
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import ObjectMeta
from kaisched.units import MAX_QUOTA, MEGABYTE, MEMORY_UNIT, Amount, is_in_bytes, parse_quantity

# -- amounts ---------------------------------------------------------------------------------------

_MOST: Final = MAX_QUOTA - 1
_SHARED: Final = ("cpu", "memory", "ephemeral-storage")
NO_ROOM: Final = QueueResource(quota=0, limit=0)


def our_name(resource: str, gpu_resources: Container[str]) -> str:
    """Return the name in our queues; empty for a resource that they do not share out."""
    if resource in gpu_resources:
        return "gpu"
    if resource in GPU_RESOURCES:
        return ""
    return resource if resource in _SHARED or is_in_bytes(resource) or "/" in resource else ""


def share_of(name: str, said: FlavorResource) -> QueueResource:
    """Return the quota and the limits of one resource; their syntax was checked."""
    return QueueResource(
        quota=amount_of(name, said.nominal_quota),
        borrowing_limit=_limit(name, said.borrowing_limit),
        lending_limit=_limit(name, said.lending_limit),
    )


def amount_of(name: str, amount: Amount) -> int | float:
    """Return an amount as Kueue counts it: milli-CPU, bytes, pieces, each rounded up.

    Memory is rounded down to our base unit of 64 bytes; amounts saturate as those of queues do.
    """
    quantity = parse_quantity(amount)
    exact, per = quantity.numerator, quantity.denominator
    if name == "cpu":
        return min(-(-exact * 1000 // per), _MOST)
    whole = -(-exact // per)
    if name == "gpu":
        return min(whole, _MOST // 1000)
    if is_in_bytes(name):
        return _megabytes(min(whole // MEMORY_UNIT, _MOST))
    return min(whole, _MOST)


def _limit(name: str, amount: Amount | None) -> int | float:
    return -1 if amount is None else amount_of(name, amount)


def _megabytes(units: int) -> int | float:
    """Return the number of megabytes that is read as just so many base units."""
    if units % MEGABYTE == 0:
        return units // MEGABYTE
    megabytes = units / MEGABYTE
    if parse_quantity(megabytes).times(MEGABYTE, 1, round_up=False, most=MAX_QUOTA) == units:
        return megabytes
    return (2 * units + 1) / (2 * MEGABYTE)  # the middle: half a unit from both neighbours


# -- quotas by flavor ------------------------------------------------------------------------------

_STOPS = ("MayStopSearch", "Borrow", "Preempt")
"""The second and third are older names of the first."""


def queue_flavors(
    said: Iterable[tuple[str, str, FlavorResource]], labels: Mapping[str, Mapping[str, str]]
) -> list[QueueFlavor]:
    """Return the flavors of a queue in its order.

    Args:
        said: the name of each flavor, of a resource in our queues, and its quota.
        labels: the node labels of each flavor.

    """
    found: dict[str, dict[str, QueueFlavorResource]] = {}
    for flavor, name, resource in said:
        share = share_of(name, resource)
        found.setdefault(flavor, {})[name] = QueueFlavorResource(
            quota=share.quota,
            borrowing_limit=share.borrowing_limit,
            lending_limit=share.lending_limit,
        )
    return [
        QueueFlavor(name=name, node_labels=dict(labels.get(name, {})), resources=resources)
        for name, resources in found.items()
    ]


def fungibility_of(said: FlavorFungibility) -> QueueFlavorFungibility:
    """Return which flavor a job gets if its first does not fit at once."""
    return QueueFlavorFungibility(
        when_can_borrow="MayStopSearch" if said.when_can_borrow in _STOPS else "TryNextFlavor",
        when_can_preempt="MayStopSearch" if said.when_can_preempt in _STOPS else "TryNextFlavor",
        preference=said.preference,
    )


# -- nodes of flavors ------------------------------------------------------------------------------


class FlavorNodes:
    """Says where pods may go, by their queue and by what they ask for."""

    def __init__(
        self,
        counted: Mapping[str, Mapping[str, str]],
        flavors: Iterable[ResourceFlavor],
        gpu_resources: Container[str],
        by_flavor: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Keep the flavors.

        Args:
            counted: the flavor that counts, by queue and resource as the queue calls it.
            flavors: the objects; a flavor without one may be anywhere.
            gpu_resources: resources that count as GPUs.
            by_flavor: all flavors of queues that have quotas by flavor: the policy chooses one.

        """
        self._by_flavor = by_flavor or {}
        self._counted = counted
        self._flavor = {flavor.name: flavor.spec for flavor in flavors}
        self._gpu_resources = gpu_resources

    def kept(self, queue: str, spec: PodSpec) -> tuple[PodSpec, list[str]]:
        """Return a pod that selects its flavors' nodes, tolerates what they do, and the new keys.

        What the pod itself selects is kept: with another value it then fits on no node. Since a
        selector has one value for each key, such values are required by affinity.
        """
        counted = self._counted.get(queue, {})
        names = {counted[it] for it in self._asked(spec) if it in counted}
        flavors = [self._flavor[name] for name in sorted(names) if name in self._flavor]
        chosen = [self._flavor[it] for it in self._by_flavor.get(queue, ()) if it in self._flavor]
        selector: dict[str, str] = {}
        others: list[tuple[str, str]] = []
        for wanted in (*(flavor.node_labels for flavor in flavors), spec.node_selector):
            others += [it for it in wanted.items() if selector.get(it[0], it[1]) != it[1]]
            selector = {**wanted, **selector}
        tolerations = [it for flavor in (*flavors, *chosen) for it in flavor.tolerations]
        kept = replace(
            spec,
            node_selector=selector,
            affinity=_requiring(spec.affinity, others),
            tolerations=[*spec.tolerations, *tolerations],
        )
        return kept, sorted(dict(selector.items() - spec.node_selector.items()))

    def _asked(self, spec: PodSpec) -> Iterator[str]:
        for container in (*spec.containers, *spec.init_containers):
            for name in (*container.resources.requests, *container.resources.limits):
                yield our_name(name, self._gpu_resources)


def _requiring(affinity: Affinity | None, labels: Iterable[tuple[str, str]]) -> Affinity | None:
    """Return an affinity that requires labels of nodes besides."""
    more = [
        SelectorRequirement(key=key, operator="In", values=[value]) for key, value in sorted(labels)
    ]
    if not more:
        return affinity
    affinity = affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    if of_nodes.required is None:
        terms = [NodeSelectorTerm(match_expressions=more)]
    else:  # a term without requirements matches no node, and goes on to do so
        terms = [
            replace(it, match_expressions=[*it.match_expressions, *more])
            if it.match_expressions or it.match_fields
            else it
            for it in of_nodes.required.node_selector_terms
        ]
    required = NodeSelector(node_selector_terms=terms)
    return replace(
        affinity,
        node_affinity=replace(
            of_nodes, required_during_scheduling_ignored_during_execution=required
        ),
    )


# -- the tree of queues ----------------------------------------------------------------------------

Sources: TypeAlias = Mapping[tuple[str, str], Source]
_Node: TypeAlias = ClusterQueue | Cohort
_Any: TypeAlias = ClusterQueue | Cohort | LocalQueue
_OWN: Final = ("gpu", "cpu", "memory")
_ASKED: Final = ("cpu", "memory")
"""Nearly every pod asks for these, so that a queue without them runs nearly nothing."""


class Said(NamedTuple):
    """A quota of a ClusterQueue or Cohort, and where it is written."""

    name: str
    """In our queues; empty if they do not share the resource out."""
    flavor: str
    resource: FlavorResource
    path: tuple[str | int, ...]

    @property
    def source(self) -> tuple[str, str]:
        """The resource as Kueue calls it, and the flavor."""
        return self.resource.name, self.flavor


@dataclass(slots=True)
class Tree:
    """Queues, and what was wrong or has no equivalent."""

    queues: list[Queue] = field(default_factory=list)
    made_of: dict[str, tuple[str, str]] = field(default_factory=dict)
    """(kind, key) of the object behind a queue, by the queue's name."""
    flavor_of: dict[str, dict[str, str]] = field(default_factory=dict)
    """The flavor that counts, by the name of a queue and by resource; none in ``flavors_of``."""
    flavors_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """All flavors of a queue whose quotas are by flavor."""
    local_queues: set[str] = field(default_factory=set)
    """Names of queues made of LocalQueues, which are their keys (K10)."""
    problems: list[ObjectError] = field(default_factory=list)
    warnings: list[ObjectError] = field(default_factory=list)


def tree_of(
    cluster_queues: Iterable[ClusterQueue],
    cohorts: Iterable[Cohort],
    local_queues: Iterable[LocalQueue] = (),
    *,
    taken: Iterable[str] = (),
    gpu_resources: Sequence[str] = GPU_RESOURCES,
    sources: Sources | None = None,
    flavors: Iterable[ResourceFlavor] | None = None,
) -> Tree:
    """Return the queues of ClusterQueues and Cohorts.

    Args:
        cluster_queues: without faults of their own.
        cohorts: likewise; those that are only named exist without a quota.
        local_queues: likewise; those of ClusterQueues that serve them by usage become queues.
        taken: names of other queues.
        gpu_resources: resources that count as GPUs.
        sources: where objects were read, for messages.
        flavors: the nodes of flavors; None if they are not known, so that one of them counts.

    """
    maker = _Maker(list(cluster_queues), list(cohorts), set(taken), gpu_resources, sources)
    if flavors is not None:
        maker.labels = {flavor.name: flavor.spec.node_labels for flavor in flavors}
    return maker.make(list(local_queues))


class _Maker:
    """Makes one tree."""

    def __init__(
        self,
        cluster_queues: list[ClusterQueue],
        cohorts: list[Cohort],
        taken: set[str],
        gpu_resources: Sequence[str],
        sources: Sources | None,
    ) -> None:
        self._tree = Tree()
        self.labels: Mapping[str, Mapping[str, str]] | None = None
        """Node labels by flavor; None if they are not known."""
        self._gpu_resources, self._sources = gpu_resources, sources or {}
        self._leaves = []
        for queue in cluster_queues:
            if queue.name in taken:
                fix = "rename one of the two; the Queue counts"
                self._add(queue, Fault(("metadata", "name"), "a Queue has it", queue.name, fix))
            else:
                self._leaves.append(queue)
        self._inner = {cohort.name: cohort for cohort in cohorts}
        nodes: list[_Node] = [*self._leaves, *cohorts]
        for node in nodes:
            above = node.spec.above
            if above and above not in self._inner:
                self._inner[above] = Cohort(metadata=_named_by(node, above))
        self._taken = taken | {queue.name for queue in self._leaves}

    def make(self, local_queues: list[LocalQueue]) -> Tree:
        """Return the queues, those above first."""
        good = self._without_cycles()
        said = {id(node): list(self._said(node)) for node in good}
        counted = self._flavors(good, said)
        every = {it.name for node in good for it in said[id(node)] if it.name} | set(_OWN)
        chosen = self._with_choice(good, said)
        for node in good:
            name, above = self._name(node), node.spec.above
            flavors: list[QueueFlavor] = []
            if self._root(node) in chosen:
                shares, flavors = self._closed(node, said[id(node)]), self._by_flavor(node, said)
            else:
                shares = self._shares(node, said[id(node)], counted)
            spec = QueueSpec(
                parent_queue=self._name(self._inner[above]) if above else "",
                resources=shares,
                flavors=flavors,
                fair_sharing=QueueFairSharing(weight=node.spec.fair_sharing.weight),
            )
            if isinstance(node, ClusterQueue):
                spec = self._leaf(node, spec, every)
            self._tree.queues.append(Queue(metadata=replace(node.metadata, name=name), spec=spec))
            self._tree.made_of[name] = (node.KIND, node.key)
        self._add_local_queues(local_queues)
        return self._tree

    def _add_local_queues(self, local_queues: list[LocalQueue]) -> None:
        """Add the queues of LocalQueues that are served by usage (K10)."""
        by_usage = {queue.name for queue in self._leaves if queue.spec.is_by_usage}
        made = self._tree.made_of.keys() & by_usage
        for local in local_queues:
            above, weight = local.spec.cluster_queue, local.spec.fair_sharing.weight
            if above not in by_usage:
                if weight != FairSharing().weight:
                    message = "has no meaning: its ClusterQueue has no order by usage"
                    fix = f"write {BY_USAGE} as its admissionScope.admissionMode"
                    fault = Fault(("spec", "fairSharing", "weight"), message, weight, fix)
                    self._add(local, fault._replace(is_warning=True))
            elif above in made:
                self._tree.queues.append(_queue_of(local))
                self._tree.made_of[local.key] = (local.KIND, local.key)
                self._tree.local_queues.add(local.key)
                self._tree.flavor_of[local.key] = self._tree.flavor_of.get(above, {})

    def _leaf(self, node: ClusterQueue, spec: QueueSpec, every: set[str]) -> QueueSpec:
        """Return a ClusterQueue's spec: it takes nothing of what it does not cover (K3)."""
        bare = [name for name in _ASKED if name not in spec.resources]
        if bare:
            message = f"no quota of {' and '.join(bare)}: jobs that ask for some wait"
            self._add(node, Fault(("spec", "resourceGroups"), message, is_warning=True))
        closed = {name: NO_ROOM for name in sorted(every) if name not in spec.resources}
        taking = node.spec.preemption
        return replace(
            spec,
            resources=spec.resources | closed,
            stop_policy=node.spec.stop_policy,
            admission_scope=node.spec.admission_scope,
            flavor_fungibility=fungibility_of(node.spec.flavor_fungibility),
            preemption=QueuePreemption(
                within_cluster_queue=taking.within_cluster_queue,
                reclaim_within_cohort=taking.reclaim_within_cohort,
                borrow_within_cohort=taking.borrow_within_cohort,
            ),
        )

    def _name(self, node: _Node) -> str:
        """Return the name of a node's queue (K1)."""
        is_clash = isinstance(node, Cohort) and node.name in self._taken
        return f"cohort/{node.name}" if is_clash else node.name

    def _without_cycles(self) -> list[_Node]:
        """Return all nodes but those of trees with a cycle (K2)."""
        parent = {name: cohort.spec.above for name, cohort in self._inner.items()}
        bad: set[str] = set()
        for cycle in cycles(parent):
            chain = " -> ".join([*cycle[:8], "..." if len(cycle) > 8 else cycle[0]])  # noqa: PLR2004
            bad |= set(cycle)
            for name in cycle:
                fault = Fault(
                    _path_above(self._inner[name]),
                    f"cohorts inside each other: {chain}",
                    fix="give one of them no cohort above",
                )
                self._add(self._inner[name], fault)
        if not bad:
            return [*self._inner.values(), *self._leaves]
        nodes: list[_Node] = [*self._inner.values(), *self._leaves]
        good: list[_Node] = []
        for node in nodes:
            root = self._root(node, bad)
            if root not in bad:
                good.append(node)
            elif node.name not in bad or isinstance(node, ClusterQueue):
                fix = f'put cohort "{root}" right first'
                self._add(node, Fault(_path_above(node), "cannot be used", node.spec.above, fix))
        return good

    def _root(self, node: _Node, stop: frozenset[str] | set[str] = frozenset()) -> str:
        """Return the name of the top of a node's tree, or of the first in ``stop`` on the way."""
        name = "" if isinstance(node, ClusterQueue) else node.name
        while name not in stop and node.spec.above:
            name, node = node.spec.above, self._inner[node.spec.above]
        return name or f"/{node.name}"  # of a ClusterQueue alone: no cohort has such a name

    def _said(self, node: _Node) -> Iterator[Said]:
        for at, group in enumerate(node.spec.resource_groups):
            for number, flavor in enumerate(group.flavors):
                for place, resource in enumerate(flavor.resources):
                    name = our_name(resource.name, self._gpu_resources)
                    path = ("spec", "resourceGroups", at, "flavors", number, "resources", place)
                    said = Said(name, flavor.name, resource, path)
                    if name:
                        yield said
                    else:
                        fix = "queues do not share this resource out"
                        self._not_counted(node, said, fix)

    def _flavors(
        self, nodes: list[_Node], said: Mapping[int, list[Said]]
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """Return which flavor counts, by tree and resource: that with the largest quota (K4)."""
        total: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
        for node in nodes:
            root = self._root(node)
            for it in said[id(node)]:
                flavors = total.setdefault((root, it.name), {})
                quota = amount_of(it.name, it.resource.nominal_quota)
                flavors[it.source] = flavors.get(it.source, 0) + quota
        return {
            key: min(flavors, key=lambda it: (-flavors[it], it)) for key, flavors in total.items()
        }

    def _with_choice(self, nodes: list[_Node], said: Mapping[int, list[Said]]) -> set[str]:
        """Return the roots of trees with several flavors of a resource, if nodes are known (K4)."""
        if self.labels is None:
            return set()
        found: dict[tuple[str, str], set[str]] = {}
        for node in nodes:
            for it in said[id(node)]:
                found.setdefault((self._root(node), it.name), set()).add(it.flavor)
        return {root for (root, _), flavors in found.items() if len(flavors) > 1}

    def _by_flavor(self, node: _Node, said: Mapping[int, list[Said]]) -> list[QueueFlavor]:
        """Return the quotas of a node by flavor; of several kinds of GPUs the first counts."""
        counts: dict[tuple[str, str], Said] = {}
        for it in said[id(node)]:
            if counts.setdefault((it.flavor, it.name), it) is not it:
                fix = f"one resource counts as {it.name} in a flavor"
                self._not_counted(node, it, fix)
        self._tree.flavors_of[self._name(node)] = tuple(dict.fromkeys(it[0] for it in counts))
        quotas = [(flavor, name, it.resource) for (flavor, name), it in counts.items()]
        return queue_flavors(quotas, self.labels or {})

    @staticmethod
    def _closed(node: _Node, said: list[Said]) -> dict[str, QueueResource]:
        """Return an open limit for each resource that has quotas by flavor."""
        is_leaf = isinstance(node, ClusterQueue)
        return {it.name: QueueResource() for it in said if it.name} if is_leaf else {}

    def _shares(
        self, node: _Node, said: list[Said], counted: Mapping[tuple[str, str], tuple[str, str]]
    ) -> dict[str, QueueResource]:
        shares: dict[str, QueueResource] = {}
        root = self._root(node)
        for it in said:
            resource, flavor = counted[root, it.name]
            if it.source == (resource, flavor):
                shares[it.name] = share_of(it.name, it.resource)
                self._tree.flavor_of.setdefault(self._name(node), {})[it.name] = flavor
            else:
                fix = f"one flavor of a resource counts, in this tree {flavor} of {resource}"
                self._not_counted(node, it, fix)
        return shares

    def _not_counted(self, node: _Node, said: Said, why: str) -> None:
        message = f"quota of {said.resource.name} in flavor {said.flavor} is not counted"
        fault = Fault(said.path, message, said.resource.nominal_quota, why, is_warning=True)
        self._add(node, fault)

    def _add(self, node: _Any, fault: Fault) -> None:
        source = self._sources.get((node.KIND, node.key), Source())
        found = self._tree.warnings if fault.is_warning else self._tree.problems
        name = node.key if isinstance(node, LocalQueue) else node.name
        found.append(to_error(fault, source, node.KIND, name))


def _queue_of(local: LocalQueue) -> Queue:
    """Return the queue of a LocalQueue, below that of its ClusterQueue."""
    spec = QueueSpec(
        parent_queue=local.spec.cluster_queue,
        fair_sharing=QueueFairSharing(weight=local.spec.fair_sharing.weight),
        stop_policy=local.spec.stop_policy,
    )
    return Queue(metadata=replace(local.metadata, name=local.key, namespace=""), spec=spec)


def _path_above(node: _Node) -> tuple[str, str]:
    """Return the path of the field that names the cohort above, as the object spells it."""
    if isinstance(node, ClusterQueue):
        return "spec", "cohortName" if node.spec.cohort_name else "cohort"
    return "spec", "parentName" if node.spec.parent_name else "parent"


def _named_by(node: _Node, name: str) -> ObjectMeta:
    """Return the metadata of a cohort without an object: of the node pool of who names it."""
    pool = node.metadata.labels.get(labels.NODE_POOL)
    return ObjectMeta(name=name, labels={} if pool is None else {labels.NODE_POOL: pool})
