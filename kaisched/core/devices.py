"""What a pod asks of GPUs that an amount of a resource cannot say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.core.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import Amounts, BoolVec, IntVec

CARD: Final = 1_000_000
"""Millionths: a fraction of a card is a whole number of them."""
THOUSANDTH: Final = CARD // 1000


class DeviceDemand(NamedTuple):
    """A pod's demand on GPUs besides whole GPUs and MIG instances, which are resources."""

    fraction: int = 0
    """Millionths of each card, rounded up; 0 for a pod that asks for memory, or for no share."""
    memory_mib: int = 0
    """MiB of each card; 0 for a pod that asks for a fraction, or for no share."""
    cards: int = 1
    """Different cards of one node that the pod has a share of."""
    is_reservation: bool = False
    """The pod holds a card for the pods of its group, and no part of the card."""
    legacy_slices: int = 0
    """MIG slices that a running pod has taken by annotation, unseen by the device plugin."""

    @property
    def is_share(self) -> bool:
        """Whether the pod asks for a part of a card."""
        return bool(self.fraction or self.memory_mib)

    @property
    def has_cards(self) -> bool:
        """Whether the pod is on open cards."""
        return self.is_share or self.is_reservation

    def take(self, card_mib: int) -> int:
        """Return what it takes of a card of so many MiB, in millionths of a MiB (rule V6)."""
        return self.fraction * card_mib or self.memory_mib * CARD

    def least_milli(self, largest_mib: int) -> int:
        """Return the thousandths of a GPU that it counts in the amounts of its node, rounded down.

        ``largest_mib`` is the size of the largest card, so that amounts never refuse what a card
        has room for.
        """
        part = self.fraction
        if self.memory_mib and largest_mib:
            part = min(self.memory_mib * CARD // largest_mib, CARD)
        return max(part // THOUSANDTH, 1) * self.cards if self.is_share else 0

    def milli_gpus(self, card_mib: int) -> int:
        """Return the thousandths of a GPU that it counts in its queue (rule V2).

        ``card_mib`` is the size of a card; 0, when no size is known, counts memory as nothing.
        """
        part = self.fraction
        if self.memory_mib:
            part = min(self.memory_mib * CARD // card_mib, CARD) if card_mib else 0
            if not part:
                return 0
        return max((part + THOUSANDTH // 2) // THOUSANDTH, 1) * self.cards if part else 0


class ShareSpread(NamedTuple):
    """Over what shares are spread; else they are packed (rule V8)."""

    nodes: bool = False
    """Scores alone choose the node; else a node with an open card that fits comes first."""
    cards: bool = False
    """On its node a share opens a card if it can; else an open card that fits comes first."""


class PromisedCards(NamedTuple):
    """The cards of a promise, on the node that is promised."""

    opened: tuple[int, ...] = ()
    """Slots of cards that are open and stay so."""
    later: tuple[int, ...] = ()
    """Numbers of cards that will be whole: promises with the same number share a card."""


@record
class CardTable:
    """The open cards: GPUs that pods share. Columns ``(N,)`` or ``(N, G)``, by node and slot.

    A slot is a name for a card, not the index of hardware; closed slots hold no task.
    """

    cards: IntVec
    """``(N,)`` GPUs of each node that pods may share."""
    size: IntVec
    """``(N,)`` millionths of a MiB of each card; of a MiB in all where its memory is unknown."""
    used: Amounts
    """``(N, G)`` what tasks hold of each card, leaving tasks included."""
    leaving: Amounts
    """``(N, G)`` the part of it that leaving tasks will release."""
    tasks: Amounts
    """``(N, G)`` how many tasks hold a part of each card."""
    slots_of_task: Mapping[int, tuple[int, ...]]
    """The slots of each task that holds a share, on its node."""
    group_of_slot: Mapping[tuple[int, int], str]
    """The group of each open card, by node row and slot."""
    milli: IntVec
    """``(N,)`` thousandths of GPUs that tasks with shares take in the amounts of their node."""
    milli_leaving: IntVec
    """``(N,)`` the part of it that is leaving."""
    is_closed: BoolVec
    """``(N, G)`` cards that take no more shares: nothing holds them, or not for long."""
    is_blind: BoolVec
    """``(N,)`` nodes with a GPU in use that nothing holds: whole GPUs are given out by the device
    plugin, which may give this one."""
    is_reserved: BoolVec
    """``(N, G)`` cards that a reservation pod holds or is about to: it leaves once nothing uses its
    card."""
    awaited: IntVec
    """``(N,)`` how many reservation pods are about to be there: each will take a pod slot."""


def changed_cards(old: CardTable | None, new: CardTable | None) -> BoolVec | slice:
    """Return the rows of the nodes whose cards differ; all of them without one of the tables."""
    if old is None or new is None or old.used.shape != new.used.shape:
        return slice(None)
    changed: BoolVec = (old.cards != new.cards) | (old.size != new.size)
    changed |= old.is_blind != new.is_blind
    for name in ("used", "leaving", "tasks", "is_closed", "is_reserved"):
        changed |= (getattr(old, name) != getattr(new, name)).any(axis=1)
    for name in ("milli", "milli_leaving", "awaited"):
        changed |= getattr(old, name) != getattr(new, name)
    return changed


def with_nodes_like(table: CardTable, like: int, milli_gpus: int, count: int) -> CardTable:
    """Return the table with more empty nodes, whose cards are like those of a node."""
    cards = milli_gpus // 1000 if table.cards[like] else 0
    wide, pair = ((0, count), (0, 0)), (0, count)
    return replace(
        table,
        cards=np.append(table.cards, [cards] * count),
        size=np.append(table.size, [table.size[like]] * count),
        used=np.pad(table.used, wide),
        leaving=np.pad(table.leaving, wide),
        tasks=np.pad(table.tasks, wide),
        milli=np.pad(table.milli, pair),
        milli_leaving=np.pad(table.milli_leaving, pair),
        is_closed=np.pad(table.is_closed, wide),
        is_blind=np.pad(table.is_blind, pair),
        is_reserved=np.pad(table.is_reserved, wide),
        awaited=np.pad(table.awaited, pair),
    )
