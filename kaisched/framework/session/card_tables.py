"""The cards of nodes if tasks held others than they do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.framework.session.cards import Cards

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.devices import CardTable
    from kaisched.core.snapshot import Snapshot


def table_of(snapshot: Snapshot, slots: Mapping[int, tuple[int, ...]]) -> CardTable | None:
    """Return the cards of a snapshot's nodes if tasks hold these slots; None if no pod shares."""
    table, tasks = snapshot.nodes.cards, snapshot.tasks
    if table is None:
        return None
    names = ("used", "leaving", "tasks", "milli", "milli_leaving")
    empty: dict[str, Any] = {name: np.zeros_like(getattr(table, name)) for name in names}
    cards = Cards(
        replace(table, slots_of_task=slots, **empty),
        snapshot.shapes.constraints,
        snapshot.shapes.request,
    )
    for task in slots:
        node, shape = int(tasks.node_of_task[task]), int(tasks.shape_of_task[task])
        cards.take(task, node, shape, int(tasks.state[task]))
    return cards.frozen()
