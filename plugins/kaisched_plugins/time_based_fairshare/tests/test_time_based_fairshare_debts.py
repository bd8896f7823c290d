"""Time-based fairness: what only history justifies must be worth what it destroys (R35)."""

from dataclasses import replace

import pytest

from kaisched.framework.advice.search import Adviser
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of, usage_of

HOUR_S = 3600.0
WEEK_S = 168 * HOUR_S


def result_of(builder, used, weighed_s, **arguments):
    """Run a cycle; ``used`` says what queues have used of the cluster, in parts of all of it."""
    snapshot = builder.store().snapshot()
    usage = replace(usage_of(snapshot, used), weighed_s=weighed_s)
    plugin = {"enabled": True, "arguments": {"kValue": 1, **arguments}}
    policy = policy_of({"plugins": {"time-based-fairshare": plugin}})
    result, _ = run_cycle(snapshot, usage, policy, 1e6, Memory())
    assert not result.failures
    return result


def decided(*args, **arguments):
    """Return the jobs that lose pods, each as often, and what is said of waiting jobs."""
    result = result_of(*args, **arguments)
    evicted = sorted(eviction.pod.partition("/")[2] for eviction in result.evictions)
    return evicted, {record.pod_group: record.message for record in result.records}


def singles(queues, gpus):
    """Return a cluster of one node; queues by name as (one-GPU jobs that run, that wait)."""
    builder = ClusterBuilder().node("n0", gpu=gpus)
    for name, (runs, waits) in queues.items():
        builder.queue(name)
        for at in range(runs + waits):
            running = {"n0": 1} if at < runs else None
            builder.job(f"{name}{at}", queue=name, running=running)
    return builder


def cycle(queues, used, weighed_s, gpus=16, **arguments):
    """Return how many of the one-GPU jobs are evicted, and what waiting jobs of b are told."""
    evicted, told = decided(singles(queues, gpus), used, weighed_s, **arguments)
    return len(evicted), " ".join(told[name] for name in sorted(told) if "/b" in name)


# b has used an eighth of 16 GPUs less than a, so that its share is 9: in an hour a has had a
# GPU-hour of b's.
MUCH = {"a": 0.5625, "b": 0.4375}
# b has used 0.064 of them less, so that its share is 8.5, and 9 by the largest remainder: in an
# hour a has had 0.51 GPU-hours of b's, in 20.5 the 10.5 that an eighth of a week over 1 + k is.
LITTLE = {"a": 0.532, "b": 0.468}
AT_PART = {"a": (8, 4), "b": (8, 4)}


@pytest.mark.parametrize(
    ("hours", "more", "evicted"),
    [
        (0.4, {}, 0),
        (0.5, {}, 1),
        (0.9, {"evictionCost": "1h"}, 0),
        (1, {"evictionCost": "1h"}, 1),
        (0.1, {"evictionCost": "0s"}, 1),
        pytest.param(0.3, {"windowSize": "4h"}, 1, id="a sixteenth of the history at k = 1"),
    ],
)
def test_a_gpu_more_than_by_weight_is_taken_when_so_much_is_owed(hours, more, evicted):
    count, messages = cycle(AT_PART, MUCH, hours * HOUR_S, **more)
    assert count == evicted
    assert ("owes its queue less" in messages) == (not evicted)


@pytest.mark.parametrize(
    ("hours", "more", "evicted"),
    [
        (20, {}, 0),
        (21, {}, 1),
        (20, {"evictionCost": "1m"}, 0),
        (0.1, {"evictionCost": "0s"}, 1),
        pytest.param(0.9, {"windowSize": "4h"}, 1, id="a sixteenth of the history at k = 1"),
        pytest.param(0.6, {"windowSize": "4h", "kValue": 3}, 2, id="a 32nd at k = 3"),
    ],
)
def test_a_gpu_that_only_rounding_gives_costs_the_most(hours, more, evicted):
    count, messages = cycle(AT_PART, LITTLE, hours * HOUR_S, **more)
    assert count == evicted
    assert ("owes its queue less" in messages) == (not evicted)


