"""How far the pods of jobs are spread over the domains of a scenario's topology."""

import json

import numpy as np
import pytest

from kaisched.core.tables import TopologyLevel
from kaisched.sim.output.files import json_of, result_of
from kaisched.sim.output.report import write_compared
from kaisched.sim.output.tables import summary_of
from kaisched.sim.recorder import Crossings
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.findings import ScenarioError
from kaisched.sim.scenario.load import read_scenario

SCENARIO = """
name: run {name}
time: {{duration: 1h, step: 1m}}
nodes: [{{count: 8, gpus: 1}}]
topology: [{{level: block, nodes: 4}}, {{level: rack, nodes: 2}}]
queues: [{{name: a}}]
jobs:
  - {{name: first, queue: a, arrivals: {{at: [1m]}}, duration: 30m}}
  - {{name: gang, queue: a, arrivals: {{at: [2m]}}, pods: {pods}, duration: 5m, {wish}}}
"""


def ran(tmp_path, pods, wish, name="s"):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(pods=pods, wish=wish, name=name), encoding="utf-8")
    scenario = read_scenario(path)
    return result_of(run_scenario(scenario, policy_of(scenario)[0], is_checked=True))


def test_pairs_of_pods_and_domains_are_counted_level_by_level():
    """Three pods in two racks of one block: two of three pairs are in two racks."""
    labels = [{"block": "b", "rack": rack} for rack in "xxyy"]
    crossings = Crossings([TopologyLevel("block"), TopologyLevel("rack")], labels)
    crossings.start([7, 3, 7, 7], np.array([0, 3, 2, 1]))
    block, rack = crossings.outcome()
    assert (block.starts, block.pairs, block.crossing_pairs, block.domains) == (1, 3, 0, 1.0)
    assert (rack.crossing_pairs, rack.in_one_domain, rack.domains) == (2, 0, 2.0)
    assert (block.crossing, block.together, rack.together) == (0, 1, 0)


def test_jobs_of_a_scenario_are_placed_by_its_topology(tmp_path):
    """The first job leaves rack 0 half full: a pair that asks for a rack has one of its own."""
    blocks, racks = ran(tmp_path, 2, "requiredLevel: rack").outcome.levels
    assert (blocks.in_one_domain, racks.in_one_domain, racks.starts) == (1, 1, 1)
    _, racks = ran(tmp_path, 4, "preferredLevel: rack").outcome.levels
    assert racks.domains == 2


def test_a_gang_larger_than_any_domain_waits(tmp_path):
    outcome = ran(tmp_path, 5, "requiredLevel: block").outcome
    assert (outcome.pending, outcome.levels[0].starts) == (1, 0)


def test_the_figures_are_in_tables_files_and_pictures(tmp_path):
    result = ran(tmp_path, 4, "preferredLevel: rack", "on")
    assert "rack: 66.7% of pod pairs cross it; 0 of 1 gangs started in one, 2.00 on average." in (
        summary_of(result.outcome).splitlines()
    )
    first = json.loads(json_of(result))["levels"][1]
    assert first["level"] == "rack"
    assert first["crossingPairs"] == 4
    write_compared([result, ran(tmp_path, 4, "priority: 50", "off")], tmp_path)
    assert "Gangs in one domain" in (tmp_path / "topology.svg").read_text(encoding="utf-8")


def test_without_a_topology_there_are_no_levels(tmp_path):
    path = tmp_path / "s.yaml"
    text = SCENARIO.format(pods=2, wish="priority: 50", name="s")
    lines = [line for line in text.splitlines() if not line.startswith("topology")]
    path.write_text("\n".join(lines), encoding="utf-8")
    scenario = read_scenario(path)
    result = result_of(run_scenario(scenario, policy_of(scenario)[0]))
    assert result.outcome.levels == ()
    assert "levels" not in json.loads(json_of(result))


PATIENT = """
time: {{duration: 2h, step: 1m}}
nodes: [{{count: 4, gpus: 1}}]
topology: [{{level: rack, nodes: 2}}]
queues: [{{name: a}}]
jobs:
  - {{name: n0, queue: a, arrivals: {{at: [1m]}}, duration: 1h}}
  - {{name: n1, queue: a, arrivals: {{at: [1m]}}, duration: 1m}}
  - {{name: n2, queue: a, arrivals: {{at: [1m]}}, duration: 1h}}
  - {{name: gang, queue: a, arrivals: {{at: [3m]}}, pods: 2, duration: 5m, {wish}}}
"""


@pytest.mark.parametrize(("patience", "waited_m"), [("0s", 0), ("25m", 25), ("2h", 58)])
def test_a_patient_gang_waits_for_a_rack_though_nothing_happens(tmp_path, patience, waited_m):
    """Two nodes in two racks are idle; the first rack is when its job ends, after an hour.

    A cycle runs when the patience ends, or within ten steps of it.
    """
    path = tmp_path / "s.yaml"
    wish = f"preferredLevel: rack, patience: {patience}"
    path.write_text(PATIENT.format(wish=wish), encoding="utf-8")
    scenario = read_scenario(path)
    outcome = result_of(run_scenario(scenario, policy_of(scenario)[0], is_checked=True)).outcome
    assert outcome.pending == 0
    wait = outcome.queues[0].wait
    assert waited_m * 60 <= wait.longest_s < waited_m * 60 + 600


EVICTED = """
time: {duration: 2h, step: 1m, recheck: 1m}
nodes: [{count: 4, gpus: 1}]
topology: [{level: rack, nodes: 2}]
queues: [{name: a, quota: 0}, {name: b, quota: 4}]
jobs:
  - {queue: a, arrivals: {at: [1m]}, pods: 2, duration: 1h, preferredLevel: rack, patience: 20m}
  - {queue: b, arrivals: {at: [2m]}, duration: 38m}
  - {queue: b, arrivals: {at: [30m]}, duration: 3h}
  - {queue: b, arrivals: {at: [31m]}, duration: 3h}
"""


def test_the_patience_of_a_gang_that_was_evicted_begins_anew(tmp_path):
    """It is evicted after 31 minutes; from 40 on one node is idle in each of two racks."""
    path = tmp_path / "s.yaml"
    path.write_text(EVICTED, encoding="utf-8")
    scenario = read_scenario(path)
    run = run_scenario(scenario, policy_of(scenario)[0], is_checked=True)
    gang = run.record.jobs[0]
    assert (gang.runs, gang.evictions, gang.ended) == (2, 1, 31 + 20 + 60)


def test_patience_without_a_level_is_told(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(PATIENT.format(wish="patience: 5m"), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"jobs\[3\].patience: needs a level \(value '5m'\)"):
        read_scenario(path)
