"""Queues that share one quota in the order of what they used lately (F31 to F33)."""

from collections import Counter

import numpy as np
import pytest

from kaisched.core.tables import Sharing
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import NOW_S
from kaisched_plugins.fair_sharing.order import part_of_history, penalties, scores

OFF = {"enabled": False}
PLUGINS = {
    "proportion": {"enabled": False},
    "fair-sharing": {"enabled": True},
    "time-based-fairshare": OFF,
}
HISTORY = {"clientType": "memory", "usageParams": {"halfLifePeriod": "1h", "windowSize": "1d"}}
SHARD = {"plugins": PLUGINS, "usageDBConfig": HISTORY}
POOL = Sharing(is_by_usage=True)


def shard_with(**arguments):
    plugins = {**PLUGINS, "fair-sharing": {"enabled": True, "arguments": arguments}}
    return {**SHARD, "plugins": plugins}


def pool(quota=4, gpus=4, weights=(1, 1), parent="", **sharing):
    made = ClusterBuilder().node("n0", gpu=gpus)
    made.queue("pool", parent=parent, deserved=quota, sharing=Sharing(is_by_usage=True, **sharing))
    for name, weight in zip("ab", weights, strict=True):
        made.queue(name, parent="pool", sharing=Sharing(weight=weight))
    return made


def started(made, *, usage=None, shard=SHARD):
    """Return how many jobs of each queue start in a cycle."""
    return dict(Counter(name[0] for name in made.run(shard=shard, usage=usage).placed))


def test_who_has_used_less_goes_first_whatever_the_priority():
    made = pool(quota=1)
    made.job("a0", queue="a", priority=90).job("b0", queue="b", priority=10)
    assert started(made, usage={"a": 0.2, "b": 0.1}) == {"b": 1}
    assert started(made, usage={"a": 0.1, "b": 0.2}) == {"a": 1}


def test_of_equal_usage_the_higher_priority_goes_first_and_then_the_older():
    made = pool(quota=1).job("a0", queue="a", priority=10).job("b0", queue="b", priority=90)
    assert started(made, usage={"a": 0.1, "b": 0.1}) == {"b": 1}
    made = pool(quota=1).job("a0", queue="a").job("b0", queue="b")
    assert started(made, usage={"a": 0.1, "b": 0.1}) == {"a": 1}


@pytest.mark.parametrize(("weights", "first"), [((1, 2), "b"), ((2, 1), "a"), ((0, 1), "b")])
def test_usage_is_divided_by_the_weight_and_weight_0_comes_last(weights, first):
    made = pool(quota=1, weights=weights).job("a0", queue="a").job("b0", queue="b")
    assert started(made, usage={"a": 0.1, "b": 0.1}) == {first: 1}


def test_of_weight_0_only_what_others_leave_is_had():
    made = pool(quota=3, weights=(0, 1))
    for at in range(3):
        made.job(f"a{at}", queue="a", priority=90)
    made.job("b0", queue="b").job("b1", queue="b")
    assert started(made) == {"b": 2, "a": 1}


def test_what_starts_counts_at_once():
    made = pool(quota=6, gpus=6)
    for at in range(6):
        made.job(f"a{at}", queue="a", priority=90).job(f"b{at}", queue="b")
    assert started(made, usage={"a": 0.0, "b": 0.0}) == {"a": 3, "b": 3}
    made = pool(quota=6, gpus=6, weights=(1, 2))
    for at in range(6):
        made.job(f"a{at}", queue="a", priority=90).job(f"b{at}", queue="b")
    assert started(made, usage={"a": 0.0, "b": 0.0}) == {"a": 2, "b": 4}


def test_what_started_a_moment_ago_counts_before_the_history_has_it():
    """B has used a little more than A until now, but A has just begun with two GPUs."""
    for ago_s, interval, first in ((1, "5m", "b"), (1, "0s", "a"), (3600, "5m", "a")):
        made = pool(quota=3)
        made.job("a0", queue="a", tasks=2, running={"n0": 2}, started_s=NOW_S - ago_s)
        made.job("a1", queue="a", priority=90).job("b0", queue="b")
        shard = shard_with(usageSamplingInterval=interval)
        assert started(made, usage={"a": 0.01, "b": 0.02}, shard=shard) == {first: 1}