def test_who_is_owed_too_little_hears_what_quota_needs_no_debt():
    records = Adviser(result_of(singles(AT_PART, 16), LITTLE, 0.9 * HOUR_S)).records()
    found = next(it for it in records if it.pod_group == "default/b8")
    assert "owes its queue less" in found.eviction_refusals["reclaim"]
    # With one GPU deserved, b may have it and half of the other 15, rounded 9, whatever was used.
    assert "would help: a quota of gpu 1 for queue b" in found.message


def test_what_the_division_without_history_gives_needs_no_debt():
    assert cycle({"a": (10, 4), "b": (6, 4)}, LITTLE, 60.0)[0] == 2


def test_a_gpu_that_cannot_be_divided_is_nobodys_without_a_debt():
    # Of 15 GPUs the older queue has 8 by the largest remainder, of which half a GPU is not its own.
    queues = {"a": (8, 4), "b": (7, 4)}
    assert cycle(queues, {"a": 0.51, "b": 0.49}, HOUR_S, gpus=15)[0] == 0
    # 0.15 GPU-hours in an hour, of which 10.5 are needed.
    assert cycle(queues, {"a": 0.51, "b": 0.49}, 69 * HOUR_S, gpus=15)[0] == 0
    assert cycle(queues, {"a": 0.51, "b": 0.49}, 71 * HOUR_S, gpus=15)[0] == 1


@pytest.mark.parametrize(
    ("holds", "used"),
    [
        pytest.param((16, 15, 9), (0.2790, 0.2788, 0.4422), id="a and b are paid back by c"),
        pytest.param((10, 9, 21), (0.4290, 0.4288, 0.1422), id="a and b pay c back"),
    ],
)
def test_what_one_queue_owes_another_a_third_does_not_pay(holds, used):
    # By history a is due 15.5 or 9.5 GPUs, b a little more: the unit between them is b's.
    queues = {name: (runs, 4) for name, runs in zip("abc", holds, strict=True)}
    had = dict(zip("abc", used, strict=True))
    assert cycle(queues, had, WEEK_S / 4, gpus=40)[0] == 0
    assert cycle(queues, had, WEEK_S / 4, gpus=40, evictionCost="0s")[0] == 1
    assert cycle(queues, {**had, "a": had["a"] + 0.003}, WEEK_S, gpus=40)[0] == 1


def test_what_quotas_cover_needs_no_debt():
    # a is owed by c, which must give way to b though it holds no more than without history.
    builder = ClusterBuilder().node("n0", gpu=16).queue("a").queue("b", deserved=4).queue("c")
    for name, runs in {"a": 8, "b": 3, "c": 5}.items():
        builder.job(f"{name}-runs", queue=name, tasks=runs, running={"n0": runs}, min_tasks=1)
        builder.job(f"{name}-waits", queue=name)
    used = {"a": 0.2, "b": 0.1, "c": 0.4}
    assert len(decided(builder, used, 60.0)[0]) == 1


@pytest.mark.parametrize(("minimum", "hours"), [(8, 4), (1, 0.5)])
def test_a_gang_is_worth_all_that_goes_with_it_and_an_elastic_pod_itself(minimum, hours):
    # By history 9 of 16 GPUs are b's; the job of a goes whole, or loses one pod.
    builder = ClusterBuilder().node("n0", gpu=8).node("n1", gpu=8).queue("a").queue("b")
    builder.job("a0", queue="a", tasks=8, min_tasks=minimum, running={"n0": 8})
    builder.job("b0", queue="b", tasks=8, min_tasks=1, running={"n1": 8})
    builder.job("b1", queue="b")
    assert not decided(builder, MUCH, (hours - 0.3) * HOUR_S)[0]
    assert len(decided(builder, MUCH, hours * HOUR_S)[0]) == minimum


