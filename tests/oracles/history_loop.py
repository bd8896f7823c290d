"""The rules of past usage as a plain loop (R23, R24 of docs/explanation/fairness.md).

One resource, one queue after the other. What the plugin time-based-fairshare computes in arrays
must agree with it bit for bit.
"""

from collections.abc import Mapping, Sequence
from math import floor

from tests.oracles.division_loop import UNLIMITED

PARTS = 1_000_000_000


def measured(
    parents: Sequence[int],
    total: int,
    deserved: Sequence[int],
    weight: Sequence[float],
    parts: Sequence[int],
    *,
    is_of_siblings: bool,
    counts_quota: bool,
) -> list[float]:
    """The usage that counts against each queue; parents come before children, -1 for a root."""
    own, usage = [0.0] * len(parents), [0.0] * len(parents)
    for parent in range(-1, len(parents)):
        group = [q for q in range(len(parents)) if parents[q] == parent]
        above = own[parent] if parent >= 0 else float(PARTS)
        quota = {
            q: above if deserved[q] == UNLIMITED else floor(deserved[q] / max(total, 1) * PARTS)
            for q in group
        }
        surplus = max(above - sum(quota.values()), 0.0)
        weights = 0.0
        for q in group:
            weights += max(weight[q], 0.0)
        counted = {q: parts[q] if counts_quota else max(parts[q] - quota[q], 0) for q in group}
        most = max(above if counts_quota else surplus, sum(counted.values()))
        for q in group:
            part = max(weight[q], 0.0) / weights if weights > 0 else 0.0
            own[q] = quota[q] + floor(surplus * part)
            if not is_of_siblings:
                usage[q] = counted[q] / PARTS
            elif most > 0:
                usage[q] = counted[q] / most
    return usage


def share_weights(k: float, usage: Sequence[float], normal: Mapping[int, float]) -> dict:
    """The weights of one round, from the normalised ones (R5)."""
    if not any(usage[q] > 0 for q in normal):
        return dict(normal)
    return {q: max(w + k * (w - usage[q]), 0.0) for q, w in normal.items()}
