"""What a pod's change amounts to: the same task or another, the same owner or not."""

from __future__ import annotations

from kaisched.cluster.grouping import Membership
from kaisched.cluster.translate import PodRow


def is_same_task(
    old: tuple[PodRow, Membership | None], new: tuple[PodRow, Membership | None]
) -> bool:
    """Tell whether a row may stay: what it is made of is written once."""
    (pod, member), (pod_now, member_now) = old, new
    return (
        pod.uid == pod_now.uid
        and pod.request == pod_now.request
        and pod.constraints == pod_now.constraints
        and pod.meta.labels == pod_now.meta.labels
        and pod.created_s == pod_now.created_s
        and pod.order_priority == pod_now.order_priority
        and (member.job if member else "") == (member_now.job if member_now else "")
    )


def is_other_owner(old: PodRow, new: PodRow) -> bool:
    """Tell whether pods that a pod owns may be grouped in another way."""
    parts = ("labels", "annotations", "owner_references")
    return any(getattr(old.meta, part) != getattr(new.meta, part) for part in parts)
