"""Subgroup order: orders the subgroups of a job by how much they lack."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import numpy as np

from kaisched import FloatVec, IntVec, Plugin, Session, hookimpl


class SubGroupOrder(Plugin):
    """Subgroups below their minimum first, then required ones, then the relatively emptier."""

    name = "subgrouporder"

    @hookimpl
    def subgroup_order(
        self, session: Session, active: IntVec, minimum: IntVec
    ) -> tuple[IntVec | FloatVec, ...]:
        """Answer three keys: lacks nothing, is optional, how full it is."""
        is_optional = minimum <= 0
        # A required group is as full as its share of the minimum, an optional one as it has pods;
        # the second key keeps the two kinds apart.
        fullness = active / np.maximum(minimum, 1)
        return (
            (active >= minimum).astype(np.int64),
            is_optional.astype(np.int64),
            fullness,
        )
