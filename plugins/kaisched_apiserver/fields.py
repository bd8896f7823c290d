"""Which fields of each kind a field selector may name, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_INVOLVED: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
# Label of the selector to the path in the object, as it is kept.
_PATHS: Final[dict[tuple[str, str], dict[str, tuple[str, ...]]]] = {
    ("", "pods"): {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "spec.hostNetwork": ("spec", "hostNetwork"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    ("", "nodes"): {"spec.unschedulable": ("spec", "unschedulable")},
    ("", "namespaces"): {"status.phase": ("status", "phase")},
    ("", "secrets"): {"type": ("type",)},
    ("", "events"): {
        **{f"involvedObject.{name}": ("involvedObject", name) for name in _INVOLVED},
        **{f"regarding.{name}": ("involvedObject", name) for name in _INVOLVED},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "reportingController": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    },
    ("apps", "replicasets"): {"status.replicas": ("status", "replicas")},
    ("batch", "jobs"): {"status.successful": ("status", "succeeded")},
}
_FALSE_IF_ABSENT: Final = ("spec.unschedulable", "spec.hostNetwork")
_NOTHING: Final[Mapping[str, str]] = {}


Paths = Mapping[str, tuple[str, ...]]


def paths_of(key: tuple[str, str]) -> Paths:
    """Return what selectors of a built-in kind may name beside name and namespace, and where."""
    return _PATHS.get(key, {})


def fields_of(paths: Paths, obj: dict[str, Any]) -> Mapping[str, str]:
    """Return the selectable fields of an object and their values as text, empty if absent."""
    if not paths:
        return _NOTHING
    return {label: _text(obj, path, label) for label, path in paths.items()}


def _text(obj: Any, path: tuple[str, ...], label: str) -> str:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    if obj is None:
        return "false" if label in _FALSE_IF_ABSENT else ""
    return str(obj)
