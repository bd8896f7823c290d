"""The cards that tasks got in a cycle, to give them again: a move is made again, or undone.

To choose again would not do: cards change with every move, so another choice might be made, and for
the last task of a gang there might be none.
"""

from __future__ import annotations

from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kaisched.core.devices import PromisedCards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.core.axis import Amounts


class Given(NamedTuple):
    """The cards of tasks: slots where they are placed, and what they were promised."""

    chosen: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    promised: Mapping[int, PromisedCards] = MappingProxyType({})


def as_promises(
    placed: Iterable[tuple[int, int]], given: Given, tasks: Amounts, next_tasks: Amounts
) -> Given:
    """Return promises of the cards on which tasks were placed, once their moves are undone.

    Args:
        placed: (task, node) in the order of the moves.
        given: their cards.
        tasks: ``(N, G)`` how many pods hold a part of each card now; 0 for a closed slot.
        next_tasks: ``(N, G)`` how many were promised each card that will be whole.

    """
    promised, placed = dict(given.promised), list(placed)
    taken = {
        (node, number)
        for task, node in placed
        if task in promised
        for number in promised[task].later
    }
    numbers: dict[tuple[int, int], int] = {}
    for task, node in placed:
        before = promised.get(task, PromisedCards(given.chosen.get(task, ())))
        if not (before.opened or before.later):
            continue
        row, next_row = tasks[node], next_tasks[node]
        opened = tuple(slot for slot in before.opened if slot < len(row) and row[slot])
        later = list(before.later)
        for slot in before.opened:
            if slot in opened:
                continue
            if (node, slot) not in numbers:  # it was opened by one of the moves
                free = (it for it in count() if it >= len(next_row) or not next_row[it])
                numbers[node, slot] = next(it for it in free if (node, it) not in taken)
                taken.add((node, numbers[node, slot]))
            later.append(numbers[node, slot])
        promised[task] = PromisedCards(opened, tuple(later))
    return Given({}, promised)
