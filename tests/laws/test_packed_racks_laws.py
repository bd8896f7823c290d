"""Whose nodes are named at random gets as much of packing as whose nodes follow their racks."""

from dataclasses import replace
from random import Random

import numpy as np

from kaisched.core.axis import GPU
from kaisched.sim.running import run_scenario
from kaisched.sim.scenario.load import read_scenario
from kaisched.testing.builder import policy_of

SIZES = (4, 8, 16)
PACKED = {"plugins": {"topology": {"arguments": {"packUnconstrained": True}}}}


def measured(scenario, *, is_packed, is_scattered):
    """Return how many gangs of each size idle racks could take in a run, on average over time."""
    nodes, seen = list(scenario.nodes), []
    if is_scattered:
        dealt = Random(7).sample(nodes, len(nodes))
        nodes = [
            replace(node, labels=other.labels) for node, other in zip(nodes, dealt, strict=True)
        ]
    of_node = [node.labels[scenario.levels[-1].label] for node in nodes]
    racks = np.unique(of_node, return_inverse=True)[1]

    def shown(cycle):
        def decide(snapshot, now_s):
            result = cycle(snapshot, now_s)
            idle = snapshot.nodes.idle[GPU] == snapshot.nodes.allocatable[GPU]
            idle[result.bind_nodes] = False
            free = np.bincount(racks, idle)
            seen.append((now_s, [int((free // size).sum()) for size in SIZES]))
            return result

        return decide

    policy = policy_of(PACKED if is_packed else None, (), ())
    run_scenario(replace(scenario, nodes=nodes), policy, shown=shown)
    times, reached = map(np.array, zip(*seen, strict=True))
    lasts = np.diff(times, append=times[-1] + 1.0)[:, None] / (times[-1] + 1.0 - times[0])
    return (reached * lasts).sum(axis=0)


SMALL = """
time: {duration: 12h, step: 5m}
nodes: [{count: 64, gpus: 8}]
topology: [{level: block, nodes: 32}, {level: rack, nodes: 16}]
queues: [{name: a}]
jobs:
  - {name: small, queue: a, arrivals: {poissonPerHour: 10}, gpus: 8, duration: {exponential: 2h}}
"""


def test_packing_by_rack_makes_up_for_names(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SMALL, encoding="utf-8")
    scenario = read_scenario(path)
    ordered = measured(scenario, is_packed=False, is_scattered=False)
    again = measured(scenario, is_packed=True, is_scattered=False)
    dealt = measured(scenario, is_packed=False, is_scattered=True)
    packed = measured(scenario, is_packed=True, is_scattered=True)
    assert np.array_equal(again, ordered)
    assert np.array_equal(packed, ordered)
    assert (dealt <= ordered).all()
    assert dealt[-1] < ordered[-1] - 0.5
