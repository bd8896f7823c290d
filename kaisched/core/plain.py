"""The division of a small tree in plain numbers, one contest after another.

The rules, and the float operations in their order, are those of kaisched.core.rounds, so the
results are equal to the bit; the only difference is speed. A simulated cluster of a dozen queues is
divided once for each event, and forty array calls on a few rows cost ten times as much as plain
numbers. A weight fold still gets arrays, once in each round of a contest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.core.division import Entitlements
    from kaisched.core.rounds import WeightFold

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

_STEPS = 1 << 20  # as FRACTION_BITS of the rounds
_MOST = 1 << 50  # as MOST of the division
_NO_PART = -1.0  # a queue without weight gets no unit of the rest
_NO_FRACTIONS = float(1 << 52)  # floats from here to 2**53 are whole numbers


class Group(NamedTuple):
    """Siblings."""

    parent: int
    """-1 for the roots."""
    members: tuple[int, ...]
    span: slice | None
    """The members, if they are neighbours."""
    tiers: tuple[tuple[int, ...], ...]
    """Members of each priority, highest first, by rank inside."""


class _Columns(NamedTuple):
    """The values that depend on the queues alone, as lists by resource, with their arrays."""

    deserved: Int64
    limit: Int64
    weights: Float64
    quotas: list[list[int]]
    limits: list[list[int] | None]
    """None where no queue has one."""
    weight_rows: list[list[float]]
    is_generous: dict[str, list[bool]]
    """By weight mode: whether all requests are met while there is enough for all queues."""

    def is_of(self, entitlements: Entitlements) -> bool:
        return (
            self.deserved is entitlements.deserved
            and self.limit is entitlements.limit
            and self.weights is entitlements.weights
        )


def _columns(entitlements: Entitlements) -> _Columns:
    has_weight = (entitlements.deserved >= UNLIMITED) | (entitlements.weights > 0)
    has_quota = entitlements.deserved > 0
    return _Columns(
        entitlements.deserved,
        entitlements.limit,
        entitlements.weights,
        entitlements.deserved.tolist(),
        [None if min(row) >= UNLIMITED else row for row in entitlements.limit.tolist()],
        entitlements.weights.tolist(),
        {
            "equal": [all(row) for row in has_weight.tolist()],
            "quota": [all(row) for row in has_quota.tolist()],
        },
    )


class _Row(NamedTuple):
    """The values of one resource."""

    total: int
    unit: float
    quotas: list[int]
    weights: list[float]
    is_generous: bool
    follows_quotas: bool
    resource: int
    fold: WeightFold | None


@dataclass(eq=False)
class PlainTree:
    """A small tree, to be divided again and again; `groups` come parents first."""

    groups: tuple[Group, ...]
    _known: _Columns | None = field(default=None, init=False)

    def divide(
        self,
        total: Int64,
        entitlements: Entitlements,
        unit: Int64,
        weight_mode: str,
        known: tuple[Int64, Sequence[int]] | None = None,
        fold: WeightFold | None = None,
    ) -> Int64:
        """Divide as `fairshare.fair_share` does."""
        columns = self._known
        if columns is None or not columns.is_of(entitlements):
            columns = _columns(entitlements)
            # Only an array that is read-only can be recognised by its identity.
            if not any(array.flags.writeable for array in columns[:3]):
                self._known = columns
        share, rows = known or (entitlements.request, range(len(total)))
        share = share.copy()
        totals, requests = total.tolist(), entitlements.request.tolist()
        generous = columns.is_generous[weight_mode]
        for r in rows:
            request, limits = requests[r], columns.limits[r]
            wants = request if limits is None else list(map(min, request, limits))
            divided = wants
            if not generous[r] or self._lacks(totals[r], wants):
                row = _Row(
                    totals[r],
                    float(unit[r]),
                    columns.quotas[r],
                    columns.weight_rows[r],
                    generous[r],
                    weight_mode == "quota",
                    r,
                    fold,
                )
                divided = self._divide_row(row, wants)
            # If all queues get what they ask for, which is common, the request is the answer.
            if divided is not request:
                share[r] = divided
            elif known is not None:
                share[r] = entitlements.request[r]
        return share

    def _lacks(self, total: int, wants: list[int]) -> bool:
        """Tell whether some siblings may want more than there is for them."""
        if len(self.groups) > 1:
            return True
        wanted = sum(wants)
        return wanted > total or wanted > _MOST

    def _divide_row(self, row: _Row, wants: list[int]) -> list[int]:
        """Divide one resource; return `wants` itself if all queues get it."""
        share = wants
        for group in self.groups:
            amount = row.total if group.parent < 0 else share[group.parent]
            if row.is_generous:
                span = group.span
                wanted = sum([wants[q] for q in group.members] if span is None else wants[span])
                if wanted <= amount and wanted <= _MOST:
                    continue
            if share is wants:
                share = wants.copy()
            _divide_group(row, group, amount, wants, share)
        return share


def _divide_group(row: _Row, group: Group, amount: int, wants: list[int], share: list[int]) -> None:
    """Set the members' `share`, which is `wants` so far: deserved parts, then the surplus."""
    quotas, left = row.quotas, amount
    lacks = False
    for q in group.members:
        quota = quotas[q]
        if quota == UNLIMITED:
            quota = amount
        if quota < share[q]:
            share[q] = quota
            lacks = True
        left -= share[q]
    if left <= 0 or not lacks:
        return
    weights = _quota_weights(row, group, amount) if row.follows_quotas else row.weights
    purse = float(min(left, _MOST))
    for tier in group.tiers:
        takers = [q for q in tier if share[q] < wants[q] and weights[q] > 0]
        if not takers:
            continue
        need = [float(min(wants[q] - share[q], _MOST)) for q in takers]
        purse = _contend(share, takers, need, [weights[q] for q in takers], purse, row)
        if purse <= 0:
            return


