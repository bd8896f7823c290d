"""Laws of fair division, whatever the queues and amounts (docs/explanation/fairness.md)."""

import random
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.fairshare import Entitlements, divide_level, fair_share
from kaisched.core.tree import build_tree, roll_up
from kaisched.units import UNLIMITED
from tests.oracles import division_loop
from tests.oracles.water_filling import fill_by_priority

GPU = 1000
amounts = st.integers(0, 40).map(lambda gpus: gpus * GPU) | st.integers(0, 40_000)
bounds = amounts | st.just(UNLIMITED)
weights = st.integers(0, 5).map(float) | st.floats(0, 10)
# Few values, so that ties are common.
usages = st.integers(0, 8).map(lambda eighths: eighths / 8) | st.floats(0, 1)


@dataclass(frozen=True)
class Level:
    """One resource of one level, as lists in the order of the queues."""

    total: list[int]
    group: list[int]
    deserved: list[int]
    limit: list[int]
    request: list[int]
    weight: list[float]
    priority: list[int]
    rank: list[int]
    usage: list[float]
    unit: int = GPU
    k: float | None = None

    @property
    def entitlements(self) -> Entitlements:
        return Entitlements(
            np.array([self.deserved], dtype=np.int64),
            np.array([self.limit], dtype=np.int64),
            np.array([self.request], dtype=np.int64),
            np.array([self.weight], dtype=np.float64),
            np.array(self.priority, dtype=np.int64),
            np.array(self.rank, dtype=np.int64),
        )

    @property
    def transform(self):
        if self.k is None:
            return None
        usage, k = np.array([self.usage]), self.k
        return lambda r, q, g, a, w: np.maximum(0, w + k * (w - usage[r, q]))

    def divide(self) -> list[int]:
        return self.divide_with_left()[0]

    def divide_with_left(self) -> tuple[list[int], list[int]]:
        share, left = divide_level(
            np.array([self.total], dtype=np.int64),
            np.array(self.group, dtype=np.intp),
            self.entitlements,
            np.array([self.unit]),
            self.transform,
        )
        return share[0].tolist(), left[0].tolist()

    def members(self, group: int) -> list[int]:
        return [i for i, g in enumerate(self.group) if g == group]

    def requestable(self, i: int) -> int:
        return min(self.request[i], self.limit[i])

    def first(self, i: int) -> int:
        """What queue i gets before any surplus."""
        quota = self.total[self.group[i]] if self.deserved[i] == UNLIMITED else self.deserved[i]
        return min(quota, self.requestable(i))


@st.composite
def levels(draw, groups: int = 3, max_queues: int = 9, deserved=bounds, weight=weights) -> Level:
    count = draw(st.integers(1, groups))
    size = draw(st.integers(count, max(count, max_queues)))

    def column(strategy) -> list:
        return draw(st.lists(strategy, min_size=size, max_size=size))

    group = list(range(count)) + draw(
        st.lists(st.integers(0, count - 1), min_size=size - count, max_size=size - count)
    )
    return Level(
        total=draw(st.lists(amounts, min_size=count, max_size=count)),
        group=group,
        deserved=column(deserved),
        limit=column(bounds),
        request=column(amounts),
        weight=column(weight),
        priority=column(st.integers(0, 2)) if draw(st.booleans()) else [0] * size,
        rank=draw(st.permutations(range(size))),
        usage=column(usages),
        unit=draw(st.sampled_from([1, GPU])),
        k=draw(st.sampled_from([None, 0.0, 0.5, 1.0, 10.0])),
    )


def loop_transform(level: Level, members: list[int]):
    if level.k is None:
        return None
    return lambda normal: {
        i: max(0.0, w + level.k * (w - level.usage[members[i]])) for i, w in normal.items()
    }


@given(levels())
def test_arrays_and_plain_loop_agree_bit_for_bit(level):
    expected, left = [0] * len(level.group), []
    for g, total in enumerate(level.total):
        members = level.members(g)
        entitlements = [
            division_loop.Claim(
                level.deserved[i],
                level.limit[i],
                level.request[i],
                level.weight[i],
                level.priority[i],
                level.rank[i],
            )
            for i in members
        ]
        answer = division_loop.divide(
            total, entitlements, level.unit, loop_transform(level, members)
        )
        left.append(answer.left)
        for i, share in zip(members, answer.share, strict=True):
            expected[i] = share
    assert level.divide_with_left() == (expected, left)


@given(levels())
def test_nobody_gets_less_than_deserved_or_more_than_requested(level):
    for i, share in enumerate(level.divide()):
        assert level.first(i) <= share <= level.requestable(i)


@pytest.mark.fault("F103")
@given(levels())
def test_what_is_shared_and_what_is_left_is_the_amount(level):
    share, left = level.divide_with_left()
    for g, total in enumerate(level.total):
        members = level.members(g)
        first = sum(level.first(i) for i in members)
        assert left[g] >= 0
        assert sum(share[i] for i in members) + left[g] == max(total, first)


@given(levels(weight=st.floats(0.01, 10)))
def test_nothing_is_left_while_a_queue_with_a_weight_wants_it(level):
    share, left = level.divide_with_left()
    for g in range(len(level.total)):
        if left[g]:
            assert all(share[i] == level.requestable(i) for i in level.members(g))


@given(levels())
def test_a_queue_without_weight_gets_no_surplus(level):
    for i, share in enumerate(level.divide()):
        if level.weight[i] == 0:
            assert share == level.first(i)


@given(levels())
def test_a_lower_priority_gets_surplus_only_when_the_higher_wants_no_more(level):
    share = level.divide()
    for i, low in enumerate(level.priority):
        for j, high in enumerate(level.priority):
            if level.group[i] == level.group[j] and high > low and share[i] > level.first(i):
                assert share[j] == level.requestable(j) or level.weight[j] == 0


