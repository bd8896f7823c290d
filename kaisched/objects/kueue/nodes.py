"""Nodes of flavors: pods are kept to those of the flavors that their queue's quotas name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kaisched.objects.kueue.amounts import our_name
from kaisched.objects.kueue.wire import ResourceFlavor
from kaisched.objects.pod import PodSpec


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

    def kept(self, queue: str, spec: PodSpec) -> PodSpec:
        """Return a pod that selects its flavors' nodes and tolerates what they tolerate.

        What the pod itself selects is kept: with another value it then fits on no node.
        """
        counted = self._counted.get(queue, {})
        names = {counted[it] for it in self._asked(spec) if it in counted}
        flavors = [self._flavor[name] for name in sorted(names) if name in self._flavor]
        chosen = [self._flavor[it] for it in self._by_flavor.get(queue, ()) if it in self._flavor]
        selector: dict[str, str] = {}
        for flavor in flavors:
            selector |= flavor.node_labels
        tolerations = [it for flavor in (*flavors, *chosen) for it in flavor.tolerations]
        return replace(
            spec,
            node_selector={**selector, **spec.node_selector},
            tolerations=[*spec.tolerations, *tolerations],
        )

    def _asked(self, spec: PodSpec) -> Iterator[str]:
        for container in (*spec.containers, *spec.init_containers):
            for name in (*container.resources.requests, *container.resources.limits):
                yield our_name(name, self._gpu_resources)
