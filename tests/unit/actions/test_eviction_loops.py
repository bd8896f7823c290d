"""Evictions that have come round: refused, but not for ever, nor where a quota is claimed (R33)."""

import json
from dataclasses import replace

import pytest

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import answered_questions
from tests.laws.clusters import NOW_S, Cluster
from tests.laws.crowded import carried_out, make_crowded, moves_of
from tests.unit.actions.test_search import job, node, queue

POLICY = default_policy()
ANYBODY = replace(
    POLICY,
    plugins=tuple(
        each for each in POLICY.plugins if "fair_share" not in answered_questions(type(each.plugin))
    ),
)
"""Nobody divides, and so whoever waits may take from whoever runs: a loop at once."""
PRIORITY = "default/j12"
"""A gang larger than its quota, of higher priority than the two jobs that its quota covers.

It takes their place, loses it to a queue beneath its share, and that to the quota: a loop of three.
"""


def looping():
    """Return a GPU for which two queues have a job each."""
    jobs = (job("a", "q", (1, 1, "n0")), job("b", "r", (1, 1)))
    return Cluster((node("n0", 1),), (queue("q", 0), queue("r", 0)), jobs)


def run(cluster, memory, now_s=NOW_S, policy=ANYBODY):
    return run_cycle(cluster.store().snapshot(), None, policy, now_s, memory)


def come_round(cluster, policy=ANYBODY, cycles=10):
    """Return the cluster and the memory when a cycle refuses to go round again."""
    memory = Memory()
    for _ in range(cycles):
        result, memory = run(cluster, memory, policy=policy)
        cluster = carried_out(cluster, result)
    return cluster, memory


def test_a_loop_goes_round_once():
    """Each of the two has taken the place of the other; the next one to wait is told why."""
    cluster, memory = looping(), Memory()
    takers = []
    for _ in range(10):
        result, memory = run(cluster, memory)
        takers += [each.beneficiary for each in result.evictions]
        cluster = carried_out(cluster, result)
    assert takers == ["default/b", "default/a"]
    (record,) = result.records
    assert "come back" in record.eviction_refusals["reclaim"]
    assert "after a change" in record.eviction_refusals["reclaim"]


@pytest.mark.proportion
def test_the_second_round_stops_where_nobody_claims_a_quota():
    crowded = make_crowded(1567440948, nodes=1, queues=4, running=12, pending=1, most=1)
    cluster, memory = come_round(crowded, POLICY)
    result, _ = run(cluster, memory, policy=POLICY)
    assert not moves_of(result)
    (record,) = [each for each in result.records if each.pod_group == PRIORITY]
    assert "come back" in record.eviction_refusals["preempt"]
    assert "after a change" in record.eviction_refusals["preempt"]
    shares = {share.name: share for share in result.shares}
    assert shares["c"].allocated["gpu"] >= shares["c"].deserved["gpu"] > 0


@pytest.mark.parametrize(("later_s", "evicts"), [(599.0, False), (601.0, True)])
def test_it_is_tried_again_after_ten_minutes(later_s, evicts):
    cluster, memory = come_round(looping())
    result, _ = run(cluster, memory, NOW_S + later_s)
    assert bool(result.evictions) == evicts


def test_it_goes_on_at_once_when_something_changes():
    cluster, memory = come_round(looping())
    cluster = replace(cluster, jobs=(*cluster.jobs, job("c", "q", (0, 1))))
    result, _ = run(cluster, memory)
    assert result.evictions


def test_what_the_api_refused_is_tried_again():
    cluster, memory = looping(), Memory()
    while True:
        result, memory = run(cluster, memory)
        if result.evictions:
            break
        cluster = carried_out(cluster, result)
    for _ in range(3):
        again, memory = run(cluster, memory)
        assert moves_of(again) == moves_of(result)


def test_what_is_remembered_may_go_through_json():
    cluster, memory = come_round(looping())
    facts = json.loads(json.dumps(dict(memory.facts)))
    result, after = run(cluster, Memory(facts))
    assert not moves_of(result)
    assert json.loads(json.dumps(dict(after.facts))) == after.facts


def test_nothing_is_remembered_where_nothing_is_evicted():
    cluster, memory = come_round(looping())
    _, memory = run(cluster, memory, NOW_S + 3600.0)
    assert len(memory.facts["turns"]) == 1
    _, memory = run(make_crowded(1, nodes=5, queues=1, running=1, pending=1, most=1), memory, NOW_S)
    assert "turns" not in memory.facts
