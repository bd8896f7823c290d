"""Checks of what pods need to share GPUs: labels of nodes, rights, and reservation pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.cluster.kubernetes.resources import NODES, PODS, list_cluster
from kaisched.daemon.doctor.finding import Finding, named
from kaisched.objects.gpus import Card, Stage, can_share, card_mib_of, reservation_of
from kaisched.objects.labels import (
    GPU_CONFIG_MAP,
    RESERVATION,
    gpu_groups_of,
    is_reservation,
    node_pool_of,
)
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.daemon.doctor.finding import Visit
    from kaisched.objects.shard import SchedulingShard

_CHECK: Final = "gpu sharing"
_ENDED: Final = ("Succeeded", "Failed")


def gpu_sharing(visit: Visit) -> Iterator[Finding]:
    """Say what keeps pods from sharing GPUs; nothing where no shard lets them."""
    sharing = [one.shard for one in visit.shards if one.shard.has_reservations]
    if not sharing:
        return
    listed = list_cluster(visit.client, [NODES, PODS]).objects
    found: list[Finding] = []
    for shard in sharing:
        nodes = [
            it
            for it in listed
            if isinstance(it, Node)
            and node_pool_of(it.metadata) == shard.spec.partition_label_value
        ]
        found += _of_nodes(shard.name, nodes, shard.spec.gpu_resources)
    every = [it for it in listed if isinstance(it, Pod)]
    pods = [it for it in every if it.spec.node_name]
    found += [*_of_pods(pods), *_of_lookups(visit, sharing, every)]
    yield from found
    if not found:
        number = sum(is_reservation(pod.metadata) for pod in pods)
        yield Finding(_CHECK, "ok", f"{number} GPUs are shared, each held by a reservation pod")


def _of_nodes(shard: str, nodes: Sequence[Node], resources: Sequence[str]) -> Iterator[Finding]:
    """Name the nodes whose GPUs cannot be shared, or not by memory."""
    with_gpus = [node for node in nodes if _offers(node, resources)]
    ours = [node for node in with_gpus if _offers(node, resources[:1])]
    if not ours:
        text = f"no node of shard {shard} offers {resources[0]}, which reservation pods ask for"
        fix = "list what the device plugin offers first in spec.gpuResources; GPUs that only claims"
        yield Finding(_CHECK, "warn", text, f"{fix} can have are not shared")
    others = [node.name for node in with_gpus if node not in ours]
    if ours and others:
        text = f"{len(others)} nodes offer other GPUs than {resources[0]}: {named(others)}"
        yield Finding(_CHECK, "warn", text, "no share can start there; use a shard of their own")
    closed = [node.name for node in ours if not can_share(node, resources)]
    if closed:
        text = f"GPUs of {len(closed)} nodes are slices, which are not shared: {named(closed)}"
        yield Finding(_CHECK, "warn", text, "switch time slicing or MIG off there, or ignore it")
    unknown = [node.name for node in ours if node.name not in closed and not card_mib_of(node)]
    if unknown:
        text = f"{len(unknown)} nodes do not say how much memory a GPU has: {named(unknown)}"
        fix = "run NVIDIA's GPU feature discovery, or set their label nvidia.com/gpu.memory in MiB"
        yield Finding(_CHECK, "warn", text, fix)


def _of_lookups(
    visit: Visit, shards: Sequence[SchedulingShard], pods: Sequence[Pod]
) -> Iterator[Finding]:
    """Name the pods that wait in vain: they look up their GPU in a ConfigMap that nobody writes."""
    silent = {
        one.spec.partition_label_value
        for one in shards
        if one.spec.gpu_sharing is not None and not one.spec.gpu_sharing.config_maps
    }
    waiting = [
        pod.key
        for pod in pods
        if GPU_CONFIG_MAP in pod.metadata.annotations
        and not pod.spec.node_name
        and pod.spec.scheduler_name in visit.settings.scheduler_names
        and node_pool_of(pod.metadata) in silent
    ]
    if waiting:
        text = f"{len(waiting)} pods wait that look up their GPU in a ConfigMap: {named(waiting)}"
        fix = "set spec.gpuSharing.configMaps: true, or make them anew without KAI's webhook"
        yield Finding(_CHECK, "warn", text, fix)


def _offers(node: Node, resources: Sequence[str]) -> bool:
    amounts = node.status.allocatable or node.status.capacity
    return any(str(amounts.get(name, "0")) != "0" for name in resources)


def _of_pods(pods: Sequence[Pod]) -> Iterator[Finding]:
    """Name reservation pods that tell no GPU, and pods whose GPU nothing holds."""
    held, silent = set(), []
    for pod in pods:
        it = reservation_of(pod)
        if it is None or it.stage is not Stage.HOLDS:
            continue
        held.add(it.card)
        if not it.gpu:
            silent.append(pod.name)
    if silent:
        text = f"{len(silent)} reservation pods tell no GPU yet: {named(silent)}"
        fix = f"see why the agent does not run: kubectl -n {RESERVATION} describe pods"
        yield Finding(_CHECK, "warn", text, fix)
    lost = [
        pod.key
        for pod in pods
        if not is_reservation(pod.metadata)
        and pod.status.phase not in _ENDED
        and any(Card(pod.spec.node_name, it) not in held for it in gpu_groups_of(pod.metadata))
    ]
    if lost:
        text = f"{len(lost)} pods use a GPU that no reservation pod holds: {named(lost)}"
        fix = "it is reserved again if the pods say which it is; else delete them when you can"
        yield Finding(_CHECK, "warn", text, fix)