def test_without_a_history_who_holds_less_goes_first():
    made = pool(quota=4).job("a0", queue="a", tasks=2, running={"n0": 2})
    for at in range(3):
        made.job(f"a{at + 1}", queue="a", priority=90).job(f"b{at}", queue="b")
    shard = {"plugins": PLUGINS}
    assert started(made, shard=shard) == {"b": 2}


def test_resources_count_by_their_weights():
    used = {"a": {"gpu": 0.5, "cpu": 0.0}, "b": {"gpu": 0.0, "cpu": 0.6}}
    made = ClusterBuilder().node("n0", gpu=1, cpu=100)
    made.queue("pool", deserved={"gpu": 1, "cpu": 100}, sharing=POOL)
    made.queue("a", parent="pool").queue("b", parent="pool")
    made.job("a0", queue="a").job("b0", queue="b")
    assert started(made, usage=used) == {"a": 1}
    assert started(made, usage=used, shard=shard_with(resourceWeights={"cpu": 0.1})) == {"b": 1}


def test_in_compatible_mode_cores_and_gpus_count_as_they_are():
    """60 of 100 cores are more than half a GPU, and a larger part of the cluster than 1 of 2."""
    used = {"a": {"gpu": 0.9}, "b": {"cpu": 0.3}}
    made = ClusterBuilder().node("n0", gpu=1, cpu=100)
    made.queue("pool", deserved={"gpu": 1, "cpu": 100}, sharing=POOL)
    made.queue("a", parent="pool").queue("b", parent="pool")
    made.job("a0", queue="a").job("b0", queue="b")
    assert started(made, usage=used) == {"b": 1}
    assert started(made, usage=used, shard=shard_with(isCompatible=True)) == {"a": 1}


def test_the_pool_borrows_and_lends_as_one_queue():
    made = ClusterBuilder().node("n0", gpu=8).queue("top")
    made.queue("pool", parent="top", deserved=2, borrowing=1, sharing=POOL)
    made.queue("a", parent="pool").queue("b", parent="pool")
    made.queue("lender", parent="top", deserved=6)
    for at in range(4):
        made.job(f"a{at}", queue="a").job(f"b{at}", queue="b")
    assert sum(started(made, usage={"a": 0.1, "b": 0.1}).values()) == 3


def test_non_preemptible_work_has_the_quota_of_the_pool():
    made = pool(quota=2)
    for at in range(3):
        made.job(f"a{at}", queue="a", is_preemptible=False)
    assert started(made) == {"a": 2}


@pytest.mark.parametrize("is_compatible", [False, True])
def test_a_queue_of_a_pool_takes_from_another_by_the_pools_own_policy(is_compatible):
    shard = shard_with(isCompatible=is_compatible)
    for policy, gone in (("LowerPriority", 1), ("Never", 0)):
        made = pool(quota=2, gpus=2, within=policy)
        made.job("b0", queue="b", priority=10, running={"n0": 1})
        made.job("b1", queue="b", priority=20, running={"n0": 1})
        made.job("a0", queue="a", priority=50)
        ran = made.run(shard=shard, usage={"a": 0.1, "b": 0.2})
        assert list(ran.evicted) == ["b0-0"] * gone


def test_the_victims_of_who_used_more_go_first_in_the_own_pool():
    made = pool(quota=3, gpus=3)
    made.queue("c", parent="pool")
    made.job("a0", queue="a", priority=10, running={"n0": 1})
    made.job("b0", queue="b", priority=20, running={"n0": 1})
    made.job("c0", queue="c", priority=60, running={"n0": 1})
    made.job("c1", queue="c", priority=50)
    ran = made.run(shard=SHARD, usage={"a": 0.1, "b": 0.3, "c": 0.0})
    assert list(ran.evicted) == ["b0-0"]


