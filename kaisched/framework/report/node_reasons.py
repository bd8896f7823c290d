"""Counts, by reason, the nodes that cannot take a pod of a shape: what they lack, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import GPU, GPU_UNIT, PODS
from kaisched.core.claims.model import ALL
from kaisched.core.devices import CARD
from kaisched.core.refusals import TEXTS, Refusal, freeable_codes, text_of
from kaisched.framework.report.records import NodeRefusal
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.axis import Amounts, BoolVec, IntVec, RowVec
    from kaisched.core.claims.model import Ask, Claim
    from kaisched.core.constraints import ClaimUse
    from kaisched.core.devices import DeviceDemand
    from kaisched.framework.session.cards import Cards
    from kaisched.framework.session.session import Session

OPENING: Final = (
    "pods short by at least {}: a card that is opened needs one for its reservation pod"
)
TOGETHER: Final = "gpu: no card has so much left beside the others"
TOGETHER_OR_SLOTS: Final = f"{TOGETHER}, or no pod slot for a reservation pod"


def node_refusals_of(
    session: Session, shape: int, idle: Amounts | None = None
) -> tuple[NodeRefusal, ...]:
    """Return why nodes cannot take a pod of a shape, the reason of most nodes first.

    If no node could ever take such a pod, nodes are measured as if they were empty, since other
    pods make no difference. Otherwise they are measured by ``idle``, by default what is idle now.
    """
    plan, room, _, _ = session.placement.free_capacity(shape)
    nodes = session.placement.nodes
    allowed = np.ones(len(session.nodes), np.bool_) if plan.codes is None else plan.codes == 0
    refused: list[NodeRefusal] = []
    if plan.codes is not None:
        refuses = ~allowed if nodes is None else ~allowed & nodes.nodes
        codes, counts = np.unique(plan.codes[refuses], return_counts=True)
        for out, count in zip(codes.tolist(), counts.tolist(), strict=True):
            if out == Refusal.DEVICES:
                refused += _of_claims(session, shape, refuses & (plan.codes == out))
                continue
            told = session.ask.node_reason(session, shape, out)
            sentence = text_of(out).sentence + (f" ({told})" if told else "")
            refused.append(NodeRefusal(text_of(out).name, count, sentence))
    short = allowed & (room == 0) if idle is None else allowed
    as_empty = never_fits(session, shape) is Refusal.EXCEEDS_ANY_NODE
    if as_empty or idle is None:
        refused += _of_cards(session, shape, short, as_empty=as_empty)
        idle = session.nodes.allocatable if as_empty else session.capacity.idle
    refused.extend(_shortages(session, shape, idle, short))
    refused.sort(key=lambda each: (-each.nodes, each.reason, each.detail))
    return tuple(refused)


def never_fits(session: Session, shape: int) -> Refusal | None:
    """Return why no node could take a pod of a shape even if it were empty; None if a node could.

    A shape is asked about in every cycle while a job of the shape waits.
    """
    request, allocatable = session.shapes.request[:, shape], session.nodes.allocatable
    if not len(session.nodes):
        return Refusal.NO_NODE_ALLOWED
    large: BoolVec = np.all(request[:, None] <= allocatable, axis=0)
    if session.capacity.cards is not None:
        large &= session.capacity.cards.could_take(shape)
    if not large.any():
        return Refusal.EXCEEDS_ANY_NODE
    codes = session.placement.plan(shape).codes
    if codes is None:
        return None
    # Constraints of running pods may be lifted later.
    may: BoolVec = np.isin(codes, [Refusal.NONE, *freeable_codes()])
    if not may.any():
        return Refusal.NO_NODE_ALLOWED
    return None if large[may].any() else Refusal.EXCEEDS_ANY_NODE


def _of_cards(
    session: Session, shape: int, short: BoolVec, *, as_empty: bool
) -> Iterator[NodeRefusal]:
    """Count nodes by what their cards lack, and take these nodes out of ``short``."""
    by_slots = () if as_empty else slot_refusals(session, shape, short)
    by_cards = card_refusals(session, shape, short, as_empty=as_empty)
    for reason, refusals in ((Refusal.POD_SLOTS, by_slots), (Refusal.RESOURCES, by_cards)):
        for text, lacking in refusals:
            yield _refusal(reason, lacking, text)
            short &= ~lacking


def _refusal(reason: Refusal, lacking: BoolVec, detail: str) -> NodeRefusal:
    return NodeRefusal(TEXTS[reason].name, int(np.count_nonzero(lacking)), detail)


def _of_claims(session: Session, shape: int, short: BoolVec) -> Iterator[NodeRefusal]:
    """Count nodes by what their devices lack."""
    left = short.copy()
    for detail, lacking in claim_refusals(session, shape, short):
        yield _refusal(Refusal.DEVICES, lacking, detail)
        left &= ~lacking
    if left.any():
        yield _refusal(Refusal.DEVICES, left, TEXTS[Refusal.DEVICES].sentence)


def _shortages(session: Session, shape: int, idle: Amounts, short: BoolVec) -> list[NodeRefusal]:
    """Count nodes by the first resource they lack; plugins' bounds refuse the other nodes.

    With shared cards these may be all that nodes lack, if other pods of a batch get parts of them.
    """
    refused: list[NodeRefusal] = []
    request, left = session.shapes.request[:, shape], short.copy()
    for resource in _by_scarcity(request):
        lacking = left & (idle[resource] < request[resource])
        if not lacking.any():
            continue
        name = session.axis.names[resource]
        gap = int((request[resource] - idle[resource][lacking]).min())
        reason = Refusal.POD_SLOTS if resource == PODS else Refusal.RESOURCES
        detail = f"{name} short by at least {format_amount(name, gap)}"
        refused.append(_refusal(reason, lacking, detail))
        left &= ~lacking
    cards = session.capacity.cards
    of_cards = cards is not None and cards.counts_for(shape)
    if cards is not None and of_cards and session.placement.plan(shape).cap is None:
        # The others may have opened as many cards as the node has.
        opens = cards.demand_of(shape) is not None
        few: BoolVec = left & opens & (idle[PODS] <= cards.table.cards)
        for detail, some in ((TOGETHER_OR_SLOTS, few), (TOGETHER, left & ~few)):
            if some.any():
                refused.append(_refusal(Refusal.RESOURCES, some, detail))
        return refused
    if left.any():
        refused.append(_refusal(Refusal.HOST_PORT, left, "host port or anti-affinity"))
    return refused


def _by_scarcity(request: Amounts) -> list[int]:
    """Return the resources asked for, GPUs and extended ones before CPU, memory and pod slots."""
    asked = np.flatnonzero(request > 0).tolist()
    return sorted(asked, key=lambda resource: (resource in (0, 1, PODS), resource))


# -- cards: a part of a GPU, or whole GPUs beside shared ones -------------------------------------


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


# -- devices of claims ---------------------------------------------------------------------------


def claim_refusals(session: Session, shape: int, short: BoolVec) -> Iterator[tuple[str, BoolVec]]:
    """Yield texts, each with the nodes ``(N,)`` of ``short`` that it holds for."""
    devices = session.devices
    if devices is None or not short.any():
        return
    claims = devices.open_claims(shape)
    if not claims:
        return
    rows = short.nonzero()[0]
    found = devices.numbers(shape, rows.tolist())
    if found is None:
        yield _in_general(claims), short
        return
    ask, every, free = found
    of_class, whom = f"of class {ask.class_name}", _for(ask, claims[0][0])
    few = (every > 0) & (every < ask.count)
    # Where more is free the pods of a shared claim are to go elsewhere, together.
    taken = (every >= ask.count) & (free < ask.count)
    if (none := every == 0).any():
        yield f"no device {of_class} suits {whom}", _mask(short, rows[none])
    for what, numbers, where in (
        ("too few devices suit its claims", every, few),
        (TEXTS[Refusal.DEVICES].sentence, free, taken),
    ):
        if where.any():
            has = _at_most(numbers[where], session.nodes.name, rows[where])
            text = f"{what}: {has} {of_class} for {whom}, {ask.count} asked"
            yield text, _mask(short, rows[where])


def _at_most(numbers: IntVec, names: Sequence[str], rows: RowVec) -> str:
    most = int(numbers.max())
    if len(rows) == 1:
        return f"node {names[rows[0]]} has {most or 'none'}"
    return f"at most {most}" if most else "none"


def _for(ask: Ask, use: ClaimUse) -> str:
    whose = f" of claim {use.key.partition('/')[2]}" if use.key else ""
    return f"request {ask.name}{whose}"


def _in_general(claims: Sequence[tuple[ClaimUse, Claim]]) -> str:
    """Say what claims ask for that are more than one plain request."""
    texts = []
    for _, claim in claims:
        texts += [" or ".join(map(_asked, it.options)) for it in claim.requests]
        texts += [
            f"{'different' if it.is_distinct else 'the same'} {it.attribute}"
            for it in claim.constraints
        ]
    return f"{TEXTS[Refusal.DEVICES].sentence}: {', '.join(texts)}"


def _asked(ask: Ask) -> str:
    number = "all" if ask.count == ALL else str(ask.count)
    return f"{number} of {ask.class_name}" + (" that match" if ask.selectors else "")
