"""Figures of shared GPUs, read from the nodes of the last cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from kaisched.core.tables import NodeTable

CARD_CAP: Final = 2000
"""So many shared GPUs have a series of their own."""


def shared(nodes: NodeTable | None) -> int:
    """Return how many GPUs pods share."""
    table = None if nodes is None else nodes.cards
    return 0 if table is None else int(np.count_nonzero(table.tasks))


def unheld(nodes: NodeTable | None) -> int:
    """Return how many GPUs are in use that no reservation pod holds."""
    table = None if nodes is None else nodes.cards
    return 0 if table is None else int(np.count_nonzero(table.is_closed & (table.used > 0)))


def used(nodes: NodeTable | None) -> dict[tuple[str, str], float]:
    """Return the part of each shared GPU that pods hold, by node and number of the card."""
    table = None if nodes is None else nodes.cards
    if nodes is None or table is None:
        return {}
    return {
        (nodes.name[node], str(slot)): float(table.used[node, slot] / table.size[node])
        for node, slot in np.argwhere(table.tasks > 0)[:CARD_CAP].tolist()
    }
