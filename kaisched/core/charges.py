"""What tasks count in their queues once it is known on whose cards they are (rule V2).

Until a pod that asks for memory of a GPU has a node, it counts by the smallest card of the cluster.
On a node it counts by the card of that node, which is never more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from kaisched.core.axis import GPU
from kaisched.core.devices import CARD

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, IntVec, RowVec
    from kaisched.core.tables import NodeTable, ShapeTable, TaskTable


class Placed(Protocol):
    """What says where tasks are: a snapshot or a session."""

    @property
    def nodes(self) -> NodeTable:
        """Nodes by row."""
        ...

    @property
    def tasks(self) -> TaskTable:
        """Tasks by row, as the cycle began."""
        ...

    @property
    def shapes(self) -> ShapeTable:
        """Shapes by row."""
        ...


def charges(world: Placed, tasks: RowVec | list[int], nodes: RowVec | None = None) -> Amounts:
    """``(R, K)`` what tasks count in their queues, where they are or on other ``nodes``."""
    tasks = np.asarray(tasks, np.int64)
    shape = world.tasks.shape_of_task.take(tasks)
    each: Amounts = world.shapes.charge.take(shape, axis=1)
    by_card = world.shapes.by_card
    if by_card is not None:
        nodes = world.tasks.node_of_task.take(tasks) if nodes is None else nodes
        each[GPU] -= by_card.saved(shape, card_mib(world.nodes, nodes))
    return each


def gpus_of(world: Placed, tasks: list[int]) -> int:
    """Return the thousandths of GPUs that tasks count where they are."""
    if world.shapes.by_card is not None:
        return int(charges(world, tasks)[GPU].sum())
    return int(world.shapes.charge[GPU].take(world.tasks.shape_of_task[tasks]).sum())


def card_mib(table: NodeTable, nodes: RowVec) -> IntVec:
    """``(K,)`` MiB of each card of nodes; 0 for no node."""
    if table.cards is None:
        return np.zeros(len(nodes), np.int64)
    size: IntVec = np.append(table.cards.size, 0)[nodes] // CARD
    return size


def least_charges(shapes: ShapeTable) -> Amounts:
    """``(R, S)`` the least that shapes count on any node: on the largest card of the cluster."""
    if shapes.by_card is None:
        return shapes.charge
    least = shapes.charge.copy()
    every = np.arange(least.shape[1])
    least[GPU] -= shapes.by_card.saved(every, shapes.by_card.most_mib)
    return least
