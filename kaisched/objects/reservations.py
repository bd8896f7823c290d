"""Reservation pods: each takes one GPU from the device plugin for the pods that share it.

Names, labels and annotations are KAI-Scheduler's, so that either scheduler goes on with what the
other has left.
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.objects.labels import GPU_GROUP, RESERVATION, is_reservation

if TYPE_CHECKING:
    from kaisched.objects.pod import Pod
    from kaisched.objects.shard import GpuSharing

UUID: Final = "run.ai/reserve_for_gpu_index"
"""Annotation in which the agent in a reservation pod tells the UUID of the GPU that it got."""
RENEWED: Final = "kaisched.io/renewed"
"""Annotation of a reservation pod that was made for pods which had lost theirs: it may have got
another GPU than they use."""
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NAME_BYTES: Final = 8


class Stage(Enum):
    """What a reservation pod is to its GPU."""

    HOLDS = auto()
    LEAVES = auto()
    """It is being deleted, and may hold the GPU still."""
    ENDED = auto()
    """It holds nothing."""


class Card(NamedTuple):
    """A shared GPU: the group of its pods, on a node."""

    node: str
    group: str


class Reservation(NamedTuple):
    """A reservation pod, as far as it counts."""

    key: str
    """``namespace/name``."""
    uid: str
    version: str
    """Its resource version: it is deleted only as it was when that was decided."""
    card: Card
    gpu: str
    """The UUID of its GPU; empty until the agent has told it."""
    stage: Stage
    is_renewed: bool
    why_ended: str
    """The reason that the kubelet gives for a pod that has ended."""


def reservation_name(card: Card) -> str:
    """Return the name of the reservation pod of a card: there is one, however often it is made."""
    digest = hashlib.sha256(f"{card.node}/{card.group}".encode()).digest()
    return f"gpu-reservation-{digest[:_NAME_BYTES].hex()}"


def reservation_of(pod: Pod) -> Reservation | None:
    """Return a pod as the reservation of a card; None if it is no such pod."""
    meta = pod.metadata
    group = meta.labels.get(GPU_GROUP, "")
    if not (is_reservation(meta) and group and pod.spec.node_name):
        return None
    stage = Stage.LEAVES if meta.deletion_timestamp else Stage.HOLDS
    if pod.status.phase in _ENDED:
        stage = Stage.ENDED
    return Reservation(
        pod.key,
        meta.uid,
        meta.resource_version,
        Card(pod.spec.node_name, group),
        gpu_of(meta.annotations.get(UUID, "")),
        stage,
        RENEWED in meta.annotations,
        (pod.status.reason or pod.status.phase) if stage is Stage.ENDED else "",
    )


def gpu_of(text: str) -> str:
    """Return the UUID that an agent has told; empty if it is none."""
    return text if _UUID.fullmatch(text) else ""


def reservation_pod(
    card: Card, sharing: GpuSharing, resource: str, *, is_renewed: bool = False
) -> dict[str, Any]:
    """Return the reservation pod of a card, to be created; it asks for one of a GPU resource."""
    by_field = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in by_field.items()
    ]
    notes = {"karpenter.sh/do-not-disrupt": "true"} | ({RENEWED: "true"} if is_renewed else {})
    one = {resource: "1"}
    spec: dict[str, Any] = {
        "nodeName": card.node,
        "serviceAccountName": RESERVATION,
        # The GPU is in use for as long as pods run on it, whatever taints their node gets.
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "resource-reservation",
                "image": sharing.image,
                "env": env,
                "resources": {"requests": one, "limits": one},
            }
        ],
    }
    if sharing.runtime_class:
        spec["runtimeClassName"] = sharing.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(card),
            "namespace": RESERVATION,
            "labels": {"app": RESERVATION, GPU_GROUP: card.group},
            "annotations": notes,
        },
        "spec": spec,
    }
