"""What a claim asks for, and what room it would find once work has left: input of a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.order.gates import first_shut
from kaisched.core.axis import GPU
from kaisched.core.claims.table import WHOLE_GPU, measure_of
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import RowVec
    from kaisched.core.claims.model import Result
    from kaisched.core.claims.table import ClaimTable
    from kaisched.framework.session.capacity import Asked, NodeCapacity
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Claim, Unit


# The input and the result of a victim search.


@dataclass(slots=True)
class Plan:
    """A statement in which the claim is placed, and the units that it costs."""

    statement: Statement
    units: list[Unit]
    """Units that lose their room."""
    pass_number: int = 0
    """The pass of the search that found the plan."""
    relocated: list[Unit] = field(default_factory=list)
    """Victims that found another place after all."""
    movers: list[Unit] = field(default_factory=list)
    """Units that make way by moving, though they may not be evicted for the claim."""


@dataclass(slots=True)
class Demand:
    """A claim's pods by shape."""

    claim: Claim
    tasks: RowVec
    shapes: list[tuple[int, int]]
    """(shape, pods)."""


# Counts whether units, once gone, leave room for a claim: by amounts, node by node.
#
# The count is exact for a claim of equal pods that only amounts and fixed filters decide on. For
# any other claim it is a necessary condition; only placing the claim decides.


class Need:
    """Counts room for pods of one shape, with the units taken so far gone."""

    def __init__(self, session: Session, future: Future, count: int) -> None:
        """Start with nothing taken."""
        self._session = session
        self._capacity = session.capacity
        self._node_of_task = session.ledger.node_of_task
        self.future = future
        self._rooms: dict[int, NodeCapacity] = {}
        self._requests: dict[int, Asked] = {}
        self.count = count
        self.total = future.total
        self.room_at: dict[int, int] = {}
        """By node with pods of a taken unit: how many pods fit."""

    @property
    def is_met(self) -> bool:
        """True when all pods fit."""
        return self.total >= self.count

    def shift(self, tasks: tuple[int, ...], sign: int) -> None:
        """Count the room of a unit as free (1), or as held again (-1)."""
        node_of_task, shape_of_task = self._node_of_task, self._session.tasks.shape_of_task
        allowed = self.future.allowed
        for task in tasks:
            node = int(node_of_task[task])
            if node < 0 or (allowed is not None and not allowed[node]):
                continue
            here = self._rooms.get(node)
            if here is None:
                here = self._rooms[node] = self._capacity.on(node)
                self.room_at[node] = int(self.future.room[node])
            shape = int(shape_of_task[task])
            request = self._requests.get(shape)
            if request is None:
                request = self._requests[shape] = self._capacity.asked(shape)
            here.shift(request, sign)
            room = here.pods(self.future.asked)
            self.total += room - self.room_at[node]
            self.room_at[node] = room


# Whether a claim would get more GPUs by its claims on devices than it was judged for.
#
# Of alternatives the smallest counts until one is chosen, and of all devices of a node the fewest.
# Two queues would take turns for ever in evicting each other, each within its share as it counts
# beforehand, and beyond it with what it then gets.


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
