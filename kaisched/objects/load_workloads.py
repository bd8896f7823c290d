"""Workloads among manifests, grouped as the daemon groups what it watches.

Which kinds own pods is said by the table of workloads, to which plugins add rows. So objects of
kinds that have no struct are kept as they were read until the policy of a shard is known.
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
    """What became of the objects that have no struct of their own."""

    objects: list[PartialObject] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """How many objects of each kind are none of the scheduler's business."""


class _Workload(KubernetesObject, frozen=True, kw_only=True):
    """A workload of any kind."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = "workload"

    spec: Any = None


def workloads_among(others: Iterable[Other], table: Table) -> Workloads:
    """Read the workloads among objects of other kinds.

    Args:
        others: objects as they were read.
        table: how the pods of each kind are grouped.

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
    """Return a sentence for each workload that owns pods, would be read, and is not there."""
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
        f"{kind} {key} is not among the manifests under the UID that its pods name: what it says of"
        f" its pods is not known, so each of the {count} starts by itself"
        for (kind, key), count in sorted(missing.items())
    ]


def _row_of(other: Other, table: Table) -> Workload | None:
    """Return how an object groups the pods it owns; None for kinds that own none of ours."""
    group, _, version = other.api_version.rpartition("/")
    if (group, other.kind) == (gang_api.GROUP, gang_api.KIND):
        return gang_api.chosen({version})
    return table.get((group, other.kind))
