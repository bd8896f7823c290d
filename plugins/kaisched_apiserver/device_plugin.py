"""A stand-in for device plugins: which GPUs a pod gets."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any, Final

GPU: Final = "nvidia.com/gpu"
REFUSED: Final = "UnexpectedAdmissionError"
"""The reason of a pod that a kubelet has no GPU for."""
AGENT: Final = "kai-resource-reservation"
"""Namespace, and label ``app``, of pods in which the agent runs."""
TOLD: Final = "run.ai/reserve_for_gpu_index"
"""The annotation in which the agent tells the UUID of its GPU."""


class DevicePlugin:
    """The GPUs of all nodes. Of those that are free a pod may get any: nobody can know which."""

    def __init__(self) -> None:
        """Start with all GPUs free."""
        self._given: dict[str, tuple[str, ...]] = {}
        """Pod UID to its GPUs."""
        self._holder: dict[str, str] = {}
        """GPU to the UID of its pod."""
        self.order: Callable[[str, str], Any] = _any_order
        """The key, by pod UID and GPU, of the order in which free GPUs are given."""

    def admit(self, pod: dict[str, Any], node: dict[str, Any]) -> tuple[str, ...] | None:
        """Return the GPUs of a pod that starts on a node; None if too few are free."""
        uid = pod["metadata"]["uid"]
        if uid in self._given:
            return self._given[uid]
        wanted = gpus_asked(pod)
        free = [gpu for gpu in gpus_of(node) if gpu not in self._holder]
        if len(free) < wanted:
            return None
        free.sort(key=lambda gpu: self.order(uid, gpu))
        self._given[uid] = tuple(free[:wanted])
        self._holder.update(dict.fromkeys(free[:wanted], uid))
        return self._given[uid]

    def release(self, uid: str) -> None:
        """Free the GPUs of a pod that has ended."""
        for gpu in self._given.pop(uid, ()):
            del self._holder[gpu]

    def of(self, uid: str) -> tuple[str, ...]:
        """Return the GPUs that were given to a pod."""
        return self._given.get(uid, ())

    def given(self) -> dict[str, tuple[str, ...]]:
        """Return the GPUs of all pods, by UID."""
        return {uid: gpus for uid, gpus in self._given.items() if gpus}


def _any_order(uid: str, gpu: str) -> bytes:
    return hashlib.sha256(f"{uid}{gpu}".encode()).digest()


def gpus_of(node: dict[str, Any]) -> list[str]:
    """Return the UUIDs of a node's GPUs: the same whenever they are asked for."""
    name, count = node["metadata"]["name"], node["status"].get("capacity", {}).get(GPU, "0")
    return [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}/{it}')}" for it in range(int(count))]


def gpus_asked(pod: dict[str, Any]) -> int:
    """Return how many whole GPUs a pod asks for."""
    resources = (it.get("resources") or {} for it in pod["spec"]["containers"])
    return sum(int((it.get("limits") or {}).get(GPU, 0)) for it in resources)


def is_agent(pod: dict[str, Any]) -> bool:
    """Tell whether an agent runs in a pod, which tells the UUID of its GPU."""
    meta = pod["metadata"]
    return meta["namespace"] == AGENT and (meta.get("labels") or {}).get("app") == AGENT
