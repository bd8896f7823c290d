"""Simulated days of queues that share one quota in the order of their past usage (F31, F32)."""

from itertools import pairwise
from pathlib import Path

import pytest

from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of

pytestmark = pytest.mark.proportion  # its name is in the scenario

PATH = Path("usage-pool.yaml")
HOUR = 2
"""Ticks of half an hour."""
HALF_LIFE = 12 * HOUR
DAY = 24 * HOUR


def member(name, weight=1):
    spec = {"parentQueue": "pool", "fairSharing": {"weight": weight}}
    return {"metadata": {"name": name}, "spec": spec}


def jobs(queue, **arrivals):
    duration = {"exponential": "1h"}  # else all would end, and start, at the same moments
    arrivals = {"backlog": "endless", **arrivals}
    return {"queue": queue, "arrivals": arrivals, "gpus": 1, "duration": duration}


def held(members, work, days=7, gpus=3):
    """Return a function of (queue, begin, end) that tells the mean number of GPUs held."""
    pool = {
        "resources": {"gpu": {"quota": gpus}},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "preemption": {"withinClusterQueue": "Never"},
    }
    off = {"enabled": False}
    usage = {"windowSize": "1w", "halfLifePeriod": "12h"}
    raw = {
        "name": "usage pool",
        "time": {"duration": f"{days}d", "step": "30m"},
        "nodes": [{"count": 1, "gpus": gpus}],
        "queues": [{"metadata": {"name": "pool"}, "spec": pool}, *members],
        "jobs": work,
        "shard": {
            "usageDBConfig": {"clientType": "memory", "usageParams": usage},
            "plugins": {
                "proportion": off,
                "time-based-fairshare": off,
                "fair-sharing": {"enabled": True},
            },
        },
    }
    scenario = scenario_of(raw, PATH)
    run = run_scenario(scenario, policy_of(scenario)[0])
    names = [each["metadata"]["name"] for each in members]
    steps_of = dict(zip(names, run.record.allocated, strict=True))

    def mean(queue, begin, end):
        steps = steps_of[queue]
        total = sum(
            gpus * max(0, min(after, end) - max(at, begin))
            for (at, after), gpus in zip(pairwise([*steps.ticks, end]), steps.values, strict=True)
        )
        return total / (end - begin)

    return mean


def test_over_a_week_usage_goes_by_the_weights():
    mean = held([member("a"), member("b", 2)], [jobs("a"), jobs("b")])
    assert mean("a", 0, 7 * DAY) == pytest.approx(1, rel=0.03)
    assert mean("b", 0, 7 * DAY) == pytest.approx(2, rel=0.03)


def test_who_was_idle_catches_up_within_a_half_life():
    """It starts all that starts until its usage is that of the others by weight.

    Alone on the pool it has (1 - y) of it after a time in which old usage has faded to y; the other
    then has y, so that both are equal after one half-life.
    """
    members = [member("a"), member("late")]
    mean = held(members, [jobs("a"), jobs("late", begin="2d")], days=4)
    assert mean("a", DAY, 2 * DAY) == 3
    begin = 2 * DAY + 2 * HOUR  # what ran before ends
    assert mean("late", begin, begin + HALF_LIFE // 2) > 2.9
    after = begin + HALF_LIFE + HOUR
    assert mean("late", after, 4 * DAY) == pytest.approx(1.5, rel=0.05)
    assert mean("a", after, 4 * DAY) == pytest.approx(1.5, rel=0.05)


def test_a_weight_of_0_has_what_others_leave_and_no_more():
    work = [jobs("none"), jobs("a", begin="1d", end="2d")]
    mean = held([member("none", 0), member("a")], work, days=3)
    assert mean("none", 0, DAY) == 3
    assert mean("none", DAY + 2 * HOUR, 2 * DAY) == 0
    assert mean("none", 2 * DAY + 2 * HOUR, 3 * DAY) == 3
