"""Linter of constraints: names of topologies and levels that no Topology among the files has.

Where there is no Topology among the files, nothing is missed: the cluster may have them. But node
labels that no node can have are told all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.faults import Fault, Source, did_you_mean, to_error
from kaisched.objects.labels import LABEL_KEY
from kaisched.objects.load import identity_of
from kaisched.objects.node import LABEL_FIX, Topology
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import TopologyConstraint
from kaisched.objects.workloads import PartialObject, layers_of

if TYPE_CHECKING:
    from kaisched.objects.load import Loaded, Manifest

_LEVELS: Final = {
    labels.TOPOLOGY_REQUIRED: True,
    labels.TOPOLOGY_PREFERRED: False,
    labels.SEGMENT_REQUIRED: True,
    labels.SEGMENT_PREFERRED: False,
}
"""Annotations that name a level of a topology, with whether it is required."""
_NODE_LABELS: Final = {
    labels.POD_SET_REQUIRED: True,
    labels.POD_SET_PREFERRED: False,
    labels.POD_SET_SLICE_LEVEL: True,
}
"""Kueue's annotations, which name a node label that some topology has to have."""
_MOST_DEPTH: Final = 32
_NO_LABEL: Final = "no name of a label, so no node can have it"
_NO_TOPOLOGY: Final = "no such Topology among the files"

_Path = tuple[str | int, ...]


class Wrong(NamedTuple):
    """A name that is not there."""

    error: ObjectError
    is_required: bool
    """Whether the pods wait for it; a wish has no effect."""


class _Name(NamedTuple):
    path: _Path
    text: str
    is_required: bool


class _Said(NamedTuple):
    """A constraint as it is written: a topology and levels, or node labels alone."""

    topology: _Name | None
    levels: tuple[_Name, ...]


def unknown_names(loaded: Loaded) -> Iterator[Wrong]:
    """Yield the names of topologies and levels that are not among the files, or cannot be."""
    faulty = [obj for obj, _ in loaded.faulty if isinstance(obj, Topology)]
    known = {it.name: _names_in(it) for it in loaded.of(Topology)}
    unusable = {it.name for it in faulty}  # told already: nothing is missed for it
    for kind, name, source, constraints in _constraints(loaded):
        for said in constraints:
            for path, text, what, fix, is_required in _missing(said, known, unusable):
                yield Wrong(to_error(Fault(path, what, text, fix), source, kind, name), is_required)


def _names_in(topology: Topology) -> list[str]:
    levels = topology.spec.levels
    return [*(it.alias for it in levels if it.alias), *(it.node_label for it in levels)]


def _missing(
    said: _Said, known: Mapping[str, list[str]], unusable: set[str]
) -> Iterator[tuple[_Path, str, str, str, bool]]:
    """Yield path, value, what is wrong, fix, and whether pods wait for it."""
    if said.topology is None:
        yield from _without_topology(said, known, is_all=not unusable)
        return
    if not known and not unusable:
        return
    topology = said.topology.text
    if topology in unusable:
        return
    if topology not in known:
        fix = did_you_mean(topology, [*known, *unusable])
        yield said.topology.path, topology, _NO_TOPOLOGY, fix, said.topology.is_required
        return
    for path, text, is_required in said.levels:
        if text not in known[topology]:
            what = f"topology {topology} has no such level"
            yield path, text, what, did_you_mean(text, known[topology]), is_required


def _without_topology(
    said: _Said, known: Mapping[str, list[str]], *, is_all: bool
) -> Iterator[tuple[_Path, str, str, str, bool]]:
    """Yield the node labels of a constraint that are levels of no topology, or not of one.

    If not all topologies are known, only those that no node can have.
    """
    if not known or not is_all:
        bad = (it for it in said.levels if not LABEL_KEY.fullmatch(it.text))
        yield from ((path, text, _NO_LABEL, LABEL_FIX, must) for path, text, must in bad)
        return
    levels = sorted({it for names in known.values() for it in names})
    lacking = [it for it in said.levels if it.text not in levels]
    for path, text, is_required in lacking:
        what = "no Topology among the files has a level with this node label"
        yield path, text, what, did_you_mean(text, levels), is_required
    wanted = {it.text for it in said.levels}
    if not lacking and not any(wanted <= set(names) for names in known.values()):
        path, text, is_required = said.levels[-1]
        what = "no Topology among the files has this level and the others that are asked for"
        yield path, text, what, "name levels of one topology", is_required


