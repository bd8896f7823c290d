"""Topology constraints of workloads, none of which is supported yet.

A required level is a condition: placing the pods anywhere would silently break it, so the workload
is refused. A preferred level is a preference, and only causes a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.objects import labels
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.podgroup import PodGroupSpec, TopologyConstraint
from kaisched.objects.wire import KubernetesObject, ObjectMeta

NOT_OFFERED: Final = "topology constraints are not offered in this version"
_FIX_REQUIRED: Final = "leave it out, or name a preferred level"
_FIX_PREFERRED: Final = "it has no effect; drop it to be rid of this line"
_REQUIRED: Final = (labels.TOPOLOGY_REQUIRED, labels.SEGMENT_REQUIRED)
_PREFERRED: Final = (labels.TOPOLOGY_PREFERRED, labels.SEGMENT_PREFERRED)
_CONSTRAINT: Final = "topologyConstraint"


def required_of_group(spec: PodGroupSpec) -> str:
    """Return the refusal of the first required level of a pod group or subgroup, or nothing."""
    for path, constraint in _constraints(spec):
        if constraint.required_topology_level:
            where = (*path, "requiredTopologyLevel")
            return _refusal(where, constraint.required_topology_level)
    return ""


def required_of_workload(meta: ObjectMeta) -> str:
    """Return the refusal of a required level in the annotations of a pod or its owner."""
    for key in _REQUIRED:
        level = meta.annotations.get(key)
        if level:
            return _refusal(("metadata", "annotations", key), level)
    return ""


def preferred_of_group(spec: PodGroupSpec) -> Iterator[Fault]:
    """Yield a warning for each preferred level of a pod group."""
    for path, constraint in _constraints(spec):
        if constraint.preferred_topology_level:
            where = (*path, "preferredTopologyLevel")
            yield _warning(where, constraint.preferred_topology_level)


def preferred_of_workload(workload: KubernetesObject) -> Iterator[Fault]:
    """Yield a warning for each preferred level in the annotations of a pod or its owner."""
    for key in _PREFERRED:
        level = workload.metadata.annotations.get(key)
        if level:
            yield _warning(("metadata", "annotations", key), level)


def _constraints(spec: PodGroupSpec) -> Iterator[tuple[Path, TopologyConstraint]]:
    if spec.topology_constraint is not None:
        yield ("spec", _CONSTRAINT), spec.topology_constraint
    for at, part in enumerate(spec.sub_groups):
        if part.topology_constraint is not None:
            yield ("spec", "subGroups", at, _CONSTRAINT), part.topology_constraint


def _refusal(path: Path, level: str) -> str:
    return str(to_error(Fault(path, NOT_OFFERED, level, _FIX_REQUIRED), Source()))


def _warning(path: Path, level: str) -> Fault:
    return Fault(path, NOT_OFFERED, level, _FIX_PREFERRED, is_warning=True)
