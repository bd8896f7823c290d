"""Scenarios whose jobs claim devices, small enough to compute by hand, with all invariants."""

import csv

import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.output.files import result_of, write_files
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of

CLASS = "gpu.example.com"


def nodes(count, devices=4, **more):
    return {"count": count, "devices": {"class": CLASS, "count": devices, **more}}


def job(queue, count, hours, at="0s", of=CLASS, **more):
    claim = {"class": of, "count": count}
    claim |= {key: more.pop(key) for key in ("selector", "sameAttribute") if key in more}
    arrivals = {"at": [at]}
    return {"queue": queue, "arrivals": arrivals, "duration": f"{hours}h", "claim": claim, **more}


@pytest.fixture
def ran(tmp_path):
    def run(nodes, jobs, queues=({"name": "a"}, {"name": "b"}), time="10h", **more):
        raw = {"time": {"duration": time}, "nodes": nodes, "queues": list(queues), "jobs": jobs}
        read = scenario_of(raw | more, tmp_path / "s.yaml")
        return run_scenario(read, policy_of(read)[0], is_checked=True)

    return run


def starts(run):
    return [log.started for log in run.record.jobs]


def holders(run):
    """Return the job that has each device at the end, by node."""
    by_node = {}
    for use in run.record.devices.until(run.replay.last):
        by_node.setdefault(use.identity[1], []).append(use.job)
    return by_node


def test_a_job_waits_for_as_many_devices_as_it_claims(ran):
    run = ran([nodes(1)], [job("a", 3, 1), job("a", 2, 2, at="10m"), job("a", 1, 1, at="20m")])
    assert starts(run) == [0, 60, 20]
    outcome = outcome_of(run)
    assert (outcome.gpus, outcome.gpu_hours, outcome.pending) == (4, 3 + 4 + 1, 0)
    assert outcome.utilisation == pytest.approx(8 / 40)


def test_devices_of_a_failed_node_are_free_once_it_is_back(ran):
    line = nodes(1) | {"outages": [{"at": "1h", "until": "2h"}]}
    run = ran([line], [job("a", 4, 2)])
    log = run.record.jobs[0]
    assert (log.failures, log.runs, log.ended) == (1, 2, 180)


def test_claims_are_served_in_each_node_pool(ran):
    shards = [{}, {"partitionLabelValue": "x"}]
    queues = [
        {"name": "a", "project": "a", "nodePools": ["default", "x"]},
        {"name": "b", "project": "a", "pool": "x"},
    ]
    lines = [nodes(1, 1), nodes(1, 1) | {"name": "x", "pool": "x"}]
    run = ran(lines, [job("a", 1, 20), job("a", 1, 20)], queues, shards=shards)
    assert holders(run) == {"node-0": [0], "x-0": [1]}


def test_a_run_tells_who_had_each_device(ran, tmp_path):
    run = ran([nodes(1, 2)], [job("a", 2, 1), job("b", 1, 12, at="2h")])
    paths = {it.name: it for it in write_files(result_of(run), tmp_path / "out")}
    rows = list(csv.reader(paths["devices.csv"].read_text(encoding="utf-8").splitlines()))
    assert rows == [
        ["node", "device", "class", "hours_in_use", "runs", "job", "queue"],
        ["node-0", "gpu-0", CLASS, "9.0000", "2", "1", "b"],
        ["node-0", "gpu-1", CLASS, "1.0000", "1", "", ""],
    ]
    other = ran([{"gpus": 1}], [{"queue": "a", "arrivals": {"at": ["0s"]}, "duration": "1h"}])
    assert "devices.csv" not in {it.name for it in write_files(result_of(other), tmp_path / "2")}


def test_a_claim_that_no_node_can_serve_is_warned_of(tmp_path):
    raw = {
        "time": {"duration": "1h"},
        "nodes": [nodes(2, 4, attributes={"half": [0, 0, 1, 1]})],
        "queues": [{"name": "a"}],
        "jobs": [job("a", 5, 1), job("a", 3, 1, sameAttribute="half"), job("a", 4, 1)],
    }
    told = [it.rpartition(": ")[0] for it in scenario_of(raw, tmp_path / "s.yaml").warnings]
    assert told == [f"{tmp_path}/s.yaml: jobs[{at}].claim" for at in (0, 1)]
