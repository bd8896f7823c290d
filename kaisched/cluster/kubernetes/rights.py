"""The rights that the scheduler's account needs, from the requests that it sends.

``deploy/requests.yaml`` lists the same for the roles; a test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.cluster.kubernetes.resources import (
    ALL,
    DEVICES,
    GANG_GROUPS,
    KUEUE,
    SHARDS,
    SHARE_TEMPLATES,
    TAINT_RULES,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.cluster.kubernetes.resources import Watched


class Right(NamedTuple):
    """One verb on one resource; a subresource is written ``pods/binding``."""

    group: str
    resource: str
    verb: str

    @property
    def text(self) -> str:
        """The right in words, such as ``list queues.scheduling.run.ai``."""
        resource, _, part = self.resource.partition("/")
        name = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {name}{'/' if part else ''}{part}"


def to_watch(kind: Watched) -> tuple[Right, ...]:
    """Return the rights to list and watch a kind, in any version."""
    group, _, _ = kind.api_version.rpartition("/")
    return tuple(Right(group, kind.plural, verb) for verb in ("list", "watch"))


_RUN: Final = "scheduling.run.ai"
_DEVICES: Final = "resource.k8s.io"
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "read": (
        *(right for kind in (*ALL, SHARDS, GANG_GROUPS[0]) for right in to_watch(kind)),
        Right("", "pods", "get"),
        Right("", "persistentvolumeclaims", "get"),
    ),
    "review": (
        Right("authentication.k8s.io", "tokenreviews", "create"),
        Right("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    "write": (
        Right("", "pods/binding", "create"),
        Right("", "pods/eviction", "create"),
        Right("", "pods/status", "patch"),
        Right("", "persistentvolumeclaims", "patch"),
        Right(_RUN, "podgroups/status", "patch"),
        Right(_RUN, "queues/status", "patch"),
        Right("kai.scheduler", "schedulingshards/status", "patch"),
        Right("events.k8s.io", "events", "create"),
    ),
    "lease": (
        Right("coordination.k8s.io", "leases", "get"),
        Right("coordination.k8s.io", "leases", "update"),
    ),
    "sharing": (Right("", "pods", "create"), Right("", "pods", "delete")),
    "lookups": tuple(Right("", "configmaps", verb) for verb in ("create", "get", "update")),
    "kueue": tuple(right for kind in KUEUE for right in to_watch(kind)),
    "claims": (
        *(right for kind in (*DEVICES, TAINT_RULES) for right in to_watch(kind)),
        Right(_DEVICES, "resourceclaims", "create"),
        Right(_DEVICES, "resourceclaims", "delete"),
        Right(_DEVICES, "resourceclaims", "get"),
        Right(_DEVICES, "resourceclaims", "patch"),
        Right(_DEVICES, "resourceclaims/status", "update"),
        Right(_DEVICES, "resourceclaims/binding", "update"),
    ),
    "share-claims": (
        *to_watch(SHARE_TEMPLATES),
        Right(_DEVICES, "resourceclaimtemplates", "create"),
    ),
    "delete": (Right("", "pods", "delete"),),
}
"""Rights by role: reading, authenticating scrapes, writing decisions, the lease in our own
namespace by name, reservation pods in their namespace, which only shards need that share GPUs of a
device plugin, the ConfigMaps in which pods look up their GPU, which only ``configMaps: true`` there
needs, reading Kueue's queues, which only ``kueue: true`` needs, allocating claims on devices, which
only shards with ``resourceClaims: true`` need, making templates of claims, which only shards need
where shares of GPUs are claims, and deleting pods, which only ``evictionMode: delete`` needs."""
