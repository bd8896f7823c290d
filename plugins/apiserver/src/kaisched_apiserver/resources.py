"""Which kinds the server knows, how they are called, and where each is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
Generation = Literal["none", "spec", "all"]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one version, as discovery shows it.

    ``kept_as`` is the (group, plural) it is kept under: versions of a kind share it. ``generation``
    says what counts as a new generation. ``schema``, ``columns`` and ``selectable`` belong to kinds
    that a CustomResourceDefinition brought.
    """

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    generation: Generation = "none"
    subresources: tuple[tuple[str, str, str], ...] = ()
    """Name, kind and ``group/version`` of that kind."""
    kept_as: tuple[str, str] = ("", "")
    singular: str = ""
    categories: tuple[str, ...] = ()
    is_custom: bool = False
    stored_version: str = ""
    schema: Any = field(default=None, compare=False)
    columns: Any = field(default=(), compare=False)
    selectable: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Group and version as an object has them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group, as messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        """The kind of a list of these."""
        return f"{self.kind}List"

    @property
    def key(self) -> tuple[str, str]:
        """Under which (group, plural) the objects are kept."""
        return self.kept_as if self.kept_as[1] else (self.group, self.plural)


_POD_ACTIONS: Final = (
    ("binding", "Binding", "v1"),
    ("eviction", "Eviction", "policy/v1"),
)
# Group and version; then per kind: plural, kind, short names, and flags:
# c cluster-wide, s has a status, g counts generations of its spec, a is in the category "all".
_BUILTIN: Final[dict[tuple[str, str], tuple[tuple[str, str, str, str], ...]]] = {
    ("", "v1"): (
        ("configmaps", "ConfigMap", "cm", ""),
        ("endpoints", "Endpoints", "ep", ""),
        ("events", "Event", "ev", ""),
        ("limitranges", "LimitRange", "limits", ""),
        ("namespaces", "Namespace", "ns", "cs"),
        ("nodes", "Node", "no", "cs"),
        ("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "s"),
        ("persistentvolumes", "PersistentVolume", "pv", "cs"),
        ("pods", "Pod", "po", "sga"),
        ("podtemplates", "PodTemplate", "", ""),
        ("replicationcontrollers", "ReplicationController", "rc", "sga"),
        ("resourcequotas", "ResourceQuota", "quota", "s"),
        ("secrets", "Secret", "", ""),
        ("serviceaccounts", "ServiceAccount", "sa", ""),
        ("services", "Service", "svc", "sa"),
    ),
    ("apps", "v1"): (
        ("controllerrevisions", "ControllerRevision", "", ""),
        ("daemonsets", "DaemonSet", "ds", "sga"),
        ("deployments", "Deployment", "deploy", "sga"),
        ("replicasets", "ReplicaSet", "rs", "sga"),
        ("statefulsets", "StatefulSet", "sts", "sga"),
    ),
    ("batch", "v1"): (
        ("cronjobs", "CronJob", "cj", "sga"),
        ("jobs", "Job", "", "sga"),
    ),
    ("policy", "v1"): (("poddisruptionbudgets", "PodDisruptionBudget", "pdb", "sg"),),
    ("coordination.k8s.io", "v1"): (("leases", "Lease", "", ""),),
    ("events.k8s.io", "v1"): (("events", "Event", "ev", ""),),
    ("scheduling.k8s.io", "v1"): (("priorityclasses", "PriorityClass", "pc", "c"),),
    ("storage.k8s.io", "v1"): (
        ("csidrivers", "CSIDriver", "", "c"),
        ("csinodes", "CSINode", "", "c"),
        ("csistoragecapacities", "CSIStorageCapacity", "", ""),
        ("storageclasses", "StorageClass", "sc", "c"),
        ("volumeattachments", "VolumeAttachment", "", "cs"),
    ),
    ("rbac.authorization.k8s.io", "v1"): (
        ("clusterrolebindings", "ClusterRoleBinding", "", "c"),
        ("clusterroles", "ClusterRole", "", "c"),
        ("rolebindings", "RoleBinding", "", ""),
        ("roles", "Role", "", ""),
    ),
    ("admissionregistration.k8s.io", "v1"): (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "", "cg"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "", "c"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "csg"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "c"),
    ),
    ("apiextensions.k8s.io", "v1"): (
        ("customresourcedefinitions", "CustomResourceDefinition", "crd crds", "csg"),
    ),
    ("resource.k8s.io", "v1"): (
        ("deviceclasses", "DeviceClass", "", "cg"),
        ("resourceclaims", "ResourceClaim", "", "s"),
        ("resourceclaimtemplates", "ResourceClaimTemplate", "", ""),
        ("resourceslices", "ResourceSlice", "", "cg"),
    ),
}


def builtin() -> Iterator[Resource]:
    """Yield the kinds that need no definition."""
    for (group, version), rows in _BUILTIN.items():
        for plural, kind, short_names, flags in rows:
            is_event = kind == "Event"
            yield Resource(
                group,
                version,
                plural,
                kind,
                is_namespaced="c" not in flags,
                short_names=tuple(short_names.split()),
                has_status="s" in flags,
                generation="spec" if "g" in flags else "none",
                subresources=_POD_ACTIONS if kind == "Pod" else (),
                kept_as=("", "events") if is_event else ("", ""),
                singular=kind.lower(),
                categories=("all",) if "a" in flags else (),
                stored_version="v1",
            )


class Registry:
    """All kinds that are served now; definitions add to it and take away."""

    def __init__(self) -> None:
        """Know the built-in kinds."""
        self._by_path: dict[tuple[str, str, str], Resource] = {
            (it.group, it.version, it.plural): it for it in builtin()
        }

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the kind that is served under a path."""
        return self._by_path.get((group, version, plural))

    def must(self, group: str, plural: str) -> Resource:
        """Return a built-in kind.

        Raises:
            KeyError: there is none of that name.

        """
        return self._by_path[group, "v1", plural]

    def kept(self, key: tuple[str, str]) -> Resource | None:
        """Return a kind by where its objects are kept, in the version they are kept in."""
        for it in self._by_path.values():
            if it.key == key and it.version == it.stored_version and it.group == key[0]:
                return it
        return None

    def add(self, resource: Resource) -> None:
        """Serve a kind."""
        self._by_path[resource.group, resource.version, resource.plural] = resource

    def remove(self, group: str, plural: str) -> None:
        """Serve a kind no more, in none of its versions."""
        for path in [it for it in self._by_path if (it[0], it[2]) == (group, plural)]:
            del self._by_path[path]

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each named group, in the order in which they came."""
        groups: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = groups.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        groups.pop("", None)
        return groups

    def of(self, group: str, version: str) -> list[Resource]:
        """Return the kinds of a version, by name."""
        found = [it for it in self._by_path.values() if (it.group, it.version) == (group, version)]
        return sorted(found, key=lambda it: it.plural)
