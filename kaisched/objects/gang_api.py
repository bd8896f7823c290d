"""Reader of Kubernetes' own gang API: pods name a PodGroup of ``scheduling.k8s.io`` in their spec.

All knowledge of the API is here: its versions and the fields read. Source: the API references of
Kubernetes 1.36 (v1alpha2) and 1.37 (v1alpha3, v1beta1), which agree on the fields read. The API
v1alpha1 of 1.35 differs, with groups inside Workload objects, and is not read.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.gang_sizes import as_map, as_maps, count, sized
from kaisched.objects.labels import LABEL_KEY
from kaisched.objects.workloads import MOST, Gang, Workload

GROUP: Final = "scheduling.k8s.io"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2")
"""Supported versions, the preferred one first."""


def chosen(versions: Container[str]) -> Workload | None:
    """Return the row of the first supported version that is served, or None."""
    version = next((it for it in VERSIONS if it in versions), None)
    if version is None:
        return None
    return Workload(f"{GROUP}/{version}", PLURAL, KIND, read=read)


def read(spec: Mapping[str, Any], _: Mapping[str, str]) -> Gang:
    """Read a PodGroup: how many pods must start together, or that each starts by itself."""
    return _unsupported(spec) or _gang(spec)


def _gang(spec: Mapping[str, Any]) -> Gang:
    policy, cls = as_map(spec.get("schedulingPolicy")), spec.get("priorityClassName")
    priority_class = cls if isinstance(cls, str) else ""
    label = next((str(it.get("key")) for it in _constraints(spec)), "")
    if "gang" not in policy:
        # What keeps pods together is one job, even if each of them may start by itself.
        return Gang(is_each=not label, priority_class=priority_class, node_label=label)
    minimum = sized(count(as_map(policy["gang"]).get("minCount"))).minimum
    return Gang(minimum=minimum, priority_class=priority_class, node_label=label)


def _constraints(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return as_maps(as_map(spec.get("schedulingConstraints")).get("topology"))


def _unsupported(spec: Mapping[str, Any]) -> Gang | None:
    policy: Path = ("spec", "schedulingPolicy")
    said = as_map(spec.get("schedulingPolicy"))
    if not said.keys() & {"gang", "basic"}:
        return _refused(policy, "no such policy", ", ".join(said), "write gang or basic")
    minimum = as_map(said.get("gang")).get("minCount", 1)
    if "gang" in said and not count(minimum, 0) >= 1:
        fix = f"write how many pods must start together, from 1 to {MOST}"
        return _refused((*policy, "gang", "minCount"), "out of range", minimum, fix)
    where: Path = ("spec", "schedulingConstraints", "topology")
    wishes = _constraints(spec)
    if len(wishes) > 1:
        keys = ", ".join(str(it.get("key")) for it in wishes)
        return _refused(where, "more than one constraint", keys, "keep one of them")
    key = wishes[0].get("key") if wishes else "none"
    if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
        fix = "write a label of nodes; its value will be the same for all pods"
        return _refused((*where, 0, "key"), "no label of nodes", key, fix)
    parent = spec.get("parentCompositePodGroupName")
    if parent:
        where = ("spec", "parentCompositePodGroupName")
        return _refused(where, "groups of groups are not offered", parent, "leave it out")
    return None


def _refused(path: Path, what: str, value: object, fix: str) -> Gang:
    return Gang(unsupported=str(to_error(Fault(path, what, value, fix), Source())))
