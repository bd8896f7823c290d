"""Scenarios of several node pools, small enough to compute by hand, with all invariants checked."""

import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario

TWO = [{"name": "one", "pool": "one", "gpus": 8}, {"name": "two", "pool": "two", "gpus": 8}]
QUEUES = [
    {"name": "team", "project": "t", "pool": "one", "quota": 8},
    {"name": "team-two", "project": "t", "pool": "two", "quota": 8},
]


def shards(**spec):
    return [{"partitionLabelValue": name, "poolDwell": "5m", **spec} for name in ("one", "two")]


@pytest.fixture
def ran(scenario):
    def run(**changes):
        read = scenario(**{"nodes": TWO, "queues": QUEUES, "shards": shards(), **changes})
        return run_scenario(read, policy_of(read)[0], is_checked=True)

    return run


def job(name, gpus, at="0s", hours=1, **more):
    more = {"queue": "team", "pools": ["one", "two"], **more}
    return {"name": name, "arrivals": {"at": [at]}, "gpus": gpus, "duration": f"{hours}h", **more}


def starts(run):
    """Return by group the tick of the start, and the queue, of its first job."""
    names = run.workload.queue_names
    logs = zip(run.groups, run.record.jobs, run.workload.queue, strict=True)
    found = {}
    for group, log, queue in logs:
        found.setdefault(group, (log.started, names[queue]))
    return found


def test_a_job_goes_on_after_its_stay_and_counts_where_it_is(ran):
    run = ran(jobs=[job("first", 8), job("next", 8)])
    assert starts(run) == {"first": (0, "team"), "next": (5, "team-two")}
    outcome = outcome_of(run)
    assert [(it.jobs, it.finished, it.gpu_hours) for it in outcome.queues] == [(1, 1, 8), (1, 1, 8)]
    assert [it.wait.longest_s for it in outcome.queues] == [0, 300]
    assert run.record.waiting[0].values[-1] == run.record.waiting[1].values[-1] == 0


def test_what_can_never_start_in_a_pool_goes_on_at_once(ran):
    run = ran(nodes=[{**TWO[0], "gpus": 4}, TWO[1]], jobs=[job("wide", 8)])
    assert starts(run) == {"wide": (0, "team-two")}


def test_a_gang_is_in_one_pool_and_independent_pods_are_in_several(ran):
    """Worked example X19."""
    nodes = [{**TWO[0], "gpus": 5}, {**TWO[1], "gpus": 6}]
    run = ran(nodes=nodes, jobs=[job("gang", 1, pods=8)], time={"duration": "3h"})
    assert starts(run)["gang"][0] == -1
    run = ran(nodes=nodes, jobs=[job("search", 1, pods=8, independent=True)])
    assert [it.finished for it in outcome_of(run).queues] == [5, 3]
    assert {log.started for log in run.record.jobs} == {0, 5}


def test_a_job_that_was_refused_everywhere_waits_until_something_happens(ran):
    """It comes back to its first pool after a stay in each, and goes where a job ends."""
    ends = {"arrivals": {"at": ["0s"]}, "duration": "25m"}
    busy = [job("h", 8, hours=9), {**job("b", 8, pools=["two"], queue="team-two"), **ends}]
    run = ran(jobs=[*busy, job("x", 8)], time={"duration": "40m"})
    waits = []
    for queue, line in enumerate(run.record.waiting):
        points = zip(line.ticks, line.values, strict=True)
        waits += [(tick, queue) for tick, gpus in points if gpus]
    assert sorted(waits) == [(0, 0), (5, 1), (10, 0)]
    assert starts(run)["x"] == (25, "team-two")


def test_with_idle_first_nobody_goes_while_another_pool_is_idle(ran):
    other = {"name": "other", "pool": "one", "quota": 0}
    for order, evictions in (("strict", 1), ("idleFirst", 0)):
        run = ran(
            queues=[*QUEUES, other],
            shards=shards(poolOrder=order),
            jobs=[job("v", 8, queue="other", pools=[], hours=3), job("x", 8, at="10m")],
        )
        assert sum(run.replay.tally.evicted) == evictions, order
    assert starts(run)["x"] == (15, "team-two")


def test_a_run_that_is_drained_ends_when_a_job_was_refused_everywhere(ran):
    run = ran(jobs=[job("wide", 16)], time={"duration": "1h", "drain": True})
    assert starts(run)["wide"][0] == -1
    assert run.replay.last <= 60


def test_a_project_without_a_queue_has_one_made_up_where_that_is_wanted(ran):
    admitting = [shards()[0], {**shards()[1], "admitsAllProjects": True}]
    run = ran(queues=QUEUES[:1], shards=admitting, jobs=[job("first", 8), job("next", 8)])
    assert starts(run) == {"first": (0, "team"), "next": (5, "t-two")}
    assert [(it.name, it.quota_gpus) for it in outcome_of(run).queues] == [
        ("team", 8),
        ("t-two", 0),
    ]


def test_an_evicted_job_may_go_on_and_a_node_that_fails_is_of_its_pool(ran):
    nodes = [{**TWO[0], "outages": [{"at": "20m", "until": "30m"}]}, TWO[1]]
    run = ran(nodes=nodes, jobs=[job("x", 8)], time={"duration": "4h", "drain": True})
    (log,) = run.record.jobs
    assert (log.failures, log.runs) == (1, 2)
    assert run.workload.queue_names[run.workload.queue[0]] == "team-two"
