"""Laws of time-based fairness, whatever the queues and their history."""

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.fairshare import Entitlements, fair_share
from kaisched.core.tree import QueueTree, build_tree, roll_up
from kaisched.core.usage import PARTS, Usage
from kaisched.units import UNLIMITED
from kaisched_plugins.time_based_fairshare import TimeBasedFairshare
from kaisched_plugins.time_based_fairshare.history import entitlement, measured
from tests.oracles import division_loop, history_loop

GPU = 1000
gpus = st.integers(0, 40).map(lambda count: count * GPU)
quotas = gpus | st.just(UNLIMITED)
weights = st.integers(0, 5).map(float) | st.floats(0, 10)
strengths = st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0, 10.0, 1e6])


@dataclass(frozen=True)
class World:
    """One resource: a tree of queues, what they ask for and what they used."""

    tree: QueueTree
    total: int
    entitlements: Entitlements
    parts: np.ndarray
    k: float
    normalization: str
    count_in_quota: bool

    @property
    def options(self):
        return {
            "is_of_siblings": self.normalization == "siblings",
            "counts_quota": self.count_in_quota,
        }

    @property
    def transform(self):
        plugin = TimeBasedFairshare(
            TimeBasedFairshare.Arguments.model_validate(
                {
                    "kValue": self.k,
                    "normalization": self.normalization,
                    "countInQuota": self.count_in_quota,
                }
            )
        )
        queues = SimpleNamespace(
            tree=self.tree, deserved=self.entitlements.deserved, weight=self.entitlements.weights
        )
        session = SimpleNamespace(
            usage=Usage(self.parts, 0.0, 1.0),
            queues=queues,
            total=np.array([self.total]),
            state={},
            found={},
        )
        session.state[plugin.name] = plugin.session_open(session)
        return lambda *asked: answer_of(plugin, session, asked)

    def divide(self, transform="plugin") -> list[int]:
        total, unit = np.array([self.total]), np.array([GPU])
        transform = self.transform if transform == "plugin" else transform
        return fair_share(self.tree, total, self.entitlements, unit, transform)[0].tolist()

    def first(self, queue: int) -> int:
        entitlements = self.entitlements
        bounds = (entitlements.deserved, entitlements.request, entitlements.limit)
        return min(int(column[0, queue]) for column in bounds)


def answer_of(plugin, session, asked):
    answer = plugin.over_quota_weights(session, *asked)
    return asked[-1] if answer is None else answer


@st.composite
def worlds(draw, most=10, depth=3, deserved=quotas, weight=weights) -> World:
    size = draw(st.integers(1, most))
    above = [
        draw(st.none() | st.integers(0, i - 1)) if i and depth > 1 else None for i in range(size)
    ]
    names = [f"q{i}" for i in range(size)]
    tree = build_tree(names, [None if p is None else names[p] for p in above])

    def column(strategy, kind=np.int64):
        return np.array([draw(st.lists(strategy, min_size=size, max_size=size))], dtype=kind)

    entitlements = Entitlements(
        column(deserved),
        column(gpus | st.just(UNLIMITED)),
        roll_up(np.where(tree.is_leaf, column(gpus), 0), tree),
        column(weight, np.float64),
        column(st.integers(0, 1))[0],
        np.arange(size),
    )
    # Leaf usage that adds up to the whole cluster at most; few values, so that ties are common.
    used = column(st.integers(0, 8) | st.integers(0, 1000))[0] * tree.is_leaf
    whole = max(int(used.sum()), draw(st.sampled_from([8, 1000])), 1)
    parts = roll_up((used * PARTS // whole)[None, :], tree)
    return World(
        tree,
        draw(gpus),
        entitlements,
        parts,
        draw(strengths),
        draw(st.sampled_from(["siblings", "cluster"])),
        draw(st.booleans()),
    )


def usage_by_loop(world: World) -> list[float]:
    entitlements = world.entitlements
    return history_loop.measured(
        world.tree.parent_of_queue.tolist(),
        world.total,
        entitlements.deserved[0].tolist(),
        entitlements.weights[0].tolist(),
        world.parts[0].tolist(),
        **world.options,
    )


def usage_in_arrays(world: World) -> list[float]:
    entitlements = world.entitlements
    has = entitlement(
        world.tree, entitlements.deserved, entitlements.weights, np.array([world.total])
    )
    return measured(world.parts, has, **world.options)[0].tolist()


@given(worlds())
def test_arrays_and_plain_loop_measure_usage_alike(world):
    assert usage_in_arrays(world) == usage_by_loop(world)


@given(worlds())
def test_shares_with_history_agree_with_the_plain_loop_bit_for_bit(world):
    entitlements, usage = world.entitlements, usage_by_loop(world)
    rows = [
        division_loop.Claim(
            int(entitlements.deserved[0, q]),
            int(entitlements.limit[0, q]),
            int(entitlements.request[0, q]),
            float(entitlements.weights[0, q]),
            int(entitlements.priority[q]),
            int(entitlements.rank[q]),
        )
        for q in range(len(world.tree))
    ]
    expected = division_loop.divide_tree(
        world.tree.parent_of_queue.tolist(),
        world.total,
        rows,
        GPU,
        lambda normal: history_loop.share_weights(world.k, usage, normal),
    )
    assert world.divide() == expected


@given(worlds())
def test_usage_is_a_part_of_the_whole(world):
    usage = usage_in_arrays(world)
    assert all(0 <= used <= 1 for used in usage)


@given(worlds(deserved=gpus))
def test_what_is_deserved_is_untouched(world):
    for queue, share in enumerate(world.divide()):
        assert share >= world.first(queue)


@given(worlds(depth=1))
def test_nothing_is_gained_or_lost(world):
    assert sum(world.divide()) == sum(world.divide(transform=None))


@given(worlds(depth=1, deserved=gpus))
def test_a_higher_priority_gets_what_it_got_without_history(world):
    share, plain = world.divide(), world.divide(transform=None)
    high = np.flatnonzero(world.entitlements.priority == 1)
    assert sum(share[q] for q in high) == sum(plain[q] for q in high)


@given(worlds())
def test_at_zero_it_is_off(world):
    assert replace(world, k=0.0).divide() == world.divide(transform=None)


@given(worlds())
def test_without_usage_it_is_off(world):
    assert replace(world, parts=world.parts * 0).divide() == world.divide(transform=None)


@given(worlds(depth=1, deserved=gpus), st.builds(random.Random, st.integers(0, 1 << 16)))
def test_the_order_in_which_queues_are_listed_does_not_matter(world, dice):
    order = list(range(len(world.tree)))
    dice.shuffle(order)
    columns = [column[..., order] for column in world.entitlements]
    names = [world.tree.names[i] for i in order]
    tree = build_tree(names, [None] * len(names), created=range(len(names)))
    moved = replace(
        world, tree=tree, entitlements=Entitlements(*columns), parts=world.parts[:, order]
    )
    share = world.divide()
    assert moved.divide() == [share[i] for i in order]


@given(worlds(most=6, depth=1, weight=st.integers(1, 5).map(float)), st.data())
def test_more_usage_is_never_more_share(world, data):
    """Up to the units that rounding hands out."""
    queue = data.draw(st.integers(0, len(world.tree) - 1))
    free = PARTS - int(world.parts.sum())
    more = world.parts.copy()
    more[0, queue] += data.draw(st.integers(0, max(free, 0)))
    before, after = world.divide()[queue], replace(world, parts=more).divide()[queue]
    assert after <= before + GPU
