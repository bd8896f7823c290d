"""A policy of one's own: who is served, who gives way, and what people are told."""

import pytest
from kaisched_example_policy import StrictPriority

from kaisched.testing import ClusterBuilder, check_plugin

SHARD = {
    "plugins": {"proportion": {"enabled": False}, "strict-priority": {"enabled": True}},
}


def cluster(limit=None):
    """Eight GPUs, all of them held by night's jobs; day comes later, with a higher priority."""
    made = ClusterBuilder().node("n1", gpu=8)
    made.queue("night", priority=10).queue("day", priority=100, limit=limit)
    for number in range(8):
        made.job(f"night-{number}", queue="night", running={"n1": 1})
    for number in range(3):
        made.job(f"day-{number}", queue="day")
    return made


def test_it_keeps_the_contract_of_plugins():
    check_plugin(StrictPriority)


def test_the_higher_priority_takes_what_it_needs_and_says_so():
    ran = cluster().run(shard=SHARD)
    assert len(ran.evicted) == 3
    assert all(name.startswith("night") for name in ran.evicted)
    (reason,) = {each.reason for each in ran.result.evictions}
    assert reason == "queue day has priority 100, above night 10"
    share = {each.name: each.fair_share["gpu"] // 1000 for each in ran.result.shares}
    assert share == {"day": 3, "night": 5}


def test_an_equal_priority_takes_nothing_and_hears_why():
    made = cluster().queue("other", priority=10).job("late", queue="other")
    ran = made.run(shard=SHARD)
    (record,) = [each for each in ran.result.records if each.pod_group == "default/late"]
    why = "queue other has priority 10, and no work of a lower one would make room"
    assert record.eviction_refusals["reclaim"] == why


def test_a_limit_is_kept_and_named_by_the_plugin():
    ran = cluster(limit=2).run(shard=SHARD)
    assert len(ran.evicted) == 2
    (record,) = [each for each in ran.result.records if each.reason == "AboveLimit"]
    assert record.plugin == "strict-priority"
    assert record.message.startswith("queue day holds all that its limit allows")


@pytest.mark.parametrize("action", ["allocate", "reclaim"])
def test_a_full_cluster_of_one_queue_is_left_alone(action):
    made = ClusterBuilder().node("n1", gpu=1).queue("night")
    ran = (
        made.job("a", queue="night", running={"n1": 1})
        .job("b", queue="night")
        .run(action, shard=SHARD)
    )
    assert not ran.evicted
    assert not ran.placed
