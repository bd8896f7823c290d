"""Which GPUs the containers of a pod see, from the pod and the ConfigMaps that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"


def _no_config_map(name: str) -> None:
    """Know of no ConfigMap."""
    del name


def visible(
    pod: dict[str, Any],
    given: tuple[str, ...],
    look_up: Callable[[str], dict[str, str] | None] = _no_config_map,
) -> tuple[str, ...] | None:
    """Return the GPUs that the containers of a pod see as they start; None if they cannot start.

    Those that the device plugin gave it; else those that a variable of a container names, whose
    value is written in the pod or read from one of its annotations or from a ConfigMap.
    ``look_up`` returns the data of a ConfigMap, and a container that needs what is not there waits.
    """
    seen: tuple[str, ...] = ()
    for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
        environment = _environment(pod, container, look_up)
        if environment is None:
            return None
        seen = seen or tuple(filter(None, environment.get(VISIBLE, "").split(",")))
    return given or seen


def _environment(
    pod: dict[str, Any],
    container: dict[str, Any],
    look_up: Callable[[str], dict[str, str] | None],
) -> dict[str, str] | None:
    """Return the variables of a container; None if a ConfigMap or key is missing."""
    notes = pod["metadata"].get("annotations") or {}
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        data = look_up(source["configMapRef"]["name"])
        if data is None:
            return None
        found |= data
    for variable in container.get("env") or []:
        text, origin = variable.get("value", ""), variable.get("valueFrom") or {}
        path = (origin.get("fieldRef") or {}).get("fieldPath", "")
        if path.startswith("metadata.annotations['"):
            text = notes.get(path[len("metadata.annotations['") : -2], "")
        if key := origin.get("configMapKeyRef"):
            data = look_up(key["name"]) or {}
            if key["key"] not in data:
                if key.get("optional"):
                    continue
                return None
            text = data[key["key"]]
        found[variable["name"]] = text
    return found
