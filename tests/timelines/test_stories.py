"""The user stories of time-aware fairness as the scenario files tell them: each file is run itself.

Slices and budgets cycle by cycle are in ``test_spells.py``; here virtual time has jobs that end,
checkpoints and minimum runtimes.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kaisched.sim.outcome import outcome_of
from kaisched.sim.recorder import NOT_YET
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import read_raw, scenario_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "config" / "scenarios"
HOUR_TICKS = 60
"""Of the scenarios whose step is a minute."""


def told(name, duration=None, **shard):
    """Run a story, maybe for another time or with other keys of the shard."""
    path = FOLDER / f"{name}.yaml"
    raw = read_raw(path)
    raw["time"]["duration"] = duration or raw["time"]["duration"]
    raw["shard"] |= shard
    scenario = scenario_of(raw, path)
    return run_scenario(scenario, policy_of(scenario)[0])


def by_name(run):
    return {queue.name: queue for queue in outcome_of(run).queues}


def handovers(run):
    """The ticks at which another queue than before began to hold the cluster."""
    takes = sorted(
        (tick, queue)
        for queue, steps in enumerate(run.record.allocated)
        for tick, gpus in zip(steps.ticks, steps.values, strict=True)
        if gpus
    )
    changes = [takes[0], *(now for last, now in pairwise(takes) if now[1] != last[1])]
    return np.array([tick for tick, _ in changes])


def worst(run, marks, spans):
    """The largest relative error of an equal part over any so many hand-overs."""
    sums = np.array([steps.integral(marks) for steps in run.record.allocated])
    got = sums[:, spans:] - sums[:, :-spans]
    return float(np.abs(got / got.sum(axis=0) * len(got) - 1).max())


# -- story 1: time sharing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "queues", "k", "days"), [("time-sharing", 2, 2, 2), ("time-sharing-three", 3, 0.5, 2)]
)
def test_whole_cluster_jobs_share_time_equally(name, queues, k, days):
    """At k = 2 a slice is shorter than a job: parts are equal all the same, though work is lost."""
    run = told(name, f"{days * queues}d", kValue=k)
    marks = handovers(run)
    spans = 20 * queues
    assert len(marks) > spans
    assert worst(run, marks, spans) <= 0.05
    assert outcome_of(run).utilisation > 0.95


def test_without_usage_history_one_of_them_runs_for_ever():
    run = told("time-sharing", "1d", usageDBConfig=None, kValue=None, plugins={})
    assert len(handovers(run)) <= 2


# -- story 2: bursts -----------------------------------------------------------------------------


def test_the_burst_queue_gets_each_job_in_and_keeps_it_for_its_minimum_runtime():
    run = told("burst", "4d")
    queue = by_name(run)["q"]
    logs = [log for log, of in zip(run.record.jobs, run.workload.queue, strict=True) if of == 0]
    assert queue.jobs == queue.finished == 4
    assert queue.evictions == 0, "a job takes no longer than the minimum runtime of two hours"
    assert [log.ended - log.started for log in logs] == [2 * HOUR_TICKS] * 4
    assert queue.wait.p50_s <= 3600
    assert queue.got == pytest.approx(1, abs=0.05)


# -- story 3: guaranteed work --------------------------------------------------------------------


def test_guaranteed_and_interactive_work_is_never_interrupted():
    queues = by_name(told("guaranteed"))
    for name in ("inference", "interactive"):
        assert queues[name].evictions == 0
        assert queues[name].got == pytest.approx(1, abs=0.02)
        assert queues[name].wait.p95_s <= 60
    for name in ("training-1", "training-2"):
        assert queues[name].got == pytest.approx(1, abs=0.1)


# -- story 4: queues within their share ----------------------------------------------------------


def test_queues_within_their_share_are_not_starved():
    queues = by_name(told("within-share"))
    for name in ("steady-1", "steady-2", "steady-3"):
        assert queues[name].got >= 0.95
        assert queues[name].pending <= 1
        assert queues[name].wait.p95_s <= 4 * 3600
    assert queues["greedy"].got == pytest.approx(1, abs=0.05), "it takes what they leave, no more"


@pytest.mark.parametrize(("counts", "finished", "evictions"), [(True, 4, 40), (False, 0, 0)])
def test_use_within_the_share_counts_unless_the_shard_says_otherwise(counts, finished, evictions):
    """The fourth queue is owed what it did not use, or nothing: shares of 16 GPUs, or of 10."""
    arguments = {"enabled": True, "arguments": {"countInShare": counts}}
    run = told("within-share-late", plugins={"time-based-fairshare": arguments})
    assert by_name(run)["late"].finished == finished
    assert outcome_of(run).evictions <= evictions
    for name in ("steady-1", "steady-2", "steady-3"):
        assert by_name(run)[name].got >= 0.97


# -- story 5: budgets ----------------------------------------------------------------------------


def test_a_month_of_budgets_is_met():
    outcome = outcome_of(told("budget"))
    parts = {queue.name: queue.gpu_hours / outcome.gpu_hours for queue in outcome.queues}
    assert parts == pytest.approx({"half": 0.5, "third": 0.3, "fifth": 0.2}, rel=0.05)
    assert outcome.evictions == 0
    assert outcome.utilisation > 0.99


def started(run, begin, end):
    """How many jobs each queue started from one day to another."""
    work, day = run.workload, 86_400 / run.scenario.pace.step_s
    return Counter(
        work.queue_names[work.queue[job]]
        for job, log in enumerate(run.record.jobs)
        if log.started != NOT_YET and begin * day <= log.started < end * day
    )


def test_what_a_team_leaves_of_its_budget_is_not_carried_over_a_reset():
    """Sixty jobs fit in each period of ten days."""
    run = told("budget-reset")
    assert started(run, 10, 20) == {"half": 30, "third": 18, "fifth": 12}
    assert started(run, 20, 30) == {"half": 30, "third": 18, "fifth": 12}
    # In the first, two teams use their budgets by turns in eight days; then nobody is stopped.
    assert started(run, 0, 8) == {"half": 30, "third": 18}
    assert started(run, 8, 10).total() == 12
    assert outcome_of(run).evictions == 0


def test_budgets_are_met_with_coarse_granularity_too():
    run = told("budget-granularity")
    for begin in (0, 10, 20):
        assert started(run, begin, begin + 10) == {"half": 30, "third": 18, "fifth": 12}


def test_overcommitted_budgets_are_cut_in_the_same_ratio():
    outcome = outcome_of(told("budget-overcommitted"))
    parts = {queue.name: queue.gpu_hours / outcome.gpu_hours for queue in outcome.queues}
    assert parts == pytest.approx({"sixty": 1 / 2, "forty": 1 / 3, "twenty": 1 / 6}, rel=0.01)
    assert outcome.evictions == 0


def test_a_budget_is_a_part_of_its_calendar_month():
    run = told("budget-calendar")
    for begin, end in ((0, 31), (31, 59)):
        jobs = started(run, begin, end)
        whole = (end - begin) * 6
        assert jobs.total() == whole
        for name, part in (("half", 0.5), ("third", 0.3), ("fifth", 0.2)):
            assert jobs[name] == pytest.approx(part * whole, abs=1), "to a job"
    assert outcome_of(run).evictions == 0


def test_late_budgets_go_by_unused_budget():
    run = told("budget-late")
    assert started(run, 0, 20) == {"half": 120}
    assert started(run, 20, 30) == {"third": 36, "fifth": 24}
    assert outcome_of(run).evictions == 0


def begun(name, duration="4h", step="4h", **begins):
    """Run a scenario in which the jobs of queues come from another day on."""
    path = FOLDER / f"{name}.yaml"
    raw = read_raw(path)
    raw["time"]["step"] = step
    for job in raw["jobs"]:
        job["arrivals"] = {"backlog": "endless", "begin": begins[job["queue"]]}
        job["duration"] = duration
    scenario = scenario_of(raw, path)
    return run_scenario(scenario, policy_of(scenario)[0])


def test_budgets_that_all_want_at_the_end_are_cut_in_the_same_ratio():
    run = begun("budget-late", half="20d", third="20d", fifth="20d")
    assert started(run, 20, 30) == {"half": 30, "third": 18, "fifth": 12}


def test_jobs_without_an_end_share_late_hours_by_unused_budget_too():
    run = begun("budget-late", duration="60d", step="10m", half="20d", third="20d", fifth="20d")
    outcome = outcome_of(run)
    parts = {queue.name: queue.gpu_hours / outcome.gpu_hours for queue in outcome.queues}
    assert parts == pytest.approx({"half": 0.5, "third": 0.3, "fifth": 0.2}, rel=0.05)
    assert outcome.evictions <= 2 * 4, "each of two jobs of four pods gives way once"


def test_what_is_left_of_two_budgets_is_met_late_if_the_hours_allow():
    """The second has had five days of its nine, the third none of its six: ten days are enough."""
    run = begun("budget-late", half="0d", third="15d", fifth="20d")
    assert started(run, 0, 15) == {"half": 90}
    assert started(run, 15, 20) == {"third": 30}
    assert started(run, 20, 30) == {"third": 24, "fifth": 36}


def test_who_had_some_of_its_budget_gives_way_until_others_had_as_large_a_part():
    """`third` has had three of its nine days, `fifth` nothing of its six, and seven are left."""
    run = begun("budget-late", half="0d", third="20d", fifth="23d")
    assert started(run, 20, 23) == {"third": 18}
    # Two days for `fifth`, then five by turns: each has had two thirds of its budget.
    assert started(run, 23, 25) == {"fifth": 12}
    assert started(run, 20, 30) == {"third": 36, "fifth": 24}
