"""Pods that require a topology level for segments, where none are formed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.objects.topology_demands import required_of_workload

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow


def with_segments(pod: PodRow, member: Membership | None) -> PodRow:
    """Return a pod with a fault if it requires a level for segments that its job has not.

    A PodGroup that the pod names says where its pods go.
    """
    if pod.fault or member is None or member.is_declared or member.gang.segments:
        return pod
    fault = required_of_workload(pod.meta)
    return replace(pod, fault=fault) if fault else pod
