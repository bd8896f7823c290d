"""History does not evict for ever over what cannot be divided (R35): a day of endless backlogs."""

from pathlib import Path

import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import read_raw, scenario_of

FILE = Path(__file__).parents[1] / "small_clusters" / "churn.yaml"


def a_day(change):
    """Return how the day of the file went, after a change to what it says."""
    raw = read_raw(FILE)
    raw["time"] = {"duration": "1d", "step": "5m", "recheck": "5m"}  # a fifth of the cycles
    change(raw)
    scenario = scenario_of(raw, FILE)
    return outcome_of(run_scenario(scenario, policy_of(scenario)[0]))


def three_to_two(raw):
    raw["nodes"] = [{"count": 2, "gpus": 8}]
    raw["queues"] = [
        {"name": "a", "overQuotaWeight": 3},
        {"name": "b", "overQuotaWeight": 2},
    ]
    del raw["jobs"][2]


@pytest.mark.parametrize("change", [lambda raw: None, three_to_two], ids=["thirds", "3 to 2"])
def test_a_gpu_that_cannot_be_divided_is_handed_on_now_and_then(change):
    day = a_day(change)
    assert 0 < day.evictions <= 48
    assert day.fairness_error <= 0.01


def test_a_queue_that_deserves_the_whole_cluster_gets_it_though_others_come_and_go():
    file = FILE.with_name("whole-cluster-under-churn.yaml")
    raw = read_raw(file)
    raw["time"]["duration"] = "70m"
    raw["jobs"][1] |= {"arrivals": {"at": ["30m"]}}
    scenario = scenario_of(raw, file)
    queues = {
        it.name: it for it in outcome_of(run_scenario(scenario, policy_of(scenario)[0])).queues
    }
    assert queues["b"].finished == 1
    assert queues["b"].wait.longest_s <= 60