def _quota_weights(row: _Row, group: Group, amount: int) -> list[float]:
    """Return weights that follow quotas; a group without any quota keeps its own (R12)."""
    weights = [float(amount if quota == UNLIMITED else quota) for quota in row.quotas]
    return weights if any(weights[q] > 0 for q in group.members) else row.weights


def _contend(
    share: list[int],
    rows: list[int],
    need: list[float],
    weights: list[float],
    purse: float,
    row: _Row,
) -> float:
    """Share a purse among queues, by rank, until it or their need is empty; returns what is left.

    Amounts are whole numbers in floats: comparing an integer with a float costs twice as much.
    """
    unit = row.unit
    for q, wants in zip(rows, need, strict=True):
        share[q] += int(wants)  # as if there were enough; the missing part is subtracted below
    while purse > 0:
        if sum(need) <= purse:
            return purse - sum(need)  # enough for all queues (R9)
        counts, total = _share_weights(row, rows, weights)
        amount, is_worth_another = purse, False
        players = zip(rows, need, weights, counts, strict=True)
        rows, need, weights, missed = [], [], [], []
        for q, wants, weight, count in players:
            ideal = amount * count / total
            if wants <= ideal:
                purse -= wants
                is_worth_another = is_worth_another or wants < ideal
                continue
            units = ideal / unit
            part = units % 1.0
            give = (units - part) * unit
            purse -= give
            rows.append(q)
            need.append(wants - give)
            weights.append(weight)
            missed.append(part if count > 0 else _NO_PART)
        if purse > 0 and not is_worth_another:
            purse = _close(need, missed, purse, unit)
            if purse > 0 and 0.0 in need:
                weights = [weight for weight, wants in zip(weights, need, strict=True) if wants]
                rows = [q for q, wants in zip(rows, need, strict=True) if wants]
                need = [wants for wants in need if wants]
    for q, wants in zip(rows, need, strict=True):
        share[q] -= int(wants)
    return purse


def _sum(weights: list[float]) -> float:
    """Add one by one, as `bincount` does; sum() of later Pythons rounds otherwise."""
    total = 0.0
    for weight in weights:
        total += weight
    return total


def _share_weights(row: _Row, rows: list[int], weights: list[float]) -> tuple[list[float], float]:
    """Return each queue's share weight (R5) and their sum, in row order."""
    total = _sum(weights)
    if row.fold is None:
        return weights, total
    count = len(rows)
    normal = [weight / total for weight in weights]
    answer = row.fold(
        np.full(count, row.resource),
        np.array(rows),
        np.zeros(count, np.intp),
        np.ones(count, np.bool_),
        np.array(normal),
    )
    # A weight that the fold leaves unchanged counts as written, as in the rounds.
    counts = [
        weight if said == asked else max(said, 0.0) * total
        for weight, asked, said in zip(weights, normal, answer.tolist(), strict=True)
    ]
    whole = _sum(counts)
    if not whole < math.inf:
        raise ValueError("the fold of over-quota weights answered no finite numbers")
    return (counts, whole) if whole > 0 else (weights, total)  # R7


def _close(need: list[float], missed: list[float], purse: float, unit: float) -> float:
    """Hand out what the floors left over, one unit each by largest remainder (R8)."""
    # The sum has no room for a fraction: it is rounded half to even, as `rint` does.
    key = [part * _STEPS + _NO_FRACTIONS for part in missed]
    # sorted() keeps the order of equals, which is by rank.
    for i in sorted(range(len(key)), key=key.__getitem__, reverse=True):
        if missed[i] < 0:
            break
        give = min(need[i], unit, purse)
        need[i] -= give
        purse -= give
        if purse <= 0:
            break
    return purse
