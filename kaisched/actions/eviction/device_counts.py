"""Whether a claim would get more GPUs by its claims on devices than it was judged for.

Of alternatives the smallest counts until one is chosen, and of all devices of a node the fewest.
Two queues would take turns for ever in evicting each other, each within its share as it counts
beforehand, and beyond it with what it then gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.core.axis import GPU
from kaisched.core.claims.parts import WHOLE_GPU, measure_of
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.core.claims.model import Result
    from kaisched.core.claims.table import ClaimTable
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim


def gets_too_much(session: Session, claim: Claim, tasks: RowVec) -> bool:
    """Tell whether what tasks get with their promise takes a queue beyond what it may have.

    The promise is made, so queues hold what counted beforehand already.
    """
    more = _more_than_counted(session, tasks)
    if more <= 0:
        return False
    ask = np.zeros_like(claim.ask)
    ask[session.snapshot.axis.position[CLAIMED_GPU]] = more
    ask[GPU] = more
    if first_shut(session, claim.action, claim.job, ask):
        return True
    codes = session.ask.claim_gate(session, claim.action, np.array([claim.job]), ask[:, None])
    return codes is not None and bool(codes[0])


def _more_than_counted(session: Session, tasks: RowVec) -> int:
    """Return how many thousandths of GPUs more tasks get by claim than they count for."""
    devices, table = session.devices, session.snapshot.claims
    row = session.snapshot.axis.position.get(CLAIMED_GPU)
    if devices is None or table is None or row is None:
        return 0
    got = sum(
        _thousandths(it)
        for task in tasks.tolist()
        for grant in devices.granted.get(task, ())
        if not _is_by_resource(session, table, task, grant.key)
        for it in grant.allocation.results
        if not it.ask.is_admin and it.ask.class_name in table.gpu_classes
    )
    shapes = session.tasks.shape_of_task[tasks]
    return got - int(session.shapes.request[row].take(shapes).sum())


def _is_by_resource(session: Session, table: ClaimTable, task: int, key: str) -> bool:
    """Tell whether a claim stands for a resource that the pod asks for: that counts, not it."""
    uses = session.shapes.constraints[int(session.tasks.shape_of_task[task])].claims
    keys = table.claims_of_task[task]
    return any(use.unless_plugin for it, use in zip(keys, uses, strict=True) if it == key)


def _thousandths(result: Result) -> int:
    """Return what a device counts on its node, or the part that a claim has of it."""
    if result.consumed is None:
        return WHOLE_GPU.of_node
    consumed = {name: amount.nanos for name, amount in result.consumed}
    return measure_of(result.device).part(consumed).of_node
