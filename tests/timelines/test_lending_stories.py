"""The user stories of fair sharing as the scenario files tell them: each file is run itself."""

from bisect import bisect_right
from pathlib import Path

import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import read_raw, scenario_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "config" / "scenarios"
HOUR = 60


def held(name, at):
    """Return the GPUs that each queue holds at some ticks of a story, of those that hold any."""
    path = FOLDER / f"lending-{name}.yaml"
    scenario = scenario_of(read_raw(path), path)
    run = run_scenario(scenario, policy_of(scenario)[0])
    names = [queue.name for queue in outcome_of(run).queues]
    told = []
    for tick in at:
        now = [
            sum(steps.values[: bisect_right(steps.ticks, tick)][-1:])
            for steps in run.record.allocated
        ]
        told.append({name: gpus for name, gpus in zip(names, now, strict=True) if gpus})
    return told


def test_both_teams_get_equal_extra_room_and_the_least_important_goes():
    early, late = held("late-team", (11 * HOUR, 13 * HOUR))
    assert early == {"east": 20}
    assert late == {"east": 12, "west": 8}


def test_a_department_s_room_goes_to_its_own_teams_first():
    early, busy, late = held("departments", (HOUR // 2, 2 * HOUR, 9 * HOUR))
    assert early == {"1b": 4, "1c": 4, "2a": 6, "2b": 5, "2c": 5}
    assert busy == {"1b": 6, "1c": 6, "2a": 4, "2b": 4, "2c": 4}
    assert sum(late[team] for team in ("2a", "2b", "2c")) == 16
    assert sorted(late.values()) == [4, 4, 5, 5, 6]


def test_what_is_lent_goes_by_weight_at_every_level():
    alone, shared = held("by-weight", (HOUR // 2, 2 * HOUR))
    assert alone == {"2a": 300}
    assert shared == {"1a": 30, "1b": 30, "1c": 90, "2a": 150}
