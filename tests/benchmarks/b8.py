"""B8: the simulator. How many days of a cluster in a second, with everything written down?"""

from pathlib import Path
from typing import Any

from kaisched.sim.output.files import Result, result_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of
from tests.benchmarks.harness import Measured, Watch, expect

DAY_S = 86_400.0
_HISTORY = {
    "kValue": 1,
    "usageDBConfig": {"clientType": "memory", "usageParams": {"halfLifePeriod": "1d"}},
}
_SIZES = [
    {"gpus": 1, "share": 6},
    {"gpus": 4, "share": 2},
    {"gpus": 8, "share": 1},
    {"gpus": 8, "pods": 4, "share": 0.5},
]
_MEAN_HOURS = 1.8
"""With these sizes, 10,000 jobs a week keep 64 nodes of 8 GPUs busy for 85 % of the time."""


def _measured(repeat: int, raw: dict[str, Any]) -> tuple[Measured, Result]:
    """Time a whole run with its result; the scenario is read before."""
    watch = Watch()
    result = None
    for _ in range(repeat):
        scenario = scenario_of(raw, Path("benchmark.yaml"))
        policy, _ = policy_of(scenario)

        def run(scenario: Any = scenario, policy: Any = policy) -> Result:
            return result_of(run_scenario(scenario, policy))

        last, result = result, watch.time(run)
        expect(last is None or last.outcome == result.outcome, "two runs of one seed differ")
    assert result is not None
    outcome = result.outcome
    known = outcome.finished + outcome.running + outcome.pending
    expect(known == outcome.jobs, "a job is lost")
    days = outcome.until_s / DAY_S
    detail = {
        "jobs": outcome.jobs,
        "cycles": outcome.cycles,
        "evictions": outcome.evictions,
        "utilisation": outcome.utilisation,
        "cpu_s_per_day": watch.summary()["cpu_s"] / days,
    }
    return Measured(watch, detail), result


def week(repeat: int, nodes: int, queues: int, jobs: int, days: int) -> Measured:
    rate = jobs / queues / (days * 24)
    groups = [
        {
            "queue": f"q{at:03}",
            "arrivals": {"poissonPerHour": rate},
            "sizes": _SIZES,
            "duration": {"exponential": f"{round(_MEAN_HOURS * 60)}m", "most": "2d"},
        }
        for at in range(queues)
    ]
    raw = {
        "time": {"duration": f"{days}d", "recheck": "0s"},
        "nodes": [{"count": nodes, "gpus": 8}],
        "queues": [
            {"name": f"q{at:03}", "quota": nodes * 4 // queues, "overQuotaWeight": 1 + at % 3}
            for at in range(queues)
        ],
        "jobs": groups,
        "shard": _HISTORY,
    }
    measured, result = _measured(repeat, raw)
    expect(result.outcome.jobs > jobs * 0.8, "too few jobs came")
    expect(result.outcome.utilisation > 0.3, "the week is not busy")
    return measured


def turns(repeat: int, cycles: int, hand_over: str) -> Measured:
    """KAI's own example: two queues of jobs that need the whole cluster and never end."""
    raw = {
        "time": {"duration": f"{cycles}s", "step": "1s", "recheck": "1s"},
        "nodes": [{"gpus": 16}],
        "queues": [{"name": "a"}, {"name": "b"}],
        "jobs": [
            {
                "queue": name,
                "arrivals": {"at": ["0s"], "each": 10},
                "gpus": 16,
                "duration": "forever",
            }
            for name in "ab"
        ],
        "shard": {
            "kValue": 1,
            "usageDBConfig": {
                "clientType": "memory",
                "usageParams": {
                    "windowSize": "256s",
                    "halfLifePeriod": "128s",
                    "fetchInterval": "1s",
                },
            },
            "plugins": {"time-based-fairshare": {"arguments": {"handOver": hand_over}}},
        },
    }
    measured, result = _measured(repeat, raw)
    expect(result.outcome.cycles >= cycles, "cycles were left out")
    expect(result.outcome.utilisation > 0.9, "the cluster is not in use")
    # By weights they switch at 1, 30, 270, 510, 750 and 990, by time slices every 12 cycles.
    least = cycles // 15 if hand_over == "timeSlices" else cycles // 256
    expect(result.outcome.evictions >= least, "the cluster does not change hands")
    return measured


def philly(repeat: int, nodes: int, begin: int, days: int) -> Measured:
    raw = {
        "time": {"duration": f"{days}d", "recheck": "0s"},
        "nodes": [{"count": nodes, "gpus": 8}],
        "traces": [{"path": "philly-2017", "begin": f"{begin}d"}],
        "shard": _HISTORY,
    }
    measured, result = _measured(repeat, raw)
    expect(result.outcome.utilisation > 0.3, "the stretch is not busy")
    return measured
