"""What the cards of nodes lack for a pod: a part of a GPU, or whole GPUs beside shared ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.core.devices import CARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.core.devices import DeviceDemand
    from kaisched.framework.session.cards import Cards
    from kaisched.framework.session.session import Session

OPENING: Final = (
    "pods short by at least {}: a card that is opened needs one for its reservation pod"
)
TOGETHER: Final = "gpu: no card has so much left beside the others"
TOGETHER_OR_SLOTS: Final = f"{TOGETHER}, or no pod slot for a reservation pod"


def card_refusals(
    session: Session, shape: int, short: BoolVec, *, as_empty: bool
) -> Iterator[tuple[str, BoolVec]]:
    """Yield texts, each with the nodes ``(N,)`` of ``short`` that it holds for.

    ``as_empty`` asks only what the nodes would lack without any pod.
    """
    cards = session.capacity.cards
    if cards is None or not cards.counts_for(shape):
        return
    left = short.copy()
    demand = cards.demand_of(shape)
    if demand is not None:
        for text, lacking in _never(cards, shape, demand, left):
            yield text, lacking
            left &= ~lacking
    if as_empty or not left.any():
        return
    rows = left.nonzero()[0]
    room = cards.room_now(shape, rows, by_slots=False)
    is_open = cards.left_now(rows) >= 0
    rows, is_open = rows[keep := (room == 0) & is_open.any(axis=1)], is_open[keep]
    if not rows.size:
        return
    whole = cards.whole(rows)[0]
    if demand is None:
        asked = int(session.shapes.request[GPU, shape]) // GPU_UNIT
        yield _whole_text(session, rows, asked, whole), _mask(left, rows)
        return
    waits = whole >= demand.cards
    if waits.any():
        yield "gpu: a card is being vacated for such pods", _mask(left, rows[waits])
    rows, is_open, whole = rows[~waits], is_open[~waits], whole[~waits]
    if rows.size:
        yield _part_text(session, rows, is_open, whole, demand), _mask(left, rows)


def slot_refusals(session: Session, shape: int, short: BoolVec) -> Iterator[tuple[str, BoolVec]]:
    """Yield texts as above, for nodes that lack only pod slots for the cards that are opened."""
    cards = session.capacity.cards
    demand = None if cards is None else cards.demand_of(shape)
    if cards is None or demand is None or not short.any():
        return
    rows = short.nonzero()[0]
    idle, request = session.capacity.idle[:, rows], session.shapes.request[:, [shape]]
    slots = cards.slots_now(rows)
    keep: BoolVec = (idle >= request).all(axis=0) & (slots > 0)
    keep &= cards.room_now(shape, rows, by_slots=False) > 0
    keep &= cards.room_now(shape, rows) == 0
    rows, slots = rows[keep], slots[keep]
    if rows.size:
        sizes = (cards.table.size[rows] // CARD).tolist()
        takes = np.array([demand.take(it) for it in sizes])[:, None]
        opened = demand.cards - np.count_nonzero(cards.left_now(rows) >= takes, axis=1)
        lack = int((1 + opened - slots).min())
        yield OPENING.format(lack), _mask(short, rows)


def _never(
    cards: Cards, shape: int, demand: DeviceDemand, left: BoolVec
) -> Iterator[tuple[str, BoolVec]]:
    """Yield what the cards of nodes lack even if nothing is on them."""
    table, rows = cards.table, np.arange(len(left))
    apart: BoolVec = left & (table.cards == 0)
    if apart.any():
        yield "gpu: no GPU of which pods may have parts", apart
    small: BoolVec = left & ~apart & (cards.of_new_card(shape, rows) == 0)
    # A size that nobody knows stands in the table as one MiB.
    unknown: BoolVec = small & (table.size == CARD)
    if unknown.any():
        yield "gpu: how much memory a card has is not known there", unknown
        small &= ~unknown
    left = left & ~unknown
    if small.any():
        yield f"gpu: cards have at most {int(table.size[small].max()) // CARD} MiB", small
    few: BoolVec = left & ~apart & ~small & (table.cards < demand.cards)
    if few.any():
        yield f"gpu: at most {_count(int(table.cards[few].max()), 'card')}", few


def _whole_text(session: Session, rows: RowVec, asked: int, whole: IntVec) -> str:
    if len(rows) == 1:
        has = _count(max(int(whole[0]), 0), "whole GPU")
        return f"gpu: {has} left on node {session.nodes.name[rows[0]]}"
    return f"gpu short by at least {_count(asked - max(int(whole.max()), 0), 'whole GPU')}"


def _part_text(
    session: Session, rows: RowVec, is_open: BoolVec, whole: IntVec, demand: DeviceDemand
) -> str:
    cards = session.capacity.cards
    assert cards is not None
    left, size = cards.left_now(rows), cards.table.size[rows]
    if demand.cards > 1:
        fits = left >= np.array([demand.take(int(it) // CARD) for it in size])[:, None]
        most = int(((fits & is_open).sum(axis=1) + np.maximum(whole, 0)).max())
        return f"gpu: {_count(most, 'card')} with so much left, {demand.cards} asked"
    # A node's cards are equal, so the most is that of the fullest in both units.
    each = left.max(axis=1)
    free = _part(each, size) if demand.fraction else f"{int(each.max()) // CARD} MiB"
    if len(rows) > 1:
        return f"gpu: no card has more than {free} free"
    slots = is_open[0].nonzero()[0].tolist()
    name = session.nodes.name[rows[0]]
    if len(slots) == 1:
        return f"gpu: card {slots[0]} of node {name} has {free} free"
    return f"gpu: cards {_slots(slots)} of node {name} have at most {free} free"


def _part(left: IntVec, size: IntVec) -> str:
    """Return the largest free part of a card, rounded down."""
    parts = [each * CARD // whole for each, whole in zip(left.tolist(), size.tolist(), strict=True)]
    return f"{max(parts) / CARD:.6f}".rstrip("0").rstrip(".")


def _slots(slots: list[int]) -> str:
    first, last = slots[0], slots[-1]
    if len(slots) > 2 and last - first + 1 == len(slots):  # noqa: PLR2004 - a range is of three
        return f"{first} to {last}"
    return ", ".join(map(str, slots[:-1])) + f" and {last}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _mask(like: BoolVec, rows: RowVec) -> BoolVec:
    mask = np.zeros_like(like)
    mask[rows] = True
    return mask
