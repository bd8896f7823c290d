"""Pods that require a topology level for segments, where none are formed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.objects.workloads import required_of_workload

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow


def with_segments(pod: PodRow, member: Membership | None) -> PodRow:
    """Return a pod with a fault while it requires a level for segments that its job has not.

    A PodGroup that the pod names says where its pods go.
    """
    refusal = required_of_workload(pod.meta)
    if not refusal:
        return pod
    is_divided = member is None or member.is_declared or bool(member.gang.segments)
    fault = "" if pod.fault == refusal else pod.fault  # as its job was known before
    fault = fault or ("" if is_divided else refusal)
    return pod if fault == pod.fault else replace(pod, fault=fault)
