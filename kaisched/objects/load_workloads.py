"""Workloads among manifests, grouped as the daemon groups watched ones.

The table of workloads says which kinds own pods, and plugins add rows to it. So objects of kinds
without a struct stay undecoded until the policy of a shard is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kaisched.errors import ObjectError
from kaisched.objects import gang_api, labels
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.gang_sizes import gang_of
from kaisched.objects.load import Manifest, Other
from kaisched.objects.owners import PartialObject
from kaisched.objects.pod import Pod
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.workloads import Table, Workload


@dataclass(slots=True)
class Workloads:
    """Workloads among the objects without a struct, and counts of the others."""

    objects: list[PartialObject] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of ignored objects of each kind."""


class _Workload(KubernetesObject, frozen=True, kw_only=True):
    """A workload of any kind."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = "workload"

    spec: Any = None


def workloads_among(others: Iterable[Other], table: Table) -> Workloads:
    """Read the workloads among objects of other kinds.

    Args:
        others: undecoded objects.
        table: grouping of the pods of each kind.

    """
    found = Workloads()
    for other in others:
        row = _row_of(other, table)
        if row is None:
            found.left_out[other.kind] += 1
            continue
        try:
            obj, _ = decode_object(other.raw, _Workload, other.source)
        except BadObject as bad:
            for error in bad.errors:
                error.kind = other.kind
            found.problems.extend(bad.errors)
            continue
        gang = gang_of(row.read, obj.spec, obj.metadata.annotations)
        found.objects.append(
            PartialObject(
                metadata=obj.metadata, api_version=other.api_version, kind=other.kind, gang=gang
            )
        )
    return found


def missing_owners(objects: Iterable[Manifest], table: Table) -> list[str]:
    """Describe each workload that owns pods and would be read, but is not among the objects."""
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    there = {obj.metadata.uid for obj in objects}
    missing: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        owner = next((it for it in pod.metadata.owner_references if it.controller), None)
        if owner is None or owner.uid in there or labels.pod_group_of(pod.metadata) is not None:
            continue
        row = table.get((owner.api_version.rpartition("/")[0], owner.kind))
        if row is not None and (row.read is not None or row.pods == "through"):
            missing[owner.kind, f"{pod.metadata.namespace}/{owner.name}"] += 1
    return [
        f"{kind} {key} is not among the manifests under the UID that its pods name: what it"
        f" says of them is not known, so each of the {count} starts by itself"
        for (kind, key), count in sorted(missing.items())
    ]


def _row_of(other: Other, table: Table) -> Workload | None:
    """Return how an object groups the pods it owns; None for kinds that own no pods."""
    group, _, version = other.api_version.rpartition("/")
    if (group, other.kind) == (gang_api.GROUP, gang_api.KIND):
        return gang_api.chosen({version})
    return table.get((group, other.kind))
