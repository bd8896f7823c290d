"""The rules on plain numbers: R20 and R21 of docs/explanation/fairness.md, and R15 made exact."""

from __future__ import annotations

from collections.abc import Iterable
from operator import gt, le
from typing import TypeAlias

from kaisched import UNLIMITED

PER_MILLE = 1000

Row: TypeAlias = list[int]
"""Amounts of one queue or unit, one number for each resource."""
Floors: TypeAlias = list[tuple[int, int]]
"""Resources with the amount that a queue must keep of them."""


def is_within(held: Iterable[int], bound: Iterable[int]) -> bool:
    """Tell whether no resource passes its bound."""
    return all(map(le, held, bound))


def is_fair_share_victim(
    left: Row, enough: Row, ask: Row, amounts: Row, *, is_taker_over: bool
) -> bool:
    """Tell whether a queue still has more of some resource than others must leave it (R20).

    The resource is one that the unit holds; or, for a taker that is over no share, one that is not
    asked for. No queue exceeds an unlimited share, or a share of a resource that it does not hold.
    So only resources that are used and divided can decide.
    """
    if not any(map(gt, left, enough)):
        return False  # a quarter of the time, and the most frequent answer
    return any(
        has > most and (lost > 0 or not (is_taker_over or asked > 0))
        for has, most, asked, lost in zip(left, enough, ask, amounts, strict=True)
    )


def is_quota_victim(is_claim_within_quota: bool, left: Row, deserved: Row, ask: Row) -> bool:
    """Tell whether a queue over quota loses to a queue that stays within its own (R20).

    Only limited quotas of resources that the claim asks for count, and the losing queue must have
    its quota of all of them.
    """
    if not is_claim_within_quota:
        return False
    is_over = False
    for has, quota, asked in zip(left, deserved, ask, strict=True):
        if asked > 0 and quota != UNLIMITED:
            if has < quota:
                return False
            is_over = is_over or has > quota
    return is_over


def floors_of(left: Row, quotas: Floors) -> Floors:
    """Return the quotas that a queue reaches, and so must keep (R21).

    Where it is below its quota already, it may lose more: otherwise a queue that never used its
    quota of one resource could lose nothing at all.
    """
    return [floor for floor in quotas if left[floor[0]] >= floor[1]]


def undershoots(left: Row, floors: Floors, amounts: Row) -> bool:
    """Tell whether losing these amounts would leave a queue below its quota of any of them."""
    for at, floor in floors:  # noqa: SIM110 - half the time of any(), for every unit and level
        if left[at] - amounts[at] < floor and amounts[at] > 0:
            return True
    return False


def is_as_saturated(after: int, share: int, left: int, their_share: int, per_mille: int) -> bool:
    """Tell exactly whether a taker above its share is as saturated as the losing queue (R15)."""
    if their_share <= 0:
        return share <= 0  # two queues without entitlement would take turns at each other's cost
    if share == 0 or their_share == UNLIMITED:
        return True
    return after * per_mille * their_share >= left * PER_MILLE * share
