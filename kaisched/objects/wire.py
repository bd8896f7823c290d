"""Common parts of all objects: struct bases, metadata, conditions.

A struct holds only the fields that the scheduler uses; YAML and JSON keys are the camelCase of the
field names. Amounts stay as written (see ``objects.requests`` and ``objects.queue`` for base
units), and times stay RFC 3339 texts (see :func:`kaisched.objects.labels.time_of`).
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Final, Literal, TypeAlias, get_args

import msgspec

Amount: TypeAlias = str | int | float
"""An amount as written: a Kubernetes quantity or a plain number."""
Amounts: TypeAlias = dict[str, Amount]
"""Amounts by resource name."""
WorkloadType = Literal["training", "interactive", "inference"]
WORKLOAD_TYPES: Final[tuple[str, ...]] = get_args(WorkloadType)


BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""What reading JSON may raise: it is none or of another form, or a text in it is no UTF-8."""
MOST_LABELS: Final = 1_000
"""Most labels kept of an object: real ones have fewer, and 1 MB of labels would take 4 MB of
memory for the life of the object."""


class Wire(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Part of an object that is read leniently: unknown keys are skipped.

    Frozen and without back references, so Python's garbage collector may ignore it.
    """


class StrictWire(Wire, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Part of the spec of one of our own kinds: an unknown key is an error."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """Owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False

    @property
    def group_kind(self) -> tuple[str, str]:
        """Its API group and kind."""
        return self.api_version.rpartition("/")[0], self.kind


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """Name, identity, labels and owners of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    """When a deleted object should be gone, after its grace period."""
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerReference] = []
    resource_version: str = ""
    generation: int = 0

    def __post_init__(self) -> None:
        """Drop labels above the limit, except one, which shows that there were more."""
        if len(self.labels) > MOST_LABELS:
            some = dict(islice(self.labels.items(), MOST_LABELS + 1))
            msgspec.structs.force_setattr(self, "labels", some)


class Condition(Wire, frozen=True, kw_only=True):
    """One condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class KubernetesObject(Wire, frozen=True, kw_only=True):
    """Base of all kinds: an object with metadata, an API version and a kind."""

    API_VERSION: ClassVar[str]
    OTHER_VERSIONS: ClassVar[tuple[str, ...]] = ()
    """API versions that are read in the same way."""
    KIND: ClassVar[str]
    IS_NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMeta

    @property
    def name(self) -> str:
        """Name without the namespace."""
        return self.metadata.name

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for kinds without namespaces."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if self.IS_NAMESPACED else meta.name


class TopologyConstraint(StrictWire, frozen=True, kw_only=True):
    """Keep the pods within one domain of a Topology's level."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""
