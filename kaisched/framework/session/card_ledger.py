"""The ledger of a cycle where pods ask for memory, and cards of nodes differ in size.

Queues hold what a pod counts on the card of its node (rule V2). The ledger counts every shape alike
by the smallest card; this one takes off what is too much as soon as a pod has a node, and adds it
again when it has none. All of it is whole numbers, so undoing a move restores the amounts exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import GPU
from kaisched.core.charges import card_mib
from kaisched.core.states import ACTIVE_STATES
from kaisched.framework.session.ledger import Ledger

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts, RowVec
    from kaisched.core.memory_charges import MemoryCharges
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity


def ledger_of(
    snapshot: Snapshot, held: Amounts, held_non_preemptible: Amounts, capacity: Capacity
) -> Ledger:
    """Return the ledger of a cycle; pods count by cards only where these make a difference."""
    by_card = snapshot.shapes.by_card
    if by_card is None:
        return Ledger(snapshot, held, held_non_preemptible, capacity)
    return _CardLedger(snapshot, held, held_non_preemptible, capacity, by_card)


class _CardLedger(Ledger):
    __slots__ = ("_by_card", "_card_mib")

    def __init__(
        self,
        snapshot: Snapshot,
        held: Amounts,
        held_non_preemptible: Amounts,
        capacity: Capacity,
        by_card: MemoryCharges,
    ) -> None:
        super().__init__(snapshot, held, held_non_preemptible, capacity)
        self._by_card = by_card
        self._card_mib = card_mib(snapshot.nodes, np.arange(len(snapshot.nodes)))

    def set_state(self, task: int, state: int, node: int) -> tuple[int, int]:
        old_state, old_node = super().set_state(task, state, node)
        self._save_one(task, old_state, old_node, -1)
        self._save_one(task, state, node, 1)
        return old_state, old_node

    def place_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        super().place_pending(tasks, nodes, shape)
        self._save(tasks, nodes, 1)

    def count_placed(self, tasks: RowVec, nodes: RowVec, sign: int) -> None:
        super().count_placed(tasks, nodes, sign)
        self._save(tasks, nodes, sign)

    def take_back_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        super().take_back_pending(tasks, nodes, shape)
        self._save(tasks, nodes, -1)

    def promise_pending(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        super().promise_pending(tasks, nodes, shape)
        self._save(tasks, nodes, 1)

    def take_back_promised(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        super().take_back_promised(tasks, nodes, shape)
        self._save(tasks, nodes, -1)

    def release_all(self, tasks: RowVec, sign: int) -> None:
        super().release_all(tasks, sign)
        self._save(tasks, self.node_of_task[tasks], -sign)

    def relocate(self, task: int, node: int) -> int:
        old = super().relocate(task, node)
        self._save(np.array([task]), np.array([node]), 1)
        return old

    def take_back_relocated(self, task: int, old_node: int) -> None:
        self._save(np.array([task]), self.node_of_task[[task]], -1)
        super().take_back_relocated(task, old_node)

    def _save_one(self, task: int, state: int, node: int, sign: int) -> None:
        if ACTIVE_STATES[state] and node >= 0:
            self._save(np.array([task]), np.array([node]), sign)

    def _save(self, tasks: RowVec, nodes: RowVec, sign: int) -> None:
        """Take off what tasks on nodes count less than by the smallest card; with -1, add it."""
        saved = self._by_card.saved(self._shape_of_task[tasks], self._card_mib[nodes]) * sign
        for at in np.flatnonzero(saved).tolist():
            job = int(self.job_of_task[tasks[at]])
            queue = int(self._queue_of_job[job]) if job >= 0 else -1
            if queue < 0:
                continue
            path = self._tree.path(queue)
            self.held[GPU, path] -= saved[at]
            if not self._is_preemptible[job]:
                self.held_non_preemptible[GPU, path] -= saved[at]
