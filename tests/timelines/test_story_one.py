"""Stories 1 and 2 of time-aware fairness with nothing set but a history.

And whole-cluster jobs beside small work of their department. Results are worked out from weights.
"""

from pathlib import Path

import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of
from tests.timelines.story_one import Case

pytestmark = pytest.mark.slow


def told(**raw):
    scenario = scenario_of({"name": "story", **raw}, Path("story.yaml"))
    return outcome_of(run_scenario(scenario, policy_of(scenario)[0]))


@pytest.mark.parametrize(
    "case",
    [
        Case(16, 1, (1, 1), weeks=3),
        Case(2, 0.25, (1, 5), hours=5.0, weeks=3),
        Case(3, 4, (1, 2, 3), hours=5.0, weeks=3),
        Case(100, 2, (1, 1, 2, 2, 3), "department", hours=5.0, weeks=3),
        Case(16, 0.25, (1, 3, 5), "limit", hours=24.0, weeks=3),
    ],
    ids=str,
)
def test_jobs_of_all_gpus_share_weeks_by_weight_without_an_eviction(case):
    ran = case.run()
    behind = ran.behind(case.weights)[:, -1]
    assert case.is_fair(behind, ran.got[:, -1].sum()), behind
    assert not ran.evictions


def test_a_department_limited_to_two_gpus_shares_them():
    """Of two weeks of 2 GPUs each queue has 336 GPU-hours; nobody else loses anything."""
    job = {"arrivals": {"backlog": 3}, "gpus": 2, "duration": "1h"}
    outcome = told(
        time={"duration": "2w"},
        nodes=[{"count": 2, "gpus": 8}],
        queues=[
            {"name": "d", "quota": 2, "limit": 2},
            {"name": "e", "quota": 14},
            *({"name": name, "parent": "d"} for name in "ab"),
        ],
        jobs=[
            *({"queue": name, **job} for name in "ab"),
            {"queue": "e", "gpus": 1, "arrivals": {"backlog": "endless"}, "duration": "2h"},
        ],
        shard={"usageDBConfig": {"clientType": "memory"}},
    )
    got = {queue.name: queue.gpu_hours for queue in outcome.queues}
    assert got["a"] == pytest.approx(336, abs=2)
    assert got["b"] == pytest.approx(336, abs=2)
    assert got["e"] >= 0.95 * 14 * 336


@pytest.mark.parametrize("quota", [2, 4])
def test_jobs_larger_than_quotas_or_covered_by_too_many_of_them_take_turns(quota):
    """Of 4 GPUs each of two queues deserves 2, or all of them; each job needs all of them."""
    job = {"arrivals": {"backlog": 3}, "gpus": 4, "duration": "1h"}
    outcome = told(
        time={"duration": "1w"},
        nodes=[{"count": 1, "gpus": 4}],
        queues=[{"name": name, "quota": quota} for name in "ab"],
        jobs=[{"queue": name, **job} for name in "ab"],
        shard={"usageDBConfig": {"clientType": "memory"}},
    )
    assert not outcome.evictions
    for queue in outcome.queues:
        assert queue.gpu_hours == pytest.approx(4 * 84, abs=4)


def test_a_burst_that_history_granted_runs_to_its_end():
    """Weight 1 of 10 of 40 GPUs, unused for two days: a share of 8, enough for its job of 8.

    The others owe it 192 GPU-hours then; in six hours the job has 24 more than its part.
    """
    others = {"t": 3, "u": 3, "v": 3}
    outcome = told(
        time={"duration": "6d"},
        nodes=[{"count": 5, "gpus": 8}],
        queues=[
            *({"name": name, "overQuotaWeight": weight} for name, weight in others.items()),
            {"name": "Q", "overQuotaWeight": 1},
        ],
        jobs=[
            *(
                {"queue": name, "gpus": 1, "arrivals": {"backlog": "endless"}, "duration": length}
                for name, length in zip(others, ({"exponential": "5h"}, "3h", "4h"), strict=False)
            ),
            {"queue": "Q", "gpus": 8, "arrivals": {"at": ["2d"]}, "duration": "6h"},
        ],
        shard={"usageDBConfig": {"clientType": "memory"}},
    )
    by_name = {queue.name: queue for queue in outcome.queues}
    assert by_name["Q"].finished == 1
    assert by_name["Q"].evictions <= 2
    assert outcome.evictions <= 40


def test_a_job_of_the_whole_cluster_beside_small_work_of_its_department():
    """d1 and d2 have half of 16 GPUs each, a and b half of d1's: 4, 4 and 8 on average."""
    endless = {"arrivals": {"backlog": "endless"}}
    outcome = told(
        seed=1,
        time={"duration": "5d", "step": "1m", "recheck": "5m"},
        nodes=[{"count": 2, "gpus": 8}],
        queues=[
            {"name": "d1"},
            {"name": "d2"},
            *({"name": name, "parent": "d1"} for name in "ab"),
            {"name": "c", "parent": "d2"},
        ],
        jobs=[
            {"queue": "a", "gpus": 8, "pods": 2, "duration": "3h", **endless},
            {"queue": "b", "duration": "1h", "gpus": 1, **endless},
            {"queue": "c", "duration": "2h", "gpus": 1, **endless},
        ],
        shard={
            "kValue": 1,
            "usageDBConfig": {"clientType": "memory", "usageParams": {"halfLifePeriod": "12h"}},
            "plugins": {"time-based-fairshare": {"arguments": {"handOver": "timeSlices"}}},
        },
    )
    got = {queue.name: queue.gpu_hours / queue.entitled_gpu_hours for queue in outcome.queues}
    for name in "abc":
        assert got[name] == pytest.approx(1, abs=0.25), got
