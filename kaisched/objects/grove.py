"""Reader of Grove's PodGangs: which pods start together, and near which others.

Source: Grove's API reference of ``scheduler.grove.io/v1alpha1``. Pods name their gang and their
group in it by labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.gang_sizes import as_map, as_maps, count
from kaisched.objects.podgroup import SubGroupSpec, TopologyConstraint
from kaisched.objects.segments import MOST_SUBGROUPS
from kaisched.objects.workloads import Gang

TOPOLOGY_NAME: Final = "grove.io/topology-name"
"""Annotation of a PodGang that names the topology of its levels."""
_CONFIGS: Final = "topologyConstraintGroupConfigs"
_GROUPS: Final = "podgroups"


def pod_gang(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
    """Read a PodGang: a subgroup for each group of pods, with those that are to be near each other.

    Each group needs its ``minReplicas``, and all groups are needed.
    """
    topology = annotations.get(TOPOLOGY_NAME) or annotations.get(labels.TOPOLOGY, "")
    try:
        parts = [*_configs(spec, topology), *_groups(spec, topology)]
        whole = _packed(spec, topology, "spec")
    except ObjectError as error:
        return Gang(unsupported=str(error))
    if len(parts) > MOST_SUBGROUPS:
        return Gang(unsupported=f"{len(parts)} groups of pods; {MOST_SUBGROUPS} are the most")
    name = spec.get("priorityClassName")
    return Gang(
        sub_groups=parts,
        topology_constraint=whole,
        priority_class=name if isinstance(name, str) else "",
    )


def _configs(spec: Mapping[str, Any], topology: str) -> list[SubGroupSpec]:
    """Return the subgroups that hold groups which are to be near each other."""
    used = set(_config_of(spec).values())
    return [
        SubGroupSpec(
            name=_name(it, at),
            topology_constraint=_packed(it, topology, "spec", _CONFIGS, at),
        )
        for at, it in enumerate(as_maps(spec.get(_CONFIGS)))
        if _name(it, at) in used
    ]


def _groups(spec: Mapping[str, Any], topology: str) -> list[SubGroupSpec]:
    parent = _config_of(spec)
    return [
        SubGroupSpec(
            name=_name(it, at),
            min_member=count(it.get("minReplicas")),
            parent=parent.get(_name(it, at), ""),
            topology_constraint=_packed(it, topology, "spec", _GROUPS, at),
        )
        for at, it in enumerate(as_maps(spec.get(_GROUPS)))
    ]


def _config_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return which config holds a group, by the name of the group."""
    known = {_name(it, at) for at, it in enumerate(as_maps(spec.get(_GROUPS)))}
    found: dict[str, str] = {}
    for at, it in enumerate(as_maps(spec.get(_CONFIGS))):
        names = it.get("podGroupNames")
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name in known:
                found[name] = _name(it, at)
    return found


def _name(part: Mapping[str, Any], at: int) -> str:
    return str(part.get("name") or f"group-{at}")


def _packed(part: Mapping[str, Any], topology: str, *path: str | int) -> TopologyConstraint | None:
    """Return the levels of the ``packConstraint`` of a part of the spec."""
    levels = as_map(as_map(part.get("topologyConstraint")).get("packConstraint"))
    required, preferred = (str(levels.get(key) or "") for key in ("required", "preferred"))
    if required and not topology:
        where = join_path(*path, "topologyConstraint", "packConstraint", "required")
        fix = f"name it in the annotation {TOPOLOGY_NAME}"
        raise ObjectError(f"{required[:80]!r}: a level of no topology", path=where, fix=fix)
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(
        topology=topology,
        required_topology_level=required,
        preferred_topology_level=preferred,
    )
