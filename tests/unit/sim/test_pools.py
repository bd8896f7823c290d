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


def test_a_run_that_is_drained_ends_when_a_job_was_refused_everywhere(ran):
    run = ran(jobs=[job("wide", 16)], time={"duration": "1h", "drain": True})
    assert starts(run)["wide"][0] == -1
    assert run.replay.last <= 60


def test_an_evicted_job_may_go_on_and_a_node_that_fails_is_of_its_pool(ran):
    nodes = [{**TWO[0], "outages": [{"at": "20m", "until": "30m"}]}, TWO[1]]
    run = ran(nodes=nodes, jobs=[job("x", 8)], time={"duration": "4h", "drain": True})
    (log,) = run.record.jobs
    assert (log.failures, log.runs) == (1, 2)
    assert run.workload.queue_names[run.workload.queue[0]] == "team-two"
