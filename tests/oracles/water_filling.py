"""Exact fair division in real numbers: sort by need over weight, raise the water once.

No rounds, no units, no weight transform: the answer that the rounds of kaisched.core approach when
the unit is small beside the amounts. A different algorithm on purpose.
"""

from collections.abc import Sequence
from fractions import Fraction


def fill(surplus: int, need: Sequence[int], weight: Sequence[int]) -> list[Fraction]:
    """Share `surplus` by weight, nobody above their need."""
    share = [Fraction(0)] * len(need)
    rising = sorted(
        (i for i in range(len(need)) if weight[i] > 0 and need[i] > 0),
        key=lambda i: Fraction(need[i], weight[i]),
    )
    left = Fraction(surplus)
    weights = sum(weight[i] for i in rising)
    for place, i in enumerate(rising):
        level = left / weights
        if Fraction(need[i], weight[i]) > level:
            for j in rising[place:]:
                share[j] = level * weight[j]
            return share
        share[i] = Fraction(need[i])
        left -= need[i]
        weights -= weight[i]
    return share


def fill_by_priority(
    surplus: int, need: Sequence[int], weight: Sequence[int], priority: Sequence[int]
) -> list[Fraction]:
    """Share `surplus` priority by priority, highest first."""
    share = [Fraction(0)] * len(need)
    left = Fraction(surplus)
    for tier in sorted(set(priority), reverse=True):
        at = [i for i, p in enumerate(priority) if p == tier]
        scaled = left.denominator
        filled = fill(left.numerator, [need[i] * scaled for i in at], [weight[i] for i in at])
        for i, amount in zip(at, filled, strict=True):
            share[i] = amount / scaled
            left -= share[i]
    return share
