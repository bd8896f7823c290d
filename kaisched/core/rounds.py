"""The rounds in which a surplus is shared among those who still want something.

A contest is one resource in one sibling group at one priority: its rows are the queues that
take part, its purse what is to be shared. All contests of a level play at once, as flat
columns; a contest that is over leaves the columns, so that later rounds cost less.

How it stays the same on every machine: amounts are whole numbers below 2**50, exact in float64;
float sums run in row order, by `bincount`, which adds one by one; the only sort is of unique
integer keys. tests/oracles holds the same rules as a plain loop, equal bit for bit. The rules
are numbered in docs/explanation/fairness.md.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Bool = npt.NDArray[np.bool_]

# Fractions of a unit are compared in steps of 2**-20: far finer than any policy, far coarser
# than float noise, so that equal fractions are a tie, which the older queue wins (R8).
FRACTION_BITS = 20
_KEY_BITS = 63


class WeightFold(Protocol):
    """Turns over-quota weights into those that count in this round (R5)."""

    def __call__(
        self, resource: Index, queue: Index, group: Index, active: Bool, weights: Float64, /
    ) -> Float64:
        """Answer for `K` rows, each one queue in the contest for one resource.

        Args:
            resource: `(K,)` resource index.
            queue: `(K,)` queue index.
            group: `(K,)` rows with the same number share one surplus.
            active: `(K,)` True where the queue still wants more. Others are not passed at
                present, so it is all True.
            weights: `(K,)` the queues' weights, normalised to 1 over each group.

        Returns:
            `(K,)` finite; only ratios inside a group matter; below 0 counts as 0.

        """
        ...


# Rows of the number block of a contest.
NEED, WEIGHT, UNIT = 0, 1, 2


class Rows(NamedTuple):
    """One row per queue and resource that it wants, sorted by contest, then rank."""

    at: Index  # position among the rows that the contest began with
    contest: Index
    numbers: Float64  # (3, M): what the queue may still take, its weight, the unit

    def pick(self, rows: Index) -> Rows:
        """Return these rows only."""
        return Rows(self.at.take(rows), self.contest.take(rows), self.numbers.take(rows, axis=1))


class Asked(NamedTuple):
    """The fold, and what it is told about the rows that the contest began with."""

    fold: WeightFold
    resource: Index
    queue: Index


def contend(start: Rows, purse: Float64, asked: Asked | None) -> Float64:
    """Share each contest's purse among its rows until the purse or their need is empty.

    `purse` `(R * G,)` is lowered in place. Returns what each row gets.
    """
    got = np.zeros(len(start.at))
    rows = start
    while len(rows.at):
        wanted = _sums(rows.contest, rows.numbers[NEED], len(purse))
        enough = wanted <= purse
        # Rounds would come to the same where there is enough for everyone (R9).
        sated = enough.take(rows.contest)
        if sated.any():
            got[rows.at[sated]] += rows.numbers[NEED][sated]
            purse -= np.where(enough, wanted, 0.0)
        rows = rows.pick((~sated & (purse > 0).take(rows.contest)).nonzero()[0])
        if not len(rows.at):
            break
        _rounds(rows, got, purse, asked)
        # Something is left only where the winner of the last unit needed less than one (R8).
        still = start.numbers[NEED] - got
        rows = start.pick(((still > 0) & (purse > 0).take(start.contest)).nonzero()[0])
        rows.numbers[NEED] = still.take(rows.at)
    return got


def _rounds(rows: Rows, got: Float64, purse: Float64, asked: Asked | None) -> None:
    """Play rounds, each in every contest that is still open (R6), and close them (R8)."""
    count = len(purse)
    closing: list[tuple[Rows, Float64]] = []
    while True:
        need, _, unit = rows.numbers
        share, total = _shares(rows, count, asked)
        ideal = purse.take(rows.contest) * share / total.take(rows.contest)
        units = ideal / unit
        whole = np.floor(units)
        is_full = need <= ideal
        give = np.where(is_full, need, whole * unit)
        got[rows.at] += give
        purse -= _sums(rows.contest, give, count)
        is_open = ~is_full & (purse > 0).take(rows.contest)
        # A queue that needed less than its part makes another round worth while.
        again = np.zeros(count, dtype=np.bool_)
        again[rows.contest[need < ideal]] = True
        plays = again.take(rows.contest)
        last = (is_open & ~plays & (share > 0)).nonzero()[0]
        if len(last):
            closing.append((_after(rows, last, give), (units - whole).take(last)))
        onward = (is_open & plays).nonzero()[0]
        if not len(onward):
            break
        rows = _after(rows, onward, give)
    if closing:
        _close(closing, got, purse)


def _sums(contest: Index, values: Float64, count: int) -> Float64:
    """Add up per contest, one by one in row order: the same bits on every machine."""
    return np.asarray(np.bincount(contest, values, count), dtype=np.float64)


def _after(rows: Rows, keep: Index, give: Float64) -> Rows:
    kept = rows.pick(keep)
    kept.numbers[NEED] -= give.take(keep)
    return kept


def _shares(rows: Rows, count: int, asked: Asked | None) -> tuple[Float64, Float64]:
    """Return each row's share weight (R5) and their sum per contest, in row order."""
    weight = rows.numbers[WEIGHT]
    total = _sums(rows.contest, weight, count)
    if asked is None:
        return weight, total
    whole = total.take(rows.contest)
    normal = weight / whole
    answer = asked.fold(
        asked.resource.take(rows.at),
        asked.queue.take(rows.at),
        rows.contest,
        np.ones(len(rows.at), dtype=np.bool_),
        normal,
    )
    # A weight that the fold leaves alone counts exactly as it was written, not normalised and
    # back: without a policy that changes weights the fold makes no difference at all.
    share = np.where(answer == normal, weight, np.maximum(answer, 0.0) * whole)
    sums = _sums(rows.contest, share, count)
    if not np.isfinite(sums).all():
        raise ValueError("an over-quota weight is not a finite number")
    flat = (sums == 0) & (total > 0)
    if flat.any():
        # The fold leaves nobody anything: idle resources help no one, plain weights stand (R7).
        share = np.where(flat.take(rows.contest), weight, share)
        sums = np.where(flat, total, sums)
    return share, sums


