"""What a cluster to play with starts with: KAI's kinds, nodes with GPUs, and a way in."""

from __future__ import annotations

from typing import Any

import yaml

from kaisched_apiserver.device_plugin import AGENT
from kaisched_apiserver.kai_kinds import kai_definitions
from kaisched_apiserver.server import ApiServer

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


def add_gpu_sharing(server: ApiServer) -> None:
    """Add what pods need to share GPUs: a shard that lets them, and where reservation pods run."""
    add_namespace(server, AGENT)
    shard = {"metadata": {"name": "default"}, "spec": {"gpuSharing": {"image": "playground/agent"}}}
    server.call(lambda: server.api.create("kai.scheduler", "schedulingshards", shard))


def add_nodes(server: ApiServer, count: int, gpus: int) -> None:
    """Add nodes ``gpu-node-1`` and so on, each with 64 CPUs, 512 GiB and so many GPUs."""

    def add() -> None:
        width = len(str(count))
        for number in range(1, count + 1):
            server.api.create("", "nodes", _node(f"gpu-node-{number:0{width}}", gpus))

    server.call(add)


def _node(name: str, gpus: int) -> dict[str, Any]:
    room = {
        "cpu": "64",
        "memory": "512Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        "nvidia.com/gpu": str(gpus),
    }
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
