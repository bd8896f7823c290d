"""Definitions of KAI-Scheduler's kinds, so that its manifests can be applied.

They take any spec and status: kaisched itself checks what it reads, and says more than a schema
can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
# Group, version, plural, kind, short names, whether it is namespaced, columns as title to path.
_KINDS: Final[
    tuple[tuple[str, str, str, str, tuple[str, ...], bool, dict[str, tuple[str, str]]], ...]
] = (
    (
        "scheduling.run.ai",
        "v2",
        "queues",
        "Queue",
        (),
        False,
        {
            "Priority": ("integer", ".spec.priority"),
            "Parent": ("string", ".spec.parentQueue"),
            "DisplayName": ("string", ".spec.displayName"),
        },
    ),
    (
        "scheduling.run.ai",
        "v2alpha2",
        "podgroups",
        "PodGroup",
        ("pg",),
        True,
        {
            "Queue": ("string", ".spec.queue"),
            "MinMember": ("integer", ".spec.minMember"),
            "PriorityClass": ("string", ".spec.priorityClassName"),
        },
    ),
    (
        "kai.scheduler",
        "v1",
        "schedulingshards",
        "SchedulingShard",
        (),
        False,
        {"Partition": ("string", ".spec.partitionLabelValue")},
    ),
    ("kai.scheduler", "v1alpha1", "topologies", "Topology", (), False, {}),
)


def kai_definitions() -> Iterator[dict[str, Any]]:
    """Yield a CustomResourceDefinition for each kind of KAI's that is read here."""
    for group, version, plural, kind, short_names, is_namespaced, columns in _KINDS:
        shown = [
            {"name": title, "type": type_, "jsonPath": path}
            for title, (type_, path) in columns.items()
        ]
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced" if is_namespaced else "Cluster",
                "names": {"plural": plural, "kind": kind, "shortNames": list(short_names)},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": [*shown, _AGE],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": _ANY, "status": _ANY},
                            }
                        },
                    }
                ],
            },
        }