def test_what_history_granted_is_kept_while_it_is_owed():
    """B holds a gang of 11 of 16 GPUs; a, below its plain share of 8, wants one more.

    While a owes b, it takes nothing. When they are even it does. And up to k = 0.25 history grants
    no more than 10, with which 11 are too much whatever is owed.
    """

    def evicted(used, k=1.0):
        builder = ClusterBuilder().node("n0", gpu=16).queue("a").queue("b")
        for at in range(5):
            builder.job(f"a{at}", queue="a", running={"n0": 1})
        builder.job("b0", queue="b", tasks=11, running={"n0": 11}).job("b1", queue="b")
        builder.job("a-waits", queue="a", tasks=4, min_tasks=1)
        return len(decided(builder, used, WEEK_S, kValue=k)[0])

    assert evicted({"a": 0.6, "b": 0.4}) == 0
    assert evicted({"a": 0.5, "b": 0.5}) == 11
    assert evicted({"a": 0.6, "b": 0.4}, k=0.25) == 11


def test_departments_are_compared_where_their_paths_part():
    # Of the same usage, all that b1 has not had b2 has had; their departments are even.
    builder = ClusterBuilder().node("n0", gpu=15).queue("x").queue("y")
    for name, parent in {"a": "x", "b1": "y", "b2": "y"}.items():
        builder.queue(name, parent=parent)
    for name, runs in {"a": 8, "b1": 0, "b2": 7}.items():
        for at in range(runs + 1):
            running = {"n0": 1} if at < runs else None
            builder.job(f"{name}-{at}", queue=name, running=running)
    used = {"a": 0.4, "b1": 0.0, "b2": 0.4}
    evicted, _ = decided(builder, used, WEEK_S)
    assert [pod.partition("-")[0] for pod in evicted] == ["b2"]


def test_surplus_by_quotas_is_owed_by_quotas():
    # Quotas of 3 and 1, of 16 GPUs: a is due 12 of them, and has had so much less.
    builder = ClusterBuilder().node("n0", gpu=16).queue("a", deserved=3).queue("b", deserved=1)
    for name, runs in {"a": 11, "b": 5}.items():
        for at in range(runs + 2):
            running = {"n0": 1} if at < runs else None
            builder.job(f"{name}{at}", queue=name, running=running)
    snapshot = builder.store().snapshot()
    usage = replace(usage_of(snapshot, {"a": 0.71, "b": 0.29}), weighed_s=WEEK_S)
    plugins = {"time-based-fairshare": {"enabled": True}}
    policy = policy_of({"plugins": plugins, "overQuotaWeights": "quota"})
    result, _ = run_cycle(snapshot, usage, policy, 1e6, Memory())
    assert len(result.evictions) == 2


@pytest.mark.parametrize("queues", [20, 50])
def test_among_many_queues_a_job_of_the_whole_cluster_is_owed_enough_within_an_hour_or_so(queues):
    # A history that counts for so much gives who has had nothing everything: no other rule stops
    # it. The others, of which each has had a little, owe it half of that each.
    holds = {f"q{at:02}": (1, 1) for at in range(queues - 1)}
    builder = singles(holds, queues - 1).queue("z").job("z0", queue="z", tasks=queues - 1)
    used = dict.fromkeys(holds, 1 / len(holds))
    k = float(queues)
    assert not decided(builder, used, 0.7 * HOUR_S, kValue=k)[0]
    assert len(decided(builder, used, 1.1 * HOUR_S, kValue=k)[0]) == queues - 1


def test_the_reason_is_that_of_who_would_have_to_give_way():
    # Most queues hold no more than their share, but that is not what stops it.
    queues = dict.fromkeys("abcdefgh", (1, 1)) | {"a": (2, 1), "b": (1, 2)}
    used = dict.fromkeys(queues, 1 / 9) | {"a": 0.112, "b": 0.110}
    count, messages = cycle(queues, used, HOUR_S, gpus=9)
    assert count == 0
    assert "owes its queue less" in messages