def test_nobody_gives_way_to_who_would_come_after_it():
    """By usage B comes first in any case: what it lost it would have back at once."""
    made = pool(quota=1, gpus=1)
    made.job("b0", queue="b", priority=10, running={"n0": 1})
    made.job("a0", queue="a", priority=50)
    used = {"a": 0.5, "b": 0.2}
    assert not made.run(shard=SHARD, usage=used).evicted
    assert made.run(shard=shard_with(isCompatible=True), usage=used).evicted


def test_another_queue_reclaims_from_the_pool_and_who_used_more_gives():
    made = ClusterBuilder().node("n0", gpu=4).queue("top")
    made.queue("pool", parent="top", deserved=2, sharing=POOL)
    made.queue("a", parent="pool").queue("b", parent="pool")
    made.queue("other", parent="top", deserved=2)
    for at in range(2):
        made.job(f"a{at}", queue="a", priority=60, running={"n0": 1})
        made.job(f"b{at}", queue="b", running={"n0": 1})
    made.job("o0", queue="other")
    ran = made.run(shard=SHARD, usage={"a": 0.3, "b": 0.1})
    assert [name[0] for name in ran.evicted] == ["a"]
    (sentence,) = {each.reason for each in ran.result.evictions}
    assert "from queue pool: share" in sentence


def test_a_refusal_names_the_pool():
    made = pool(quota=1, gpus=2).job("a0", queue="a", running={"n0": 1}).job("b0", queue="b")
    (record,) = made.run(shard=SHARD).result.records
    assert record.message.startswith("queue pool: gpu 1 of 1 held, 1 asked")


def test_past_usage_is_told_as_a_figure():
    made = pool(weights=(1, 2)).job("a0", queue="a")
    shares = made.run(shard=SHARD, usage={"a": 0.3, "b": 0.3}).result.shares
    told = {each.name: each.figures["past_usage"] for each in shares}
    assert told == pytest.approx({"pool": 0.6, "a": 0.3, "b": 0.15})


def test_parts_of_a_history():
    spans = np.array([-1.0, 0.0, 1800.0, 3600.0, 1e9])
    fading = part_of_history(spans, 3600.0, 86400.0).tolist()
    assert fading == pytest.approx([0.0, 0.0, 1 - 0.5**0.5, 0.5, 1.0])
    even = part_of_history(spans, 0.0, 3600.0).tolist()
    assert even == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.0])


def test_a_score_adds_up_weighs_and_divides():
    consumed, penalty = np.array([[4.0, 4.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    got = scores(consumed, penalty, np.array([1.0, 5.0]), np.array([2.0, -1.0]))
    assert got.tolist() == [(4 + 5 * 3) / 2, np.inf]


def test_penalties_add_up_by_queue():
    got = penalties(np.array([1, 0, 1]), np.array([[2, 4, 6]]), np.array([0.5, 1.0, 0.25]), 3)
    assert got.tolist() == [[4.0, 2.5, 0.0]]


def test_time_based_fairshare_does_not_spare_one_member_from_another():
    made = pool(quota=1, gpus=1)
    made.job("b0", queue="b", priority=10, running={"n0": 1})
    made.job("a0", queue="a", priority=50)
    both = {**SHARD, "plugins": {**PLUGINS, "time-based-fairshare": {"enabled": True}}}
    assert list(made.run(shard=both, usage={"a": 0.2, "b": 0.2}).evicted) == ["b0-0"]


def test_evictions_name_the_member_that_lost_and_by_what_right():
    made = ClusterBuilder().node("n0", gpu=4).queue("top")
    made.queue("pool", parent="top", deserved=2, sharing=POOL)
    made.queue("a", parent="pool").queue("b", parent="pool")
    made.queue("other", parent="top", deserved=2)
    for at in range(2):
        made.job(f"a{at}", queue="a", running={"n0": 1}).job(f"b{at}", queue="b")
        made.job(f"x{at}", queue="b", running={"n0": 1})
    made.job("o0", queue="other")
    for name, kind in (("shares", "reclamation"), ("classical", "reclamation")):
        shard = shard_with(isClassical=name == "classical")
        (move,) = made.run(shard=shard, usage={"a": 0.3}).result.evictions
        assert (move.pod[:9], move.kind) == ("default/a", kind)
