"""Reader of KAI-Scheduler's topology annotations on the templates in the spec of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.podgroup import TopologyConstraint
from kaisched.objects.segments import MOST_SUBGROUPS, Segments

_SEGMENT_KEYS: Final = (labels.SEGMENT_SIZE, labels.SEGMENT_REQUIRED, labels.SEGMENT_PREFERRED)
_MOST_DIGITS: Final = 9


def annotations_in(template: object) -> dict[str, str]:
    """Return the annotations of a template, none for anything else."""
    at = template
    for key in ("metadata", "annotations"):
        at = at.get(key) if isinstance(at, Mapping) else None
    return {str(key): str(value) for key, value in at.items()} if isinstance(at, Mapping) else {}


def constraint_on(notes: Mapping[str, str], owner: Mapping[str, str]) -> TopologyConstraint | None:
    """Return what the annotations of a template ask for; the owner's may name the topology.

    Raises:
        ObjectError: a level is required, and no topology is named.

    """
    return _constraint(notes, owner, labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED)


def segments_on(
    notes: Mapping[str, str],
    owner: Mapping[str, str],
    pods: int,
    minimum: int,
    size: object = None,
    **more: Any,
) -> Segments | None:
    """Return the segments of the pods of a template; None if its annotations ask for no level.

    Args:
        notes: annotations of the template.
        owner: annotations of the workload, which count where the template says nothing.
        pods: how many there are.
        minimum: how many of them must start together.
        size: of a segment, where the spec says it; then the annotation has no effect.
        more: other fields of the segments.

    Raises:
        ObjectError: a level is required, and no topology is named, or no size; or the size makes
            no sense.

    """
    told = {key: notes.get(key) or owner.get(key, "") for key in (*_SEGMENT_KEYS, labels.TOPOLOGY)}
    wish = _constraint(told, {}, labels.SEGMENT_REQUIRED, labels.SEGMENT_PREFERRED)
    text = str(size) if size is not None else told[labels.SEGMENT_SIZE]
    if wish is None or (not text and not wish.required_topology_level):
        return None
    if not text:
        fix = f"add {labels.SEGMENT_SIZE}: so many pods are a segment"
        raise _error(labels.SEGMENT_REQUIRED, wish.required_topology_level, "without a size", fix)
    is_whole = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not is_whole or not int(text):
        fix = "write how many pods are a segment, at least 1"
        raise _error(labels.SEGMENT_SIZE, text, "no size of a segment", fix)
    found = Segments(size=int(text), pods=pods, minimum=minimum, topology=wish, **more)
    if found.count > MOST_SUBGROUPS:
        what, fix = f"{found.count} segments", f"write a larger size: {MOST_SUBGROUPS} are the most"
        raise _error(labels.SEGMENT_SIZE, text, what, fix)
    return found


def _constraint(
    notes: Mapping[str, str], owner: Mapping[str, str], required: str, preferred: str
) -> TopologyConstraint | None:
    levels = notes.get(required, ""), notes.get(preferred, "")
    topology = notes.get(labels.TOPOLOGY) or owner.get(labels.TOPOLOGY, "")
    if not topology and levels[0]:
        raise _error(required, levels[0], "a level of no topology", f"add {labels.TOPOLOGY}")
    if not topology or not any(levels):
        return None
    return TopologyConstraint(
        topology=topology,
        required_topology_level=levels[0],
        preferred_topology_level=levels[1],
    )


def _error(key: str, value: str, what: str, fix: str) -> ObjectError:
    path = join_path("metadata", "annotations", key)
    return ObjectError(f"{value[:80]!r}: {what}", path=path, fix=fix)
