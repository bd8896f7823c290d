"""Segments that are to be near each other, of workloads that are not divided into segments.

A required level is a condition: placing the pods anywhere would silently break it, so the workload
is refused. A preferred level is a preference, and only causes a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.objects import labels
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.wire import KubernetesObject, ObjectMeta

NOT_OFFERED: Final = "segments are formed only of workers of PyTorchJobs and of LeaderWorkerSets"
_FIX_REQUIRED: Final = "leave it out, or list subgroups in a PodGroup"
_FIX_PREFERRED: Final = "it has no effect; drop it to be rid of this line"


def required_of_workload(meta: ObjectMeta) -> str:
    """Return the refusal of a required level for segments, by the annotations of a workload."""
    level = meta.annotations.get(labels.SEGMENT_REQUIRED)
    if not level:
        return ""
    path: Path = ("metadata", "annotations", labels.SEGMENT_REQUIRED)
    return str(to_error(Fault(path, NOT_OFFERED, level, _FIX_REQUIRED), Source()))


def preferred_of_workload(workload: KubernetesObject) -> Iterator[Fault]:
    """Yield a warning for a preferred level for segments, by a workload's annotations.

    Not for one that another object has made, or a pod that names its group: these say more.
    """
    meta = workload.metadata
    level = meta.annotations.get(labels.SEGMENT_PREFERRED)
    if level and not meta.owner_references and labels.pod_group_of(meta) is None:
        path: Path = ("metadata", "annotations", labels.SEGMENT_PREFERRED)
        yield Fault(path, NOT_OFFERED, level, _FIX_PREFERRED, is_warning=True)