@pytest.mark.fault("E85")
@given(levels(), st.builds(random.Random, st.integers(0, 1 << 16)))
def test_the_order_in_which_queues_are_listed_does_not_matter(level, dice):
    order = list(range(len(level.group)))
    dice.shuffle(order)
    columns = ("group", "deserved", "limit", "request", "weight", "priority", "rank", "usage")
    shuffled = replace(
        level, **{name: [getattr(level, name)[i] for i in order] for name in columns}
    )
    share = level.divide()
    assert shuffled.divide() == [share[i] for i in order]


@given(levels(groups=1, weight=st.integers(0, 5).map(float)), st.integers(0, 8), st.data())
def test_a_larger_own_weight_costs_at_most_the_rounding(level, more, data):
    level = replace(level, k=None)
    i = data.draw(st.integers(0, len(level.group) - 1))
    weight = list(level.weight)
    weight[i] += more
    assert replace(level, weight=weight).divide()[i] >= level.divide()[i] - level.unit


@given(levels(weight=st.integers(0, 5).map(float)), st.sampled_from([2.0, 3.0, 10.0, 1024.0]))
def test_only_ratios_of_weights_matter(level, factor):
    level = replace(level, k=None)
    scaled = replace(level, weight=[w * factor for w in level.weight])
    assert scaled.divide() == level.divide()


@given(levels(weight=st.integers(0, 5).map(float)), st.sampled_from([2, 3, 1000]))
def test_amounts_in_another_unit_give_the_same_shares(level, factor):
    def scale(values):
        return [v if v == UNLIMITED else v * factor for v in values]

    level = replace(level, k=None)
    scaled = replace(
        level,
        total=scale(level.total),
        deserved=scale(level.deserved),
        limit=scale(level.limit),
        request=scale(level.request),
        unit=level.unit * factor,
    )
    assert scaled.divide() == scale(level.divide())


@given(levels(), amounts)
def test_a_queue_that_asks_for_nothing_changes_nothing(level, deserved):
    joined = replace(
        level,
        group=[*level.group, 0],
        deserved=[*level.deserved, deserved],
        limit=[*level.limit, UNLIMITED],
        request=[*level.request, 0],
        weight=[*level.weight, 3.0],
        priority=[*level.priority, 1],
        rank=[*level.rank, -1],
        usage=[*level.usage, 0.5],
    )
    assert joined.divide() == [*level.divide(), 0]


@given(levels())
def test_without_history_the_fold_is_as_if_it_were_not_there(level):
    assert replace(level, k=0.0).divide() == replace(level, k=None).divide()


@given(levels(groups=1, weight=st.integers(0, 5).map(float)))
def test_fine_units_come_close_to_exact_water_filling(level):
    level = replace(level, k=None, unit=1)
    share = level.divide()
    first = [level.first(i) for i in range(len(share))]
    exact = fill_by_priority(
        max(0, level.total[0] - sum(first)),
        [level.requestable(i) - first[i] for i in range(len(share))],
        [int(w) for w in level.weight],
        level.priority,
    )
    # Each round floors once, and there are no more rounds than queues.
    for i, amount in enumerate(share):
        assert abs(Fraction(amount - first[i]) - exact[i]) <= len(share) + 1


@st.composite
def trees(draw, most=10):
    size = draw(st.integers(1, most))
    parents = [draw(st.none() | st.integers(0, i - 1)) if i else None for i in range(size)]
    names = [f"q{i}" for i in range(size)]
    tree = build_tree(names, [None if p is None else names[p] for p in parents])
    rows = draw(st.integers(1, 3))

    def columns(strategy, dtype):
        cells = st.lists(strategy, min_size=size, max_size=size)
        return np.array([draw(cells) for _ in range(rows)], dtype=dtype)

    own = np.where(tree.is_leaf, columns(amounts, np.int64), 0)
    entitlements = Entitlements(
        columns(bounds, np.int64),
        columns(bounds, np.int64),
        roll_up(own, tree),
        columns(weights, np.float64),
        columns(st.integers(0, 1), np.int64)[0],
        np.arange(size),
    )
    total = np.array(draw(st.lists(amounts, min_size=rows, max_size=rows)), dtype=np.int64)
    unit = np.array(draw(st.lists(st.sampled_from([1, GPU]), min_size=rows, max_size=rows)))
    return tree, total, entitlements, unit, columns(usages, np.float64)


def plain_claims(claims, resource):
    """The claims of all queues on one resource, for the plain loop."""
    columns = (claims.deserved, claims.limit, claims.request)
    return [
        division_loop.Claim(
            *(int(column[resource, queue]) for column in columns),
            float(claims.weights[resource, queue]),
            int(claims.priority[queue]),
            int(claims.rank[queue]),
        )
        for queue in range(claims.deserved.shape[1])
    ]


@pytest.mark.fault("F103")
@given(trees(), st.sampled_from([None, 0.0, 1.0, 5.0]))
def test_a_tree_of_any_depth_agrees_with_the_plain_loop(drawn, k):
    tree, total, entitlements, unit, usage = drawn

    def transform(resource, queue, group, active, weights):
        return np.maximum(0, weights + k * (weights - usage[resource, queue]))

    share = fair_share(tree, total, entitlements, unit, None if k is None else transform)
    for r in range(len(total)):

        def one(normal, r=r):
            return {q: max(0.0, w + k * (w - usage[r, q])) for q, w in normal.items()}

        rows = plain_claims(entitlements, r)
        expected = division_loop.divide_tree(
            tree.parent_of_queue.tolist(),
            int(total[r]),
            rows,
            int(unit[r]),
            None if k is None else one,
        )
        assert share[r].tolist() == expected
