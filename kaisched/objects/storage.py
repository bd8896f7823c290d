"""Storage claims, volumes and their classes, as far as placement needs them."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import ClassVar, Final

from kaisched.objects.pod import NodeSelector
from kaisched.objects.wire import KubernetesObject, Wire

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be created."""
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
WAITS_FOR_POD: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ONE_POD: Final = "ReadWriteOncePod"


class ClaimSpec(Wire, frozen=True, kw_only=True):
    """Settings of a claim."""

    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: list[str] = []


class ClaimStatus(Wire, frozen=True, kw_only=True):
    """State of a claim."""

    phase: str = ""


class PersistentVolumeClaim(KubernetesObject, frozen=True, kw_only=True):
    """A claim of storage."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolumeClaim"

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether the claim has its volume."""
        is_done = BIND_COMPLETED in self.metadata.annotations or self.status.phase == "Bound"
        return bool(self.spec.volume_name) and is_done


class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """Nodes on which a volume can be used."""

    required: NodeSelector | None = None


class VolumeSpec(Wire, frozen=True, kw_only=True):
    """Settings of a volume."""

    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()


class PersistentVolume(KubernetesObject, frozen=True, kw_only=True):
    """A volume."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolume"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: VolumeSpec = VolumeSpec()


class TopologyRequirement(Wire, frozen=True, kw_only=True):
    """A node label and its values, of which one is required."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(Wire, frozen=True, kw_only=True):
    """Requirements that must all hold."""

    match_label_expressions: list[TopologyRequirement] = []


class StorageClass(KubernetesObject, frozen=True, kw_only=True):
    """How volumes are created."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "StorageClass"
    IS_NAMESPACED: ClassVar[bool] = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []
    """Terms of which any one must hold; no terms mean every node."""
