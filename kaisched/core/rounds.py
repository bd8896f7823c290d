"""The rounds in which a surplus is shared among the queues that still want something.

A contest is one resource in one sibling group at one priority: its rows are the queues that
take part, its purse is the amount to be shared. All contests of a level run at once, as flat
columns; a contest that is over leaves the columns, so that later rounds cost less.

The result is the same on every machine: amounts are whole numbers below 2**50, exact in float64;
float sums run in row order, by `bincount`, which adds one by one; the only sort is of unique
integer keys. tests/oracles has the same rules as a plain loop, equal bit for bit. The rules
are numbered in docs/explanation/fairness.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Bool = npt.NDArray[np.bool_]

# Fractions of a unit are compared in steps of 2**-20: far finer than any policy, far coarser
# than float noise, so that equal fractions are a tie, which the older queue wins (R8).
FRACTION_BITS = 20
_STEPS = 1 << FRACTION_BITS
_KEY_BITS = 63
_NOTHING = np.zeros(0)


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
            active: `(K,)` True where the queue still wants more. Other queues are not passed at
                present, so it is all True.
            weights: `(K,)` the queues' weights, normalised to 1 over each group.

        Returns:
            `(K,)` finite; only ratios inside a group matter; below 0 counts as 0.

        """
        ...


class Contest(NamedTuple):
    """The rows of all contests, sorted by contest, then rank; `M` rows.

    `purse` and `need` are lowered in place as the rounds go.
    """

    contest: Index  # (M,) the purse that the row draws from
    weight: Float64  # (M,) above 0
    unit: Float64  # (M,) granularity of the amounts, or (1,) if it is the same for all
    need: Float64  # (M,) what the queue may still take
    purse: Float64  # one per contest
    asked: Asked | None


class Asked(NamedTuple):
    """The fold, and its arguments about each row."""

    fold: WeightFold
    resource: Index
    queue: Index
    has_one_resource: bool


def contend(game: Contest) -> None:
    """Share each purse among its rows until the purse or their need is empty."""
    contest, need, purse = game.contest, game.need, game.purse
    rows = np.arange(len(contest))
    while len(rows):
        own, wants = _contest_of(game, rows), _of(need, rows)
        wanted = _sums(own, wants, len(purse))
        enough = wanted <= purse
        # If there is enough for all queues, rounds would give the same result (R9).
        sated = enough.take(own)
        if np.count_nonzero(sated):
            purse -= np.where(enough, wanted, 0.0)
            need[rows.take(sated.nonzero()[0])] = 0.0
            rows = rows.take((~sated).nonzero()[0])
            if not len(rows):
                return
        rows, missed = _rounds(game, rows)
        if len(rows):
            _close(game, rows, missed)
        # Something is left only if the winner of the last unit needed less than one (R8).
        rows = ((need > 0) & (purse > 0).take(contest)).nonzero()[0]


def _rounds(game: Contest, rows: Index) -> tuple[Index, Float64]:
    """Run rounds, each in every contest that is still open (R6).

    Return the rows that still want something after rounding down, and the fraction of a unit
    that each has missed.
    """
    purse, count = game.purse, len(game.purse)
    closing: list[Index] = []
    missed: list[Float64] = []
    while len(rows):
        contest, need, unit = _contest_of(game, rows), _of(game.need, rows), game.unit
        if len(unit) > 1:
            unit = unit.take(rows)
        share, total = _shares(game, rows, contest)
        ideal = share * _spread(purse, contest)
        ideal /= _spread(total, contest)
        is_full = need <= ideal
        if len(unit) == 1 and unit[0] == 1:  # no division and multiplication by one
            units, whole = ideal, np.floor(ideal)
            give = np.minimum(need, whole)  # the same, since needs are whole numbers
        else:
            units = ideal / unit
            whole = np.floor(units)
            give = whole * unit
            np.putmask(give, is_full, need)
        is_short = need < ideal
        if need is game.need:
            need -= give
        else:
            game.need[rows] = need - give
        purse -= _sums(contest, give, count)
        # A queue that needed less than its part makes another round worth while.
        again = np.zeros(count, dtype=np.bool_)
        again[contest.take(is_short.nonzero()[0])] = True
        plays = _spread(again, contest)
        is_open = _spread(purse > 0, contest) > is_full
        last = ((is_open > plays) & (share > 0)).nonzero()[0]
        if len(last):
            closing.append(rows.take(last))
            missed.append(units.take(last) - whole.take(last))
        rows = rows.take((is_open & plays).nonzero()[0])  # half the time of rows[...]
    if len(closing) == 1:
        return closing[0], missed[0]
    return np.concatenate([rows, *closing]), np.concatenate([_NOTHING, *missed])


