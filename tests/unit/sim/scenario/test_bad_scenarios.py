"""Every fault in the catalogue is reported in one exact line, with path, value and fix."""

import copy
from pathlib import Path

import pytest
import yaml

from kaisched.sim.scenario.findings import ScenarioError
from kaisched.sim.scenario.load import scenario_of

GOOD = {
    "time": {"duration": "1d"},
    "nodes": [{"count": 2, "gpus": 8}],
    "queues": [{"name": "a"}, {"name": "b"}],
    "jobs": [{"queue": "a", "arrivals": {"every": "1h"}, "duration": "1h"}],
}
CASES = yaml.safe_load((Path(__file__).parent / "bad_scenarios.yaml").read_text(encoding="utf-8"))


def test_the_good_file_is_good(tmp_path):
    assert scenario_of(copy.deepcopy(GOOD), tmp_path / "s.yaml").leaves == ["a", "b"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_errors_are_exact(case, tmp_path):
    raw = {**copy.deepcopy(GOOD), **case.get("over", {})}
    for key in case.get("without", ()):
        del raw[key]
    with pytest.raises(ScenarioError) as caught:
        scenario_of(raw, tmp_path / "s.yaml")
    told = [str(error) for error in (caught.value, *caught.value.others)]
    places = (f"{tmp_path}/s.yaml: ", f"{tmp_path}/nowhere/nodes.csv: ")
    for place in places:
        told = [line.replace(place, "", 1) for line in told]
    assert told == case["errors"]


def test_the_catalogue_is_not_small_and_names_are_unique():
    assert len({case["name"] for case in CASES}) == len(CASES) > 50
