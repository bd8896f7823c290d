"""``kaisched explain fairness``: the numbers, the sentence, and invalid options."""

import json

import pytest

from kaisched.engine import history_cost
from kaisched.engine.history_cost import Pool, Use
from kaisched.testing import ClusterBuilder
from kaisched_plugins.time_based_fairshare import handover

HOUR = 3600.0


def pool(k=1.0, half_life_s=0.0, window_s=10 * HOUR, gpus=10, **weights):
    return Pool(gpus, weights or {"a": 1.0, "b": 1.0}, k, half_life_s, window_s)


def test_published_24_of_100_gpu_hours():
    assert history_cost.usage_after(pool(), Use(8, 3 * HOUR), 0) == pytest.approx(0.24)
    assert history_cost.usage_after(pool(gpus=10), Use(6, 4 * HOUR), 0) == pytest.approx(0.24)


def test_published_half_life():
    """Usage of a half-life ago counts half."""
    decaying = pool(half_life_s=HOUR, window_s=1000 * HOUR)
    now, later = (history_cost.usage_after(decaying, Use(10, HOUR), at) for at in (0, HOUR))
    assert now == pytest.approx(0.5)
    assert later == pytest.approx(now / 2)


@pytest.mark.parametrize("k", [0, 0.5, 1, 2])
@pytest.mark.parametrize("gpus", [0, 4, 12, 16])
def test_shares_are_those_of_a_cycle(k, gpus):
    sixteen = pool(k, gpus=16, a=3.0, b=1.0)
    told = history_cost.shares_after(sixteen, {"a": Use(gpus, 5 * HOUR)}, 0)
    builder = ClusterBuilder().node("n0", gpu=16).queue("a", weight=3).queue("b")
    for name in "ab":
        builder.job(name, queue=name, tasks=32, min_tasks=1)
    shard = {
        "kValue": k,
        "plugins": {"time-based-fairshare": {"enabled": True}},
    }
    ran = builder.run("allocate", usage={"a": gpus / 16 / 2}, shard=shard)
    for share in ran.result.shares:
        assert share.fair_share["gpu"] / 1000 == pytest.approx(told[share.name], abs=1)


def test_the_usage_that_costs_all_of_the_surplus():
    edge = history_cost.no_surplus_from(pool(2), "a")
    assert edge == 0.75
    at_edge = history_cost.shares_after(pool(2), {"a": Use(7.5, 10 * HOUR)}, 0)
    assert at_edge == {"a": 0, "b": 10}
    assert history_cost.no_surplus_from(pool(0.5), "a") is None
    assert history_cost.no_surplus_from(pool(0), "a") is None


def test_a_share_is_back_when_the_usage_is_gone():
    used = {"a": Use(10, HOUR)}
    assert history_cost.back_after_s(pool(), used, "a") == pytest.approx(10 * HOUR, rel=0.1)
    assert history_cost.back_after_s(pool(), {}, "a") == 0


def test_time_slices_are_those_of_the_plugin():
    assert history_cost.SLICES_OF_HISTORY == handover.SLICES_OF_HISTORY
    assert history_cost.shortest_slice_s(pool(window_s=16 * HOUR), "a") == HOUR
    assert history_cost.shortest_slice_s(pool(0.5, window_s=16 * HOUR), "a") == 2 * HOUR
    assert history_cost.shortest_slice_s(pool(0), "a") is None


LINE = ("explain", "fairness", "--weights", "A=1,B=1", "--usage", "A=16x12h", "--half-life", "12h")


def test_it_says_so_in_a_sentence_and_two_tables(run):
    code, out, err = run(*LINE)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == (
        "A: using 16 of 16 GPUs for 12h is a usage of 0.500; with a weight of 1 of 2 and k = 1 "
        "that costs it 2.7 of 8 GPUs of surplus (33 %), which makes a share of 5 in whole GPUs; "
        "its share is back within 1 % of the cluster after 1d20h5m, and is nothing from a usage "
        "of 1.000 on."
    )
    assert out.splitlines()[1] == (
        "Jobs that are larger than the share of their queue start in this order: B, then A."
    )
    assert "A           1  0.500          8   5.3      5      1.000   1h5m" in out
    assert "12h    6.9   9.1" in out


