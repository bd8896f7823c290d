"""What a cluster to play with starts with: KAI's kinds, nodes with GPUs, and a way in."""

from __future__ import annotations

from typing import Any

import yaml

from kaisched_apiserver.device_plugin import AGENT
from kaisched_apiserver.kai_kinds import kai_definitions
from kaisched_apiserver.server import ApiServer

DRIVER = "gpu.nvidia.com"
"""The driver of the nodes with claims, and its device class."""
_CARD_MIB = "81920"
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


def add_kai_kinds(server: ApiServer) -> None:
    """Serve the kinds of KAI-Scheduler that kaisched reads."""

    def add() -> None:
        for definition in kai_definitions():
            server.api.create(*_DEFINITIONS, definition)

    server.call(add)


def add_namespace(server: ApiServer, name: str) -> None:
    """Add a namespace."""
    server.call(lambda: server.api.create("", "namespaces", {"metadata": {"name": name}}))


def add_nodes(server: ApiServer, count: int, gpus: int, *, has_claims: bool = False) -> None:
    """Add nodes ``gpu-node-1`` and so on, each with 64 CPUs, 512 GiB and so many GPUs.

    With claims (``has_claims``) no device plugin counts the GPUs: see :func:`add_claims`.
    """

    def add() -> None:
        for name in _names(count):
            server.api.create("", "nodes", _node(name, gpus, has_claims=has_claims))

    server.call(add)


def add_shard(server: ApiServer, *, has_claims: bool) -> None:
    """Add the shard: pods may share GPUs, by reservation pods or, where there are claims, by these.

    Reservation pods run in a namespace of their own.
    """
    spec: dict[str, Any] = {"gpuSharing": {"deviceClass": DRIVER}, "resourceClaims": True}
    if not has_claims:
        add_namespace(server, AGENT)
        spec = {"gpuSharing": {"image": "playground/agent"}}
    shard: dict[str, object] = {"metadata": {"name": "default"}, "spec": spec}
    server.call(lambda: server.api.create("kai.scheduler", "schedulingshards", shard))


def add_claims(server: ApiServer, count: int, gpus: int, *, can_share: bool = False) -> None:
    """Let a driver offer the GPUs of the nodes to claims, several of which may have parts of one.

    Without ``can_share`` a GPU belongs to one claim.
    """

    def add() -> None:
        cel = {"expression": f'device.driver == "{DRIVER}"'}
        class_ = {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": cel}]}}
        server.api.create("resource.k8s.io", "deviceclasses", class_)
        for name in _names(count):
            server.api.create(
                "resource.k8s.io", "resourceslices", _slice(name, gpus, can_share=can_share)
            )

    server.call(add)


def _names(count: int) -> list[str]:
    width = len(str(count))
    return [f"gpu-node-{number:0{width}}" for number in range(1, count + 1)]


def _slice(node: str, gpus: int, *, can_share: bool) -> dict[str, Any]:
    memory: dict[str, Any] = {"value": "80Gi"}
    more: dict[str, Any] = {}
    if can_share:  # a claim that says nothing has the whole GPU
        more["allowMultipleAllocations"] = True
        bounds = {"min": "1Mi", "max": "80Gi", "step": "1Mi"}
        memory["requestPolicy"] = {"default": "80Gi", "validRange": bounds}
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "resource.kubernetes.io/numaNode": {"int": number * 2 // max(gpus, 1)},
            },
            "capacity": {"memory": memory},
            **more,
        }
        for number in range(gpus)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _node(name: str, gpus: int, *, has_claims: bool) -> dict[str, Any]:
    room = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    if not has_claims:
        room["nvidia.com/gpu"] = str(gpus)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": _CARD_MIB,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": room, "allocatable": dict(room)},
    }


def kubeconfig_of(url: str, token: str = "") -> str:
    """Return a kubeconfig for a server, as YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "playground", "cluster": {"server": url}}],
        "users": [{"name": "playground", "user": {"token": token} if token else {}}],
        "contexts": [
            {"name": "playground", "context": {"cluster": "playground", "user": "playground"}}
        ],
        "current-context": "playground",
    }
    return yaml.safe_dump(config, sort_keys=False)
