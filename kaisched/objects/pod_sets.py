"""Reader of Kueue's topology annotations of a pod set: where its pods are to be together.

Source: Kueue's documentation of topology-aware scheduling. They name levels by node labels, and no
topology. Keys that Kueue has beside them, such as those of spreading, are not read.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.json_text import read_json
from kaisched.objects.wire import StrictWire
from kaisched.objects.yaml_text import TextFault

MOST_LAYERS: Final = 3
_LEVELS: Final = (labels.POD_SET_REQUIRED, labels.POD_SET_PREFERRED, labels.POD_SET_UNCONSTRAINED)
_SLICE: Final = (labels.POD_SET_SLICE_LEVEL, labels.POD_SET_SLICE_SIZE)
_SHAPE: Final = 'write it like [{"topology": "example.com/rack", "size": 4}], outermost first'


class PodSetTopology(StrictWire, frozen=True, kw_only=True):
    """What a pod set asks for; without a level and slices, any place on the nodes of a topology."""

    required: str = ""
    preferred: str = ""
    slices: list[tuple[str, int]] = []
    """(level, pods), outermost first."""
    group: str = ""
    """Pod sets of one group are placed together."""


def pod_set_of(notes: Mapping[str, str], slice_size: int = 0) -> PodSetTopology | None:
    """Return what the annotations of a pod, or of its template, ask for; None for nothing.

    ``slice_size`` is that of slices for which none is written; 0 if it has to be.

    Raises:
        ObjectError: they contradict each other, or a value makes no sense.

    """
    given = [key for key in _LEVELS if notes.get(key)]
    if len(given) > 1:
        raise _error(given[1], notes[given[1]], f"beside {given[0]}", "write one of them")
    free = notes.get(labels.POD_SET_UNCONSTRAINED, "")
    if free not in ("", "true", "false"):
        raise _error(labels.POD_SET_UNCONSTRAINED, free, "neither true nor false", "write true")
    slices = _slices(notes, slice_size)
    if not slices and (not given or free == "false"):
        return None
    return PodSetTopology(
        required=notes.get(labels.POD_SET_REQUIRED, ""),
        preferred=notes.get(labels.POD_SET_PREFERRED, ""),
        slices=slices,
        group=notes.get(labels.POD_SET_GROUP, ""),
    )


def _slices(notes: Mapping[str, str], slice_size: int) -> list[tuple[str, int]]:
    level, size = (notes.get(key, "") for key in _SLICE)
    text = notes.get(labels.POD_SET_SLICES, "")
    if text:
        if level:
            raise _error(_SLICE[0], level, f"beside {labels.POD_SET_SLICES}", "write one of them")
        return layers_of(text)
    if not level:
        return []  # a size without a level has no effect in Kueue either
    if not size and not slice_size:
        fix = f"add {labels.POD_SET_SLICE_SIZE}: so many pods are a slice"
        raise _error(_SLICE[0], level, "slices without a size", fix)
    pods = _whole(size) if size else slice_size
    if pods < 1:
        raise _error(_SLICE[1], size, "no number of pods", "write a whole number from 1")
    return [(level, pods)]


def layers_of(text: str) -> list[tuple[str, int]]:
    """Return the layers of slices written as JSON.

    Raises:
        ObjectError: they are none.

    """
    try:
        (said,) = read_json(text)
        found = [(str(it["topology"]), _whole(str(it["size"]))) for it in said]
    except (TextFault, ValueError, TypeError, KeyError):
        raise _error(labels.POD_SET_SLICES, text, "no layers of slices", _SHAPE) from None
    if not 1 <= len(found) <= MOST_LAYERS:
        what = f"{len(found)} layers of slices"
        raise _error(labels.POD_SET_SLICES, text, what, f"write 1 to {MOST_LAYERS}")
    for at, (level, size) in enumerate(found):
        if not level or size < 1:
            raise _error(labels.POD_SET_SLICES, text, "a layer without level or pods", _SHAPE)
        if at and found[at - 1][1] % size:
            what = f"{size} does not divide {found[at - 1][1]}, the size around it"
            raise _error(labels.POD_SET_SLICES, text, what, "write sizes that do")
    return found


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0  # noqa: PLR2004


def _error(key: str, value: str, what: str, fix: str) -> ObjectError:
    path = join_path("metadata", "annotations", key)
    return ObjectError(f"{value[:80]!r}: {what}", path=path, fix=fix)
