"""Counts, by reason, the nodes that cannot take a pod of a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.axis import PODS
from kaisched.core.refusals import TEXTS, Refusal, freeable_codes, text_of
from kaisched.framework.report.card_refusals import (
    TOGETHER,
    TOGETHER_OR_SLOTS,
    card_refusals,
    slot_refusals,
)
from kaisched.framework.report.claim_refusals import claim_refusals
from kaisched.framework.report.records import NodeRefusal
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import Amounts, BoolVec
    from kaisched.framework.session.session import Session


def node_refusals_of(
    session: Session, shape: int, code: int, idle: Amounts | None = None
) -> tuple[int, tuple[NodeRefusal, ...]]:
    """Return the dominant reason for a shape without room, and the nodes' reasons, most first.

    ``code`` is the reason unless no node could ever take such a pod. Nodes are then measured as if
    they were empty, since other pods make no difference. Otherwise they are measured by ``idle``,
    by default what is idle now.
    """
    plan, room, _, _ = session.placement.vacancy(shape)
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
            text = text_of(out)
            refused.append(NodeRefusal(text.name, count, text.sentence))
    never = never_fits(session, shape)
    short = allowed & (room == 0) if idle is None else allowed
    as_empty = never is Refusal.EXCEEDS_ANY_NODE
    if as_empty or idle is None:
        refused += _of_cards(session, shape, short, as_empty=as_empty)
        idle = session.nodes.allocatable if as_empty else session.capacity.idle
    refused.extend(_shortages(session, shape, idle, short))
    refused.sort(key=lambda each: (-each.nodes, each.reason, each.detail))
    return never or code, tuple(refused)


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
            yield NodeRefusal(TEXTS[reason].name, int(np.count_nonzero(lacking)), text)
            short &= ~lacking


def _of_claims(session: Session, shape: int, short: BoolVec) -> Iterator[NodeRefusal]:
    """Count nodes by what their devices lack."""
    text, left = TEXTS[Refusal.DEVICES], short.copy()
    for detail, lacking in claim_refusals(session, shape, short):
        yield NodeRefusal(text.name, int(np.count_nonzero(lacking)), detail)
        left &= ~lacking
    if left.any():
        yield NodeRefusal(text.name, int(np.count_nonzero(left)), text.sentence)


def _shortages(session: Session, shape: int, idle: Amounts, short: BoolVec) -> list[NodeRefusal]:
    """Count nodes by the first resource they lack; plugins' bounds refuse the other nodes.

    With shared cards these may be all that nodes lack, if other pods of a batch get parts of them.
    """
    refused: list[NodeRefusal] = []
    request, left = session.shapes.request[:, shape], short.copy()
    for resource in _by_scarcity(request):
        lacking = left & (idle[resource] < request[resource])
        count = int(np.count_nonzero(lacking))
        if not count:
            continue
        name = session.axis.names[resource]
        gap = int((request[resource] - idle[resource][lacking]).min())
        reason = Refusal.POD_SLOTS if resource == PODS else Refusal.RESOURCES
        detail = f"{name} short by at least {format_amount(name, gap)}"
        refused.append(NodeRefusal(TEXTS[reason].name, count, detail))
        left &= ~lacking
    cards = session.capacity.cards
    of_cards = cards is not None and cards.counts_for(shape)
    if cards is not None and of_cards and session.placement.plan(shape).cap is None:
        # The others may have opened as many cards as the node has.
        opens = cards.demand_of(shape) is not None
        few: BoolVec = left & opens & (idle[PODS] <= cards.table.cards)
        for detail, some in ((TOGETHER_OR_SLOTS, few), (TOGETHER, left & ~few)):
            if some.any():
                count = int(np.count_nonzero(some))
                refused.append(NodeRefusal(TEXTS[Refusal.RESOURCES].name, count, detail))
        return refused
    if left.any():
        text = TEXTS[Refusal.HOST_PORT]
        refused.append(
            NodeRefusal(text.name, int(np.count_nonzero(left)), "host port or anti-affinity")
        )
    return refused


def _by_scarcity(request: Amounts) -> list[int]:
    """Return the resources asked for, GPUs and extended ones before CPU, memory and pod slots."""
    asked = np.flatnonzero(request > 0).tolist()
    return sorted(asked, key=lambda resource: (resource in (0, 1, PODS), resource))
