"""What all objects share: struct bases, metadata, conditions.

A struct holds only the fields the scheduler uses; YAML and JSON keys are the camelCase of the
field names. Amounts stay as written (see ``objects.requests`` and ``objects.quotas`` for base
units), times stay RFC 3339 texts (see :func:`kaisched.objects.labels.time_of`).
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Final, TypeAlias

import msgspec

Amount: TypeAlias = str | int | float
"""An amount as written: a Kubernetes quantity or a plain number."""
Amounts: TypeAlias = dict[str, Amount]
"""Amounts by resource name."""


MOST_LABELS: Final = 1_000
"""More labels of an object are not kept: nobody has so many, and an object of 1 MB in labels would
take 4 MB here for as long as it lives."""


class Wire(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of an object, read leniently: keys it does not know are skipped.

    Frozen and without back references, so that the cycle collector may leave it alone.
    """


class StrictWire(Wire, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of the spec of one of our own kinds: an unknown key is an error."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """Who made an object."""

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
    """When it should be gone: from its deletion on, after its grace."""
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerReference] = []
    resource_version: str = ""
    generation: int = 0

    def __post_init__(self) -> None:
        """Leave out labels beyond what is bearable, but one that tells that there were more."""
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
    KIND: ClassVar[str]
    IS_NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMeta

    @property
    def name(self) -> str:
        """Its name, without the namespace."""
        return self.metadata.name

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone where the kind has no namespaces."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if self.IS_NAMESPACED else meta.name
