"""What the metrics of claims rest on, taken between two cycles."""

from __future__ import annotations

from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.telemetry.metrics import ClaimFigures

if TYPE_CHECKING:
    from kaisched.cluster.claims.known import DeviceClaims
    from kaisched.core.snapshot import Snapshot
    from kaisched.objects.devices import ResourceClaim


def figures_of(claims: DeviceClaims, snapshot: Snapshot) -> ClaimFigures:
    """Return what claims have now, and those that the pending pods of a snapshot wait for.

    Called by the thread of the store; what it returns is read by others.
    """
    waiting: dict[str, ResourceClaim] = {}
    if snapshot.claims is not None:
        keys_of_row = snapshot.claims.claims_of_task
        rows = np.fromiter(keys_of_row, np.intp, len(keys_of_row))
        is_pending = (snapshot.tasks.state[rows] == int(TaskState.PENDING)).tolist()
        for keys in compress(keys_of_row.values(), is_pending):
            for key in keys:
                if key not in claims.held and (claim := claims.claim(key)) is not None:
                    waiting[key] = claim
    held = MappingProxyType(dict(claims.held))
    return ClaimFigures(claims.offered.offer, held, tuple(waiting.values()))
