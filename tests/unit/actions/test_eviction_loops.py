"""Evictions that have come round: refused, but not for ever, nor where a quota is claimed (R33)."""

import json
from dataclasses import replace

import pytest

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S
from tests.laws.crowded import carried_out, make_crowded, moves_of

POLICY = default_policy()
PRIORITY = "default/j12"
"""A gang larger than its quota, of higher priority than the two jobs that its quota covers.

It takes their place, loses it to a queue beneath its share, and that to the quota: a ring of three.
"""


def ring():
    return make_crowded(1567440948, nodes=1, queues=4, running=12, pending=1, most=1)


def run(cluster, memory, now_s=NOW_S):
    return run_cycle(cluster.store().snapshot(), None, POLICY, now_s, memory)


def come_round(cycles=10):
    """Return the cluster and the memory when a cycle refuses to go round again."""
    cluster, memory = ring(), Memory()
    for _ in range(cycles):
        result, memory = run(cluster, memory)
        cluster = carried_out(cluster, result)
    return cluster, memory


def test_the_second_round_stops_where_nobody_claims_a_quota():
    cluster, memory = come_round()
    result, _ = run(cluster, memory)
    assert not moves_of(result)
    (record,) = [each for each in result.records if each.pod_group == PRIORITY]
    assert "come back" in record.eviction_refusals["preempt"]
    assert "any change" in record.eviction_refusals["preempt"]
    shares = {share.name: share for share in result.shares}
    assert shares["c"].allocated["gpu"] >= shares["c"].deserved["gpu"] > 0


@pytest.mark.parametrize(("later_s", "evicts"), [(599.0, False), (601.0, True)])
def test_it_is_tried_again_after_ten_minutes(later_s, evicts):
    cluster, memory = come_round()
    result, _ = run(cluster, memory, NOW_S + later_s)
    assert bool(result.evictions) == evicts


def test_it_goes_on_at_once_when_something_changes():
    cluster, memory = come_round()
    cluster = replace(cluster, jobs=tuple(job for job in cluster.jobs if job.name != "j8"))
    result, _ = run(cluster, memory)
    assert result.evictions


def test_what_the_api_refused_is_tried_again():
    cluster, memory = ring(), Memory()
    while True:
        result, memory = run(cluster, memory)
        if result.evictions:
            break
        cluster = carried_out(cluster, result)
    for _ in range(3):
        again, memory = run(cluster, memory)
        assert moves_of(again) == moves_of(result)


def test_what_is_remembered_may_go_through_json():
    cluster, memory = come_round()
    facts = json.loads(json.dumps(dict(memory.facts)))
    result, after = run(cluster, Memory(facts))
    assert not moves_of(result)
    assert json.loads(json.dumps(dict(after.facts))) == after.facts


def test_nothing_is_remembered_where_nothing_is_evicted():
    cluster, memory = come_round()
    _, memory = run(cluster, memory, NOW_S + 3600.0)
    assert len(memory.facts["turns"]) == 1
    _, memory = run(make_crowded(1, nodes=5, queues=1, running=1, pending=1, most=1), memory, NOW_S)
    assert "turns" not in memory.facts
