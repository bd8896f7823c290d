"""The rules of fair division as a plain loop, one contest after the other.

Written to be read beside docs/explanation/fairness.md, not to be fast. The arrays of
kaisched.core must agree with it bit for bit: same float operations, same order of sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor, isfinite

UNLIMITED = 1 << 62

# Normalised weights of the queues still in the round -> the weights that count, by queue.
LoopTransform = Callable[[dict[int, float]], dict[int, float]]
# (what is wanted by queue, the surplus) -> what goes to whom ahead of the weights, by queue.
LoopStart = Callable[[dict[int, int], int], dict[int, int]]


@dataclass
class Claim:
    """One queue's claim on one resource."""

    deserved: int
    limit: int
    request: int
    weight: float
    priority: int = 0
    rank: int = 0


@dataclass
class Result:
    share: list[int] = field(default_factory=list)
    left: int = 0


def divide(
    amount: int,
    claims: Sequence[Claim],
    unit: int = 1,
    transform: LoopTransform | None = None,
    start: LoopStart | None = None,
) -> Result:
    """Divide one resource among the queues of one sibling group (R1 to R9, R25)."""
    share = [
        min(amount if c.deserved == UNLIMITED else c.deserved, c.request, c.limit) for c in claims
    ]
    return divide_surplus(max(0, amount - sum(share)), share, claims, unit, transform, start)


def divide_surplus(
    surplus: int,
    share: Sequence[int],
    claims: Sequence[Claim],
    unit: int = 1,
    transform: LoopTransform | None = None,
    start: LoopStart | None = None,
) -> Result:
    """Divide the surplus on top of what the queues have (R4 to R9, R25)."""
    result = Result(list(share), surplus)
    by_rank = sorted(range(len(claims)), key=lambda i: claims[i].rank)
    for priority in sorted({c.priority for c in claims}, reverse=True):
        queues = [i for i in by_rank if claims[i].priority == priority]
        if start is not None:
            _give_head_starts(queues, result, claims, start)
        _share_among(queues, result, claims, unit, transform)
    return result


def _give_head_starts(queues, result, claims, start) -> None:
    """Give what goes to somebody ahead of the weights (R25)."""
    wants = {i: min(claims[i].request, claims[i].limit) - result.share[i] for i in queues}
    wants = {i: amount for i, amount in wants.items() if amount > 0 and claims[i].weight > 0}
    if wants and result.left > 0:
        for i, amount in start(wants, result.left).items():
            result.share[i] += amount
            result.left -= amount


def _share_among(queues, result, claims, unit, transform) -> None:
    def need(i: int) -> int:
        return min(claims[i].request, claims[i].limit) - result.share[i]

    def hand(i: int, amount: int) -> None:
        result.share[i] += amount
        result.left -= amount

    active = [i for i in queues if need(i) > 0 and claims[i].weight > 0]
    while result.left > 0 and active:
        weight = share_weights(active, claims, transform)
        total = 0.0
        for i in active:
            total += weight[i]
        remaining = float(result.left)
        fraction = {}
        is_worth_another_round = False
        for i in active:
            ideal = remaining * weight[i] / total
            if need(i) <= ideal:
                is_worth_another_round |= need(i) < ideal
                hand(i, need(i))
            else:
                units = ideal / unit
                hand(i, floor(units) * unit)
                if weight[i] > 0:
                    fraction[i] = units - floor(units)
        if not is_worth_another_round or result.left == 0:
            # sorted() keeps equals as they stand, and `fraction` is in rank order.
            for i in sorted(fraction, key=lambda i: -round(fraction[i] * 2**20)):
                hand(i, min(unit, need(i), result.left))
        active = [i for i in active if need(i) > 0]


def share_weights(
    active: Sequence[int], claims: Sequence[Claim], transform: LoopTransform | None
) -> dict[int, float]:
    """The weights that count in this round (R5, R7)."""
    plain = {i: claims[i].weight for i in active}
    if transform is None:
        return plain
    total = 0.0
    for i in active:
        total += plain[i]
    normal = {i: plain[i] / total for i in active}
    answer = transform(normal)
    counts = {
        i: plain[i] if answer[i] == normal[i] else max(answer[i], 0.0) * total for i in active
    }
    assert all(isfinite(x) for x in counts.values())
    return counts if any(x > 0 for x in counts.values()) else plain


def divide_tree(
    parents: Sequence[int],
    total: int,
    claims: Sequence[Claim],
    unit: int = 1,
    transform: LoopTransform | None = None,
    start: LoopStart | None = None,
) -> list[int]:
    """Divide one resource down a tree (R10); parents come before children, -1 for a root."""
    share = [0] * len(parents)
    for parent in range(-1, len(parents)):
        group = [q for q in range(len(parents)) if parents[q] == parent]
        if not group:
            continue

        def group_transform(normal: dict[int, float], group=group) -> dict[int, float]:
            answer = transform({group[i]: w for i, w in normal.items()})
            return {i: answer[group[i]] for i in normal}

        def group_start(wants: dict[int, int], left: int, group=group) -> dict[int, int]:
            ahead = start({group[i]: amount for i, amount in wants.items()}, left)
            return {i: ahead[group[i]] for i in wants if group[i] in ahead}

        divided = divide(
            total if parent < 0 else share[parent],
            [claims[q] for q in group],
            unit,
            group_transform if transform else None,
            group_start if start else None,
        )
        for q, amount in zip(group, divided.share, strict=True):
            share[q] = amount
    return share
