"""Elastic: orders jobs by whether they have their minimum."""

from __future__ import annotations

import numpy as np

from kaisched import FloatVec, IntVec, Plugin, RowVec, Session, SubGroup, hookimpl

BELOW, EXACTLY, ABOVE = 0, 1, 2


class Elastic(Plugin):
    """Jobs below their minimum first, those exactly at it next, those above it last."""

    name = "elastic"

    def key_names(self, question: str) -> tuple[str, ...]:
        """Name the key of jobs."""
        del question
        return ("standing to the minimum (0 below, 1 at it, 2 above)",)

    def key_words(self, question: str) -> tuple[str, ...]:
        """Say what the key of jobs puts behind."""
        del question
        return ("{whose} has more of the pods that it needs already",)

    @hookimpl
    def job_order(self, session: Session, job: RowVec) -> tuple[IntVec | FloatVec, ...]:
        """Answer 0 below, 1 exactly at, 2 above the minimum, by the present counts."""
        podsets = session.podsets
        active = session.podset_active_now
        first = session.jobs.first_podset.take(job)
        surplus = active.take(first) - podsets.minimum.take(first)
        standing = np.sign(surplus) + 1
        structure = session.jobs.structure
        if structure:
            for at, row in enumerate(job.tolist()):
                root = structure.get(row)
                if root is not None:
                    standing[at] = standing_of(root, active, podsets.minimum)
        return (standing,)


def standing_of(group: SubGroup, active: IntVec, minimum: IntVec) -> int:
    """Return 0 for a (sub)group below its minimum, 1 for exactly at it, 2 for above.

    An inner group is below its minimum while too few of its children have their minimum. It is
    exactly at it while just enough children have their minimum and none of these has more.
    """
    if group.podset >= 0:
        surplus = int(active[group.podset] - minimum[group.podset])
        return EXACTLY if surplus == 0 else BELOW if surplus < 0 else ABOVE
    children = [standing_of(child, active, minimum) for child in group.children]
    met = sum(standing != BELOW for standing in children)
    if met < group.min_subgroup:
        return BELOW
    return EXACTLY if met == group.min_subgroup and ABOVE not in children else ABOVE
