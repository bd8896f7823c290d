"""The types of nodes that a workload asks for, read from its pod or from what owns the pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.errors import ObjectError
from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow


def with_node_types(pod: PodRow, member: Membership | None) -> PodRow:
    """Return a pod with the types that its owners or the pod name: the outermost that does."""
    wanted: tuple[str, ...] = ()
    for meta in member.metas if member is not None else ():
        if labels.NODE_TYPE in meta.annotations:
            try:
                wanted = labels.node_types_of(meta) or ()
            except ObjectError:
                wanted = ()  # its job is refused, and hears why
            break
    if wanted == pod.constraints.node_types:
        return pod
    return replace(pod, constraints=replace(pod.constraints, node_types=wanted))