def _constraints(loaded: Loaded) -> Iterator[tuple[str, str, Source, Iterator[_Said]]]:
    """Yield kind, name, source and constraints of each object that may have some."""
    for obj in loaded.objects:
        if not isinstance(obj, PartialObject):
            kind, name = identity_of(obj)
            yield kind, name, loaded.sources.get((kind, name), Source()), _of_object(obj)
    for other in loaded.others:
        yield other.kind, other.name, other.source, _annotated(other.raw)


def _of_object(obj: Manifest) -> Iterator[_Said]:
    """Yield the constraints of an object that was read as a whole."""
    if isinstance(obj, PodGroup):
        yield from _written(("spec", "topologyConstraint"), obj.spec.topology_constraint)
        for at, part in enumerate(obj.spec.sub_groups):
            inside = ("spec", "subGroups", at, "topologyConstraint")
            yield from _written(inside, part.topology_constraint)
    own = obj.metadata.annotations
    yield from _noted(("metadata",), own, own)
    template = getattr(getattr(obj, "spec", None), "template", None)
    if template is not None:
        path = ("spec", "template", "metadata")
        yield from _noted(path, template.metadata.annotations, own)


def _annotated(raw: Mapping[str, Any]) -> Iterator[_Said]:
    """Yield the constraints in annotations of a workload and of all templates in its spec."""
    own = _notes(raw.get("metadata"))
    yield from _noted(("metadata",), own, own)
    yield from _in_templates(("spec",), raw.get("spec"), own, _MOST_DEPTH)


def _in_templates(path: _Path, at: object, own: Mapping[str, str], depth: int) -> Iterator[_Said]:
    inside: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(at, Mapping):
        yield from _noted((*path, "metadata"), _notes(at.get("metadata")), own)
        inside = iter(at.items())
    elif isinstance(at, list):
        inside = iter(enumerate(at))
    for key, value in inside if depth else ():
        yield from _in_templates((*path, key), value, own, depth - 1)


def _notes(metadata: object) -> dict[str, str]:
    notes = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return {str(key): str(it) for key, it in notes.items()} if isinstance(notes, Mapping) else {}


def _written(path: _Path, constraint: TopologyConstraint | None) -> Iterator[_Said]:
    """Yield the constraint of a PodGroup, or of a subgroup."""
    if constraint is None or not constraint.topology:
        return
    required, preferred = constraint.required_topology_level, constraint.preferred_topology_level
    levels = (
        _Name((*path, "requiredTopologyLevel"), required, is_required=True),
        _Name((*path, "preferredTopologyLevel"), preferred, is_required=False),
    )
    topology = _Name((*path, "topology"), constraint.topology, bool(required))
    yield _Said(topology, tuple(it for it in levels if it.text))


def _noted(path: _Path, notes: Mapping[str, str], own: Mapping[str, str]) -> Iterator[_Said]:
    """Yield the constraints in annotations; ``own``, of the workload, may name the topology."""
    told = [
        _Name((*path, "annotations", key), notes[key], is_required)
        for key, is_required in _LEVELS.items()
        if notes.get(key)
    ]
    topology = notes.get(labels.TOPOLOGY) or own.get(labels.TOPOLOGY, "")
    if topology and told:
        where = path if notes.get(labels.TOPOLOGY) else ("metadata",)
        must = any(it.is_required for it in told)
        named = _Name((*where, "annotations", labels.TOPOLOGY), topology, must)
        yield _Said(named, tuple(told))
    free = [
        _Name((*path, "annotations", key), notes[key], is_required)
        for key, is_required in _NODE_LABELS.items()
        if notes.get(key)
    ]
    free += _layers((*path, "annotations", labels.POD_SET_SLICES), notes)
    if free:
        yield _Said(None, tuple(free))


def _layers(path: _Path, notes: Mapping[str, str]) -> list[_Name]:
    """Return the levels of slices in layers; none for a text with a fault, which is told."""
    text = notes.get(labels.POD_SET_SLICES, "")
    try:
        found = layers_of(text) if text else []
    except ObjectError:
        return []
    return [_Name(path, level, is_required=True) for level, _ in found]
