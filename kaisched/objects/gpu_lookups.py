"""ConfigMaps in which a container looks up its GPU, as KAI-Scheduler's webhook lets it.

The webhook writes a prefix of their names on the pod. Variables of the container with the share are
keys of the one, and all keys of the other are its environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.gpu_shares import named_container
from kaisched.objects.pod import Pod

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
PORTION: Final = "GPU_PORTION"
OLD_PORTION: Final = "RUNAI_NUM_OF_GPUS"
"""What the portion was called before; the webhook still asks for it."""
LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"
"""What HAMi-core enforces, if it is there."""
_AS_ENVIRONMENT: Final = "-evar"
_CDI: Final = "k8s.device-plugin.nvidia.com/gpu="
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST: Final = 253


class Told(NamedTuple):
    """What a container is told of its share."""

    portion: str
    """Of each GPU, as a decimal number; empty if it asked for memory and the size is not known."""
    limit_mib: int | None
    """MiB of each GPU; None if it is not known how much one has."""


def lookup_of(pod: Pod) -> str:
    """Return the name of the ConfigMap of which the container with the share reads keys.

    Empty for a pod that the webhook has not changed.

    Raises:
        ObjectError: the prefix makes no name of a ConfigMap.

    """
    prefix = pod.metadata.annotations.get(labels.GPU_CONFIG_MAP)
    if prefix is None:
        return ""
    name = f"{prefix}-{_place(pod)}"
    if not _NAME.fullmatch(name) or len(name) + len(_AS_ENVIRONMENT) > _MOST:
        raise ObjectError(
            "it makes no name of a ConfigMap",
            path=join_path("metadata", "annotations", labels.GPU_CONFIG_MAP),
            value=prefix,
            fix="make the pod anew, and leave the annotation to KAI-Scheduler's webhook",
        )
    return name


def _place(pod: Pod) -> str:
    """Return which container has the share: init containers are looked through first."""
    wanted = named_container(pod)
    if wanted is not None:
        for prefix, containers in (("i", pod.spec.init_containers), ("", pod.spec.containers)):
            for at, container in enumerate(containers):
                if container.name == wanted:
                    return f"{prefix}{at}"
    return "0"


def lookups(
    name: str, gpus: Sequence[str], told: Told, *, has_cdi_names: bool
) -> dict[str, dict[str, str]]:
    """Return the data of both ConfigMaps of a pod, by name.

    Both say which GPUs it has: a container without a variable for it has it from its environment.
    """
    visible = ",".join(f"{_CDI}{gpu}" if has_cdi_names else gpu for gpu in gpus)
    keys = {VISIBLE: visible, PORTION: told.portion, OLD_PORTION: told.portion}
    if told.limit_mib:  # 0 would mean no limit
        keys[LIMIT] = f"{told.limit_mib}m"
    return {name: keys, f"{name}{_AS_ENVIRONMENT}": {VISIBLE: visible}}


def config_map(
    key: str, data: Mapping[str, str], notes: Mapping[str, str], pod: str, uid: str
) -> dict[str, Any]:
    """Return a ConfigMap that belongs to a pod and goes with it, to be created."""
    namespace, _, name = key.partition("/")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.partition("/")[2], "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {**notes},
            "ownerReferences": [owner],
        },
        "data": {**data},
    }