def _close(closing: list[tuple[Rows, Float64]], got: Float64, purse: Float64) -> None:
    """Hand out what the floors left over, one unit each by largest remainder (R8)."""
    rows, fraction = closing[0]
    if len(closing) > 1:
        parts = [rows for rows, _ in closing]
        rows = Rows(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.contest for part in parts]),
            np.concatenate([part.numbers for part in parts], axis=1),
        )
        fraction = np.concatenate([fraction for _, fraction in closing])
    order = _largest_first(rows.contest, fraction, len(purse))
    contest = rows.contest.take(order)
    numbers = rows.numbers.take(order, axis=1)
    most = np.minimum(numbers[NEED], numbers[UNIT])
    total = _sums(contest, most, len(purse))
    before = np.cumsum(most) - most - (np.cumsum(total) - total).take(contest)
    give = np.minimum(most, np.maximum(purse.take(contest) - before, 0.0))
    got[rows.at.take(order)] += give
    purse -= _sums(contest, give, len(purse))


def _largest_first(contest: Index, fraction: Float64, contests: int) -> Index:
    """Order rows by contest, then largest fraction, then as they stand (which is by rank)."""
    steps = (1 << FRACTION_BITS) - np.rint(fraction * (1 << FRACTION_BITS)).astype(np.int64)
    row_bits = len(contest).bit_length()
    if contests.bit_length() + FRACTION_BITS + 1 + row_bits > _KEY_BITS:
        return np.lexsort((steps, contest))
    key = (contest << (FRACTION_BITS + 1) | steps) << row_bits
    key |= np.arange(len(contest))
    key.sort()
    return key & ((1 << row_bits) - 1)