def test_so_many_gpus_for_so_long_at_a_weight_are_a_penalty_of_a_half(run):
    """The sentence of the proposal: X GPUs for T hours at weight W are penalised by 50 %.

    16 of 16 GPUs for 48 hours of 168 are a usage U of 2/7. Its weight W is 1/4, and k = 1:
    2 W - U = 3/14, the other 2 x 3/4 = 21/14; of the sum of 24/14 that is 1/8 in place of 1/4.
    """
    _, out, _ = run(
        *("explain", "fairness", "--gpus", "16", "--window", "1w", "--k", "1"),
        *("--weights", "A=1,B=3", "--usage", "A=16x48h"),
    )
    assert "costs it 2 of 4 GPUs of surplus (50 %), which makes a share of 2 in whole GPUs" in out


@pytest.mark.parametrize("gpus", [1, 2, 3, 16])
def test_whole_shares_are_those_of_a_cycle(gpus):
    """Two queues of which one used a day of a week: of 2 GPUs each has 1, as without history."""
    two = pool(0.5, window_s=168 * HOUR, gpus=gpus, a=1.0, b=1.0)
    used = {"a": Use(gpus, 24 * HOUR)}
    builder = ClusterBuilder().node("n0", gpu=gpus).queue("a").queue("b")
    for name in "ab":
        builder.job(name, queue=name, tasks=32, min_tasks=1)
    shard = {"kValue": 0.5, "plugins": {"time-based-fairshare": {"enabled": True}}}
    ran = builder.run("allocate", usage={"a": 1 / 7}, shard=shard)
    shares = {share.name: share.fair_share["gpu"] // 1000 for share in ran.result.shares}
    assert shares == history_cost.whole_shares(two, used)
    assert history_cost.order(two, used) == ["b", "a"]


def test_it_says_so_in_json(run):
    code, out, _ = run(*LINE, "-o", "json")
    document = json.loads(out)
    assert (code, document["schemaVersion"]) == (0, "kaisched.io/fairness/v1")
    assert [row["queue"] for row in document["queues"]] == ["A", "B"]
    assert document["queues"][0]["usage"] == pytest.approx(0.5, abs=1e-4)
    assert document["later"][0]["gpus"]["A"] == document["queues"][0]["gpusNow"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"--weights": "A=3,B"}, "--weights: not NAME=VALUE (value 'B'); write such as A=3,B=1"),
        ({"--weights": "A=1,A=2"}, "--weights: given twice (value 'A')"),
        ({"--weights": "A=0"}, "--weights A: no weight (value '0')"),
        ({"--weights": "A=x"}, "--weights A: no weight (value 'x')"),
        ({"--usage": "C=8x12h"}, "--usage: no such queue (value 'C'); name one of A, B"),
        ({"--usage": "A=much"}, "--usage: no usage (value 'much'); write A=8x12h"),
        ({"--usage": "A=17x1h"}, "--usage: more than the cluster had (value '17x1h')"),
        ({"--usage": "A=0.6,B=0.6"}, "--usage: more than the cluster had"),
        ({"--usage": "A=8x12"}, "--usage: '12' has no unit"),
        ({"--k": "-1"}, "--k: out of range (value -1.0)"),
        ({"--k": "nan"}, "--k: out of range"),
        ({"--window": "0s"}, "--window: must be longer than 0s"),
        ({"--half-life": "long"}, "--half-life: 'long' is no duration"),
    ],
)
def test_what_cannot_be_meant_is_one_line(run, given, told):
    options = {"--weights": "A=1,B=1", "--usage": "A=8x12h"} | given
    code, out, err = run(
        "explain", "fairness", *(word for pair in options.items() for word in pair)
    )
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"kaisched: {told}")