def _of(column: npt.NDArray[Any], rows: Index) -> npt.NDArray[Any]:
    """Return the column at these rows; for all rows the column itself, which must not change."""
    return column if len(rows) == len(column) else column.take(rows)


def _contest_of(game: Contest, rows: Index) -> Index:
    """Return the contest of these rows; for a single contest the first rows serve as well."""
    return game.contest[: len(rows)] if len(game.purse) == 1 else _of(game.contest, rows)


def _spread(values: npt.NDArray[Any], contest: Index) -> npt.NDArray[Any]:
    """Return the value of each row's contest; for a single contest its value, to be broadcast."""
    return values if len(values) == 1 else values.take(contest)


def _sums(contest: Index, values: Float64, count: int) -> Float64:
    """Add up per contest, one by one in row order: the same bits on every machine."""
    return np.asarray(np.bincount(contest, values, count), dtype=np.float64)


def _shares(game: Contest, rows: Index, contest: Index) -> tuple[Float64, Float64]:
    """Return each row's share weight (R5) and their sum per contest, in row order."""
    weight, count = _of(game.weight, rows), len(game.purse)
    total = _sums(contest, weight, count)
    if game.asked is None:
        return weight, total
    fold, resource, queue, has_one_resource = game.asked
    resource = resource[: len(rows)] if has_one_resource else _of(resource, rows)
    whole = _spread(total, contest)
    normal = weight / whole
    wants = np.ones(len(rows), dtype=np.bool_)
    answer = fold(resource, _of(queue, rows), contest, wants, normal)
    # A weight that the fold leaves unchanged counts exactly as written, not normalised and
    # back: without a policy that changes weights the fold makes no difference at all.
    share = np.maximum(answer, 0.0)
    share *= whole
    is_same = answer == normal
    if np.count_nonzero(is_same):
        np.putmask(share, is_same, weight)
    sums = _sums(contest, share, count)
    if np.count_nonzero(sums < np.inf) < count:
        raise ValueError("the fold of over-quota weights answered no finite numbers")
    if np.count_nonzero(sums) < np.count_nonzero(total):
        # The fold leaves no queue a weight: use the plain weights rather than idle resources (R7).
        flat = sums == 0
        np.putmask(share, flat.take(contest), weight)
        np.putmask(sums, flat, total)
    return share, sums


def _close(game: Contest, rows: Index, missed: Float64) -> None:
    """Hand out the rest of rounding down, one unit each by largest remainder (R8)."""
    count = len(game.purse)
    rows = rows.take(_largest_first(game.contest.take(rows), missed, count))
    contest, need, unit = game.contest.take(rows), game.need.take(rows), game.unit
    most = np.minimum(need, unit if len(unit) == 1 else unit.take(rows))
    before = most.cumsum() - most
    if count > 1:
        total = _sums(contest, most, count)
        before -= (total.cumsum() - total).take(contest)
    give = np.minimum(most, np.maximum(_spread(game.purse, contest) - before, 0.0))
    game.need[rows] = need - give
    np.subtract(game.purse, _sums(contest, give, count), out=game.purse)


def _largest_first(contest: Index, missed: Float64, contests: int) -> Index:
    """Order rows by contest, then largest fraction, then as given (which is by rank)."""
    steps = _STEPS - np.rint(missed * _STEPS).astype(np.int64)
    row_bits = len(contest).bit_length()
    if contests.bit_length() + FRACTION_BITS + 1 + row_bits > _KEY_BITS:
        return np.lexsort((steps, contest))
    key = (contest << (FRACTION_BITS + 1) | steps) << row_bits
    key |= np.arange(len(contest))
    # The keys are in order by contest already: merging long runs takes a sixth of the time.
    key.sort(kind="stable" if contests > 1 else None)
    return key & ((1 << row_bits) - 1)
