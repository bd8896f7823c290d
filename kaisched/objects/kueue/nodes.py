"""Nodes of flavors: pods are kept to those of the flavors that their queue's quotas name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kaisched.objects.kueue.amounts import our_name
from kaisched.objects.kueue.wire import ResourceFlavor
from kaisched.objects.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    SelectorRequirement,
)


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
