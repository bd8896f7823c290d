"""Whose nodes are named at random gets as much of packing as whose nodes follow their racks."""

import numpy as np

from kaisched.sim.scenario.load import read_scenario
from tests.laws.packed_racks import measured

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
    assert np.array_equal(again.reached, ordered.reached)
    assert np.array_equal(packed.reached, ordered.reached)
    assert (dealt.reached <= ordered.reached).all()
    assert dealt.reached[-1] < ordered.reached[-1] - 0.5
