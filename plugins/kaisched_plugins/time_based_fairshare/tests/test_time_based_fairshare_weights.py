"""What past usage makes of fair shares: published numbers, guarantees, depth, switches."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from kaisched import GPU
from kaisched.testing import ClusterBuilder, check_plugin
from kaisched.testing.builder import usage_of
from kaisched_plugins.time_based_fairshare import TimeBasedFairshare
from kaisched_plugins.time_based_fairshare.history import transformed


def shard_of(k=1.0, **arguments):
    given = {"kValue": k, **arguments}
    return {"plugins": {"time-based-fairshare": {"enabled": True, "arguments": given}}}


def shares_of(gpus, queues, used, shard=None, **options):
    """Fair shares in GPUs; each leaf queue wants more than there is."""
    builder = ClusterBuilder().node("n0", gpu=gpus)
    parents = {said.get("parent") for said in queues.values()}
    for name, said in queues.items():
        builder.queue(name, **said)
    for name in queues.keys() - parents:
        builder.job(name, queue=name, gpu=0, cpu=0, tasks=1)
        builder.job(f"{name}-wants", queue=name, tasks=2 * gpus, min_tasks=1)
    ran = builder.run("allocate", usage=used, shard=shard or shard_of(**options))
    return {share.name: share.fair_share["gpu"] / 1000 for share in ran.result.shares}


PAIR: dict[str, dict[str, Any]] = {"a": {}, "b": {}}


@pytest.mark.parametrize(
    ("k", "used", "expected"),
    [
        (0, (1, 0), (8, 8)),
        (0.5, (1, 0), (4, 12)),
        (0.5, (0.75, 0.25), (6, 10)),
        (1, (1, 0), (0, 16)),
        (1, (0.75, 0.25), (4, 12)),
        (1, (0.96875, 0.03125), (1, 15)),
        (1, (0.97, 0.03), (0, 16)),
        (2, (0.75, 0.25), (0, 16)),
    ],
)
def test_published_two_queues_of_sixteen_gpus(k, used, expected):
    assert shares_of(16, PAIR, dict(zip("ab", used, strict=True)), k=k) == dict(
        zip("ab", expected, strict=True)
    )


@pytest.mark.parametrize(
    ("used", "counted", "above_alone"),
    [
        ((0.5, 0.0), (5, 11), (8, 8)),  # a kept within its half
        ((0.75, 0.0), (3, 13), (5, 11)),  # 0.5 - 0.25 and 0.5, of 0.75
        ((1.0, 0.0), (0, 16), (0, 16)),
        ((0.25, 0.1), (7, 9), (8, 8)),
    ],
)
def test_use_within_the_share_counts_or_does_not(used, counted, above_alone):
    of = dict(zip("ab", used, strict=True))
    assert tuple(shares_of(16, PAIR, of).values()) == counted
    assert tuple(shares_of(16, PAIR, of, countInShare=False).values()) == above_alone


def test_published_one_hundred_gpus():
    assert shares_of(100, PAIR, {"a": 0.6, "b": 0.2}) == {"a": 33, "b": 67}


def test_published_quotas_and_weights_with_usage_that_counts_whole():
    queues = {"a": {"deserved": 10, "weight": 3}, "b": {"deserved": 10, "weight": 1}}
    assert shares_of(100, queues, None) == {"a": 70, "b": 30}
    used = {"a": 0.6, "b": 0.2}
    # 80 GPUs of surplus: 0.75 + 0.75 - 0.6 and 0.25 + 0.25 - 0.2.
    as_kai = {"normalization": "cluster", "countInQuota": True}
    assert shares_of(100, queues, used, **as_kai) == {"a": 70, "b": 30}


@pytest.mark.parametrize(("k", "third"), [(0, 5), (0.5, 8), (1, 11), (1.16, 12), (2, 16)])
def test_published_burst_queue(k, third):
    # Listed by age: of equal fractions the older wins, of three thirds a GPU `a`, of two `c` too.
    assert shares_of(16, {"a": {}, "c": {}, "b": {}}, {"a": 0.5, "b": 0.5}, k=k)["c"] == third


def test_published_cold_start_of_three_queues():
    assert shares_of(16, {"a": {}, "b": {}, "c": {}}, {"a": 1}, k=10) == {"a": 0, "b": 8, "c": 8}


def test_published_end_to_end_weights():
    got = transformed(
        100, np.array([1.0, 0.0]), np.zeros(2, np.int64), np.array([10000, 1]) / 10001
    )
    assert (got / got.sum()).round(4).tolist() == [0.9899, 0.0101]


def test_the_published_switch_of_two_whole_cluster_queues():
    """The one that ran loses all where its usage passes 0.5 + (15/32)/k, so never below 0.9375."""
    for k, edge in ((0.9375, 1.0), (1.0, 0.96875), (2.0, 0.734375)):
        below, above = edge - 1e-6, min(edge + 1e-6, 1.0)
        assert shares_of(16, PAIR, {"a": below, "b": 1 - below}, k=k)["b"] < 16
        if edge < 1:
            assert shares_of(16, PAIR, {"a": above, "b": 1 - above}, k=k)["b"] == 16


# -- guarantees ----------------------------------------------------------------------------------


def test_no_history_takes_what_is_deserved():
    queues = {"a": {"deserved": 10}, "b": {}}
    assert shares_of(16, queues, {"a": 1}, k=100) == {"a": 10, "b": 6}


def test_no_history_comes_before_priority():
    queues = {"a": {"priority": 200}, "b": {"priority": 100}}
    assert shares_of(16, queues, {"a": 1}, k=100) == {"a": 16, "b": 0}


@pytest.mark.parametrize("off", [None, {}, {"a": 0.0}])
def test_without_usage_shares_are_as_without_the_plugin(off):
    queues = {"a": {"weight": 3}, "b": {"deserved": 2, "weight": 0.7}, "c": {"weight": 1.1}}
    assert shares_of(17, queues, off) == shares_of(17, queues, None, shard={})


# -- what counts ---------------------------------------------------------------------------------

QUOTA = {"a": {"deserved": 8}, "b": {}}


def test_usage_that_the_quota_covers_does_not_count():
    """Inference within its quota costs its queue no training."""
    assert shares_of(16, QUOTA, {"a": 0.5}) == {"a": 12, "b": 4}
    # One third of the surplus, 2.67 GPUs, in place of half.
    assert shares_of(16, QUOTA, {"a": 0.5}, countInQuota=True) == {"a": 8 + 3, "b": 5}


def test_usage_beyond_the_quota_is_measured_against_the_surplus():
    # All of the surplus, which is half of the cluster: U is 1.
    assert shares_of(16, QUOTA, {"a": 1.0}) == {"a": 8, "b": 8}
    assert shares_of(16, QUOTA, {"a": 1.0}, normalization="cluster") == {"a": 8 + 3, "b": 8 - 3}


def departments(count=4) -> dict[str, dict[str, Any]]:
    queues: dict[str, dict[str, Any]] = {}
    for number in range(count):
        queues[f"d{number}"] = {}
        queues |= {f"d{number}{at}": {"parent": f"d{number}"} for at in "ab"}
    return queues


EACH = {f"d{number}a": 0.25 for number in range(4)}


def test_correction_does_not_fade_with_depth():
    """In each of four departments one queue has used all and the other nothing."""
    deep = shares_of(64, departments(), EACH)
    assert {deep[name] for name in ("d0a", "d1a", "d2a", "d3a")} == {0}
    assert {deep[name] for name in ("d0b", "d1b", "d2b", "d3b")} == {16}


def test_in_kai_it_does():
    deep = shares_of(64, departments(), EACH, normalization="cluster")
    assert (deep["d0a"], deep["d0b"]) == (7, 9)


def test_little_use_of_a_part_that_nobody_wanted_is_no_heavy_penalty():
    """All that a department used, a 25th of its part, was used by one of its queues."""
    deep = shares_of(100, departments(), {"d0a": 0.01})
    assert (deep["d0"], deep["d0a"], deep["d0b"]) == (25, 12, 13)


@pytest.mark.fault("H117")
def test_a_department_that_used_more_than_its_part_is_measured_by_what_it_used():
    deep = shares_of(100, departments(), {"d0a": 0.4, "d0b": 0.4})
    assert deep["d0a"] == pytest.approx(deep["d0b"], abs=1)


def test_each_resource_has_its_own_history():
    builder = ClusterBuilder().node("n0", gpu=16, cpu=100)
    for name in "ab":
        builder.queue(name, deserved={"gpu": 0, "cpu": 0}, weight={"gpu": 1, "cpu": 1})
        builder.job(name, queue=name, tasks=200, min_tasks=1)
    ran = builder.run("allocate", usage={"a": {"cpu": 1}}, shard=shard_of())
    got = [(share.fair_share["gpu"], share.fair_share["cpu"]) for share in ran.result.shares]
    assert got == [(8000, 0), (8000, 100_000)]


# -- switches ------------------------------------------------------------------------------------


def test_arguments_may_be_text_as_in_kai():
    arguments = TimeBasedFairshare.Arguments.model_validate({"kValue": "0.5"})
    assert (arguments.k_value, arguments.normalization, arguments.count_in_quota) == (
        0.5,
        "siblings",
        False,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kValue": -1},
        {"kValue": "nan"},
        {"kValue": 1e7},
        {"kvalue": 1},
        {"normalization": "queue"},
        {"countInQuota": "some"},
    ],
)
def test_arguments_out_of_range_and_misspelt_ones_are_refused(wrong):
    with pytest.raises(ValidationError):
        TimeBasedFairshare.Arguments.model_validate(wrong)


def test_it_keeps_the_contract_of_plugins():
    check_plugin(TimeBasedFairshare)
    check_plugin(TimeBasedFairshare, {"normalization": "cluster", "countInQuota": True})


def test_a_session_knows_the_usage_of_every_queue_and_resource():
    builder = ClusterBuilder().node("n0", gpu=4).queue("top").queue("a", parent="top")
    ran = builder.run("allocate", usage={"a": 0.25})
    assert ran.result.stats.abandoned == ""
    assert usage_of(ran.snapshot, {"a": 0.25}).parts[GPU].tolist() == [250_000_000] * 2
