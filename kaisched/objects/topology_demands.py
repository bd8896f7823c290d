"""Segments of workloads that are to be near each other, which are not supported yet.

A required level is a condition: placing the pods anywhere would silently break it, so the workload
is refused. A preferred level is a preference, and only causes a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.objects import labels
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.wire import KubernetesObject, ObjectMeta

NOT_OFFERED: Final = "topology constraints of segments are not offered in this version"
_FIX_REQUIRED: Final = "leave it out, or name a preferred level"
_FIX_PREFERRED: Final = "it has no effect; drop it to be rid of this line"


def required_of_workload(meta: ObjectMeta) -> str:
    """Return the refusal of a required level for segments, by the annotations of a workload."""
    level = meta.annotations.get(labels.SEGMENT_REQUIRED)
    if not level:
        return ""
    path: Path = ("metadata", "annotations", labels.SEGMENT_REQUIRED)
    return str(to_error(Fault(path, NOT_OFFERED, level, _FIX_REQUIRED), Source()))


def preferred_of_workload(workload: KubernetesObject) -> Iterator[Fault]:
    """Yield a warning for a preferred level for segments, by a workload's annotations."""
    level = workload.metadata.annotations.get(labels.SEGMENT_PREFERRED)
    if level:
        path: Path = ("metadata", "annotations", labels.SEGMENT_PREFERRED)
        yield Fault(path, NOT_OFFERED, level, _FIX_PREFERRED, is_warning=True)
