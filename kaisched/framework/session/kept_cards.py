"""Keeps the cards of pods whose places become promises: what had room for all still has it.

Chosen anew, a pod may get other cards: those being released have more left, and where shares are
spread one opens a card that another of its gang has been promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaisched.core.devices import PromisedCards

if TYPE_CHECKING:
    from collections.abc import Iterable


class Giving(Protocol):
    """The cards of a cycle, as far as they answer which card is whose."""

    promised: dict[int, PromisedCards]

    def slots_of(self, task: int) -> tuple[int, ...]:
        """Return the slots of a task that was placed in this cycle."""
        ...

    def is_open(self, node: int, slot: int) -> bool:
        """Tell whether pods hold a part of a card now."""
        ...

    def number_of_new(self, node: int, taken: set[int]) -> int:
        """Return the lowest number that no promised card of a node has, nor is in ``taken``."""
        ...


class _Held(NamedTuple):
    task: int
    node: int
    cards: PromisedCards


class KeptCards(NamedTuple):
    """Cards that tasks get again, by task."""

    chosen: dict[int, tuple[int, ...]]
    promised: dict[int, PromisedCards]


def cards_of(cards: Giving, places: Iterable[tuple[int, int]]) -> list[_Held]:
    """Return the cards that tasks have been given on their nodes, in the order of ``places``."""
    return [
        _Held(task, node, cards.promised.get(task) or PromisedCards(cards.slots_of(task)))
        for task, node in places
    ]


def as_promises(cards: Giving, held: list[_Held]) -> KeptCards:
    """Return what to promise tasks that have been taken off their cards.

    A card that one of them had opened is closed by now: it is one that will be whole, the same for
    all of them.
    """
    taken: dict[int, set[int]] = {}
    for _, node, before in held:
        taken.setdefault(node, set()).update(before.later)
    numbers: dict[tuple[int, int], int] = {}
    promised: dict[int, PromisedCards] = {}
    for task, node, before in held:
        opened = tuple(slot for slot in before.opened if cards.is_open(node, slot))
        for slot in before.opened:
            if slot not in opened and (node, slot) not in numbers:
                number = numbers[node, slot] = cards.number_of_new(node, taken[node])
                taken[node].add(number)
        later = (numbers[node, slot] for slot in before.opened if slot not in opened)
        if opened or before.opened or before.later:
            promised[task] = PromisedCards(opened, (*before.later, *later))
    return KeptCards({}, promised)
