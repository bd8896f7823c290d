"""Cards of a forecast: GPUs that pods share, counted anew from the pods on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kaisched.core.axis import GPU, RowVec
from kaisched.core.devices import CARD, CardTable
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import HOLDING_STATES, TaskState


class SharedCards:
    """The slots of the pods that have parts of GPUs."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Take those of a snapshot."""
        self._base = snapshot
        table = snapshot.nodes.cards
        self._slots = dict(table.slots_of_task) if table is not None else {}

    def choose(self, slots: Mapping[int, tuple[int, ...]]) -> None:
        """Note the slots that a cycle has chosen for pods."""
        self._slots.update(slots)

    def table(self, state: NDArray[np.int8], node: RowVec) -> CardTable | None:
        """Return the cards as the pods on them make them; None while no pod shares."""
        base = self._base.nodes.cards
        if base is None:
            return None
        holds = HOLDING_STATES[state] & (node >= 0)
        self._slots = {task: slots for task, slots in self._slots.items() if holds[task]}
        width = max((max(slots) + 1 for slots in self._slots.values()), default=0)
        shape = (len(base.cards), max(width, base.used.shape[1]))
        used, leaving, tasks = (np.zeros(shape, np.int64) for _ in range(3))
        milli, milli_leaving = (np.zeros(len(base.cards), np.int64) for _ in range(2))
        shapes, shape_of_task = self._base.shapes, self._base.tasks.shape_of_task
        for task, slots in self._slots.items():
            at, row = int(node[task]), int(shape_of_task[task])
            demand = shapes.constraints[row].devices
            assert demand is not None
            is_leaving = bool(state[task] == TaskState.RELEASING)
            take, amount = demand.take(int(base.size[at]) // CARD), int(shapes.request[GPU, row])
            milli[at] += amount
            milli_leaving[at] += amount * is_leaving
            for slot in slots:
                used[at, slot] += take
                leaving[at, slot] += take * is_leaving
                tasks[at, slot] += 1
        groups = base.group_of_slot.items()
        return replace(
            base,
            used=used,
            leaving=leaving,
            tasks=tasks,
            slots_of_task=dict(self._slots),
            group_of_slot={place: group for place, group in groups if tasks[place]},
            milli=milli,
            milli_leaving=milli_leaving,
        )
