"""The CustomResourceDefinitions of our own kinds, made from their structs.

Group, version, plural and scope are KAI-Scheduler's, so that its objects and tools need not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kaisched.objects.crd_parts import cel, rules
from kaisched.objects.crd_rules import GROUP_RULES, QUEUE_RULES, SHARD_RULES, TOPOLOGY_RULES
from kaisched.objects.crd_schema import Rules, Schema, struct_schema
from kaisched.objects.podgroup import PodGroup, PodGroupSpec
from kaisched.objects.queue import Queue, QueueSpec
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.topology import Topology, TopologySpec
from kaisched.objects.wire import KubernetesObject

_AMOUNTS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_CONDITIONS: Final[Schema] = {
    "type": "array",
    "items": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            name: {"type": "string"}
            for name in ("type", "status", "reason", "message", "lastTransitionTime")
        },
    },
}
_OWN_PARENT: Final = cel(
    "!has(self.spec.parentQueue) || self.spec.parentQueue != self.metadata.name",
    "the queue is its own parent: name another queue, or leave it out",
)
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


class Definition(NamedTuple):
    """Contents of a kind's definition besides the schema of its spec."""

    plural: str
    spec: type
    rules: Rules
    columns: tuple[tuple[str, str, str], ...]
    """Name, type and JSON path."""
    short_names: tuple[str, ...] = ()
    status: Mapping[str, Schema] = {}
    """Known fields of the status; unknown fields are kept too."""
    root: Mapping[str, Any] = {}
    """Rules that need the object's name."""


DEFINITIONS: Final[Mapping[type[KubernetesObject], Definition]] = {
    Queue: Definition(
        "queues",
        QueueSpec,
        QUEUE_RULES,
        (
            ("Priority", "integer", ".spec.priority"),
            ("Parent", "string", ".spec.parentQueue"),
            ("GPU quota", "number", ".spec.resources.gpu.quota"),
            ("Fair share", "string", ".status.fairShare.nvidia\\.com/gpu"),
            ("Allocated", "string", ".status.allocated.nvidia\\.com/gpu"),
            ("Requested", "string", ".status.requested.nvidia\\.com/gpu"),
            ("Saturation", "string", ".status.saturation"),
            ("Pending", "integer", ".status.pendingJobs"),
            ("Stop", "string", ".spec.stopPolicy"),
            ("State", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            ("Children", "string", ".status.childQueues"),
            ("DisplayName", "string", ".spec.displayName"),
            _AGE,
        ),
        status={
            "childQueues": {"type": "array", "items": {"type": "string"}},
            "childrenQuota": {"type": "object", "additionalProperties": {"type": "number"}},
            "allocated": _AMOUNTS,
            "allocatedNonPreemptible": _AMOUNTS,
            "requested": _AMOUNTS,
            "fairShare": _AMOUNTS,
            "saturation": {"type": "string"},
            "pendingJobs": {"type": "integer"},
            "conditions": _CONDITIONS,
        },
        root=rules(_OWN_PARENT),
    ),
    PodGroup: Definition(
        "podgroups",
        PodGroupSpec,
        GROUP_RULES,
        (
            ("Queue", "string", ".spec.queue"),
            ("Minimum", "integer", ".spec.minMember"),
            ("Priority class", "string", ".spec.priorityClassName"),
            ("Why pending", "string", ".status.schedulingConditions[-1:].reason"),
            _AGE,
        ),
        ("pg",),
        {
            "conditions": _CONDITIONS,
            "schedulingConditions": _CONDITIONS,
            "resourcesStatus": {
                "type": "object",
                "properties": dict.fromkeys(
                    ("requested", "allocated", "allocatedNonPreemptible"), _AMOUNTS
                ),
            },
        },
    ),
    SchedulingShard: Definition(
        "schedulingshards",
        ShardSpec,
        SHARD_RULES,
        (("Node pool", "string", ".spec.partitionLabelValue"), _AGE),
        status={"conditions": _CONDITIONS},
    ),
    Topology: Definition(
        "topologies",
        TopologySpec,
        TOPOLOGY_RULES,
        (("Levels", "string", ".spec.levels[*].nodeLabel"), _AGE),
        status={"conditions": _CONDITIONS},
    ),
}


def custom_resource_definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions by name, such as ``queues.scheduling.run.ai``, as plain values."""
    made = (_definition(type_, said) for type_, said in DEFINITIONS.items())
    return {definition["metadata"]["name"]: definition for definition in made}


def _definition(type_: type[KubernetesObject], said: Definition) -> dict[str, Any]:
    group, _, version = type_.API_VERSION.partition("/")
    names: dict[str, Any] = {
        "kind": type_.KIND,
        "listKind": f"{type_.KIND}List",
        "plural": said.plural,
        "singular": type_.KIND.lower(),
    }
    if said.short_names:
        names["shortNames"] = list(said.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{said.plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if type_.IS_NAMESPACED else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        for name, kind, path in said.columns
                    ],
                    "schema": {"openAPIV3Schema": _root(type_, said)},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def _root(type_: type[KubernetesObject], said: Definition) -> Schema:
    return {
        "type": "object",
        "description": (type_.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": struct_schema(said.spec, said.rules),
            "status": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": dict(said.status),
            },
        },
        **said.root,
    }
