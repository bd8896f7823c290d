"""Scenarios small enough to compute by hand, through the real cycle with all invariants."""

import numpy as np
import pytest

from kaisched.sim.outcome import outcome_of, timeline_of
from kaisched.sim.output.files import result_of
from kaisched.sim.running import policy_of, run_scenario
from tests.unit.sim.conftest import job

NODE = [{"count": 1, "gpus": 8}]
TUESDAY_S = 1_546_300_800.0
"""2019-01-01, the first of January of a common year that begins on a Tuesday."""


@pytest.fixture
def ran(scenario):
    def run(**changes):
        read = scenario(**changes)
        return run_scenario(read, policy_of(read)[0], is_checked=True)

    return run


def ticks(run, queue):
    """Return the (tick, GPUs) of each change of what a queue holds."""
    steps = run.record.allocated[queue]
    return list(zip(steps.ticks, steps.values, strict=True))


def test_jobs_run_when_they_come_and_for_as_long_as_they_say(ran):
    run = ran(nodes=NODE, jobs=[job("a", 8, 1), job("a", 4, 2, at="30m")])
    assert ticks(run, 0) == [(0, 8), (60, 4), (180, 0)]
    first, second = run.record.jobs
    assert (first.started, first.ended, second.started, second.ended) == (0, 60, 60, 180)
    outcome = outcome_of(run)
    assert (outcome.finished, outcome.pending, outcome.gpu_hours) == (2, 0, 16)
    assert outcome.queues[0].wait.longest_s == 1800
    assert outcome.utilisation == pytest.approx(16 / 48)
    assert outcome.makespan_s == 3 * 3600


def test_an_evicted_job_makes_room_and_does_its_work_again(ran):
    """Half of the GPUs is reclaimed from a, whose job of an hour had run for half of it."""
    run = ran(nodes=NODE, jobs=[job("a", 8, 1), job("b", 4, 2, at="30m")])
    assert ticks(run, 0) == [(0, 8), (30, 0), (151, 8), (211, 0)]
    assert ticks(run, 1)[1:] == [(31, 4), (151, 0)]
    log = run.record.jobs[0]
    assert (log.runs, log.evictions, log.failures, log.redone) == (2, 1, 0, 30)
    outcome = outcome_of(run)
    assert outcome.evictions == 1
    assert outcome.lost_gpu_hours == pytest.approx(8 * 31 / 60)


def test_a_failed_node_stops_its_jobs_which_begin_again_from_a_checkpoint(ran):
    """A job of 3 hours with a checkpoint each hour fails after 90 minutes, and continues at 3 h."""
    nodes = [{"count": 1, "gpus": 8, "outages": [{"at": "90m", "until": "3h"}]}]
    run = ran(nodes=nodes, jobs=[job("a", 8, 3)], time={"duration": "8h"})
    assert ticks(run, 0) == [(0, 8), (90, 0), (180, 8), (300, 0)]
    log = run.record.jobs[0]
    assert (log.runs, log.failures, log.evictions, log.redone) == (2, 1, 0, 30)
    outcome = outcome_of(run)
    assert (outcome.failures, outcome.evictions) == (1, 0)
    assert outcome.lost_gpu_hours == pytest.approx(4)
    assert outcome.utilisation == pytest.approx((1.5 + 2) / 6.5)


def test_a_failed_node_stops_a_gang_on_all_its_nodes(ran):
    nodes = [{"count": 2, "gpus": 8, "outages": [{"at": "1h", "until": "90m"}]}]
    run = ran(nodes=nodes, jobs=[job("a", 8, 2, pods=2)], checkpointEvery="never")
    assert ticks(run, 0) == [(0, 16), (60, 0), (90, 16), (210, 0)]
    assert run.record.jobs[0].redone == 60


def test_a_job_on_another_node_goes_on(ran):
    nodes = [{"count": 2, "gpus": 8, "outages": [{"at": "1h"}]}]
    run = ran(nodes=nodes, jobs=[job("a", 8, 2), job("b", 8, 2)])
    assert sorted(log.failures for log in run.record.jobs) == [0, 1]


def test_a_job_of_its_own_mind_about_checkpoints(ran):
    nodes = [{"count": 1, "gpus": 8, "outages": [{"at": "50m", "until": "1h"}]}]
    run = ran(nodes=nodes, jobs=[job("a", 8, 1, checkpointEvery="20m")])
    assert run.record.jobs[0].redone == 10


def test_a_backlog_is_filled_up_when_one_of_its_jobs_starts(ran):
    jobs = [{"queue": "a", "arrivals": {"backlog": 2}, "gpus": 8, "duration": "1h", "count": 5}]
    run = ran(nodes=NODE, jobs=jobs, time={"duration": "10h"})
    assert run.workload.arrival == [0, 0, 1, 61, 121]
    assert [log.ended for log in run.record.jobs] == [60, 120, 180, 240, 300]


def test_an_endless_backlog_keeps_the_cluster_full(ran):
    jobs = [{"queue": "a", "arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "1h"}]
    run = ran(nodes=NODE, jobs=jobs)
    assert outcome_of(run).utilisation == pytest.approx(1)
    assert min(run.record.waiting[0].values) > 0


def test_a_backlog_ends_when_it_is_told(ran):
    arrivals = {"backlog": 1, "begin": "1h", "end": "2h"}
    jobs = [{"queue": "a", "arrivals": arrivals, "gpus": 8, "duration": "20m"}]
    run = ran(nodes=NODE, jobs=jobs)
    assert run.workload.arrival == [60, 61, 81, 101]


def test_jobs_that_never_end_run_to_the_end_of_the_clock(ran):
    run = ran(nodes=NODE, jobs=[job("a", 8, 1, duration="forever")])
    assert ticks(run, 0) == [(0, 8)]
    outcome = outcome_of(run)
    assert (outcome.running, outcome.gpu_hours, outcome.makespan_s) == (1, 48, None)


def test_a_drained_run_goes_on_until_all_is_done(ran):
    run = ran(
        nodes=NODE, jobs=[job("a", 8, 5), job("a", 8, 5)], time={"duration": "1h", "drain": True}
    )
    assert outcome_of(run).until_s == 10 * 3600


def test_a_drained_run_ends_though_a_job_never_fits(ran):
    time = {"duration": "1h", "drain": True, "recheck": "1m"}
    run = ran(nodes=NODE, jobs=[job("a", 8, 2), job("b", 9, 1)], time=time)
    outcome = outcome_of(run)
    assert (outcome.finished, outcome.pending, outcome.until_s) == (1, 1, 2 * 3600)


def test_the_cycle_is_told_of_the_past(ran, scenario, monkeypatch):
    """Each run_cycle gets the usage that the history answers at that time."""
    from kaisched.sim import running

    seen = []
    real = running.run_cycle

    def run_cycle(snapshot, usage, policy, now_s, memory, *others):
        seen.append((now_s, None if usage is None else usage.parts[2].tolist()))
        return real(snapshot, usage, policy, now_s, memory, *others)

    monkeypatch.setattr(running, "run_cycle", run_cycle)
    ran(
        nodes=NODE,
        usage={"window": "1w"},
        jobs=[job("a", 4, 2), job("b", 8, 1, at="1h")],
        time={"duration": "3h", "recheck": "30m"},
    )
    assert seen[0] == (0, [0, 0])
    assert dict(seen)[3600.0] == [500_000_000, 0]
    assert 5400.0 in dict(seen), "while b waits, a cycle runs though nothing happens"


def test_a_cron_window_begins_when_the_calendar_says(ran, monkeypatch):
    """The clock begins on a Tuesday at midnight, the window on Wednesday at six."""
    from kaisched.sim import running

    seen = {}
    real = running.run_cycle

    def run_cycle(snapshot, usage, policy, now_s, memory, *others):
        seen[now_s - TUESDAY_S] = usage.parts[2].tolist()
        return real(snapshot, usage, policy, now_s, memory, *others)

    monkeypatch.setattr(running, "run_cycle", run_cycle)
    ran(
        nodes=NODE,
        shard={
            "kValue": 0,
            "usageDBConfig": {
                "clientType": "memory",
                "usageParams": {"windowType": "cron", "cronString": "0 6 * * wed"},
            },
        },
        jobs=[job("a", 8, 28), job("b", 8, 28), job("b", 8, 28)],
        time={"duration": "2d", "recheck": "1h", "startsOn": "tue"},
    )
    assert seen[30 * 3600.0] == [pytest.approx(28 / 30 * 1e9), pytest.approx(2 / 30 * 1e9)]
    assert seen[31 * 3600.0] == [0, 1_000_000_000]


@pytest.mark.proportion
def test_a_budget_begins_with_the_clock(ran, monkeypatch):
    """Wherever its window began in real time, a quarter has passed after a quarter."""
    from kaisched_plugins.time_based_fairshare.config import TimeBasedFairshareArguments

    passed = []
    real = TimeBasedFairshareArguments.left

    def left(self, now_s):
        passed.append(1 - real(self, now_s))
        return 1 - passed[-1]

    monkeypatch.setattr(TimeBasedFairshareArguments, "left", left)
    window = {"windowType": "tumbling", "windowSize": "4h"}
    ran(
        nodes=NODE,
        shard={
            "usageDBConfig": {
                "clientType": "memory",
                "usageParams": {**window, "tumblingWindowStartTime": "2026-01-01T01:00:00Z"},
            },
            "plugins": {"time-based-fairshare": {"arguments": {"handOver": "budgets"}}},
        },
        jobs=[job("a", 8, 8), job("b", 8, 8)],
        time={"duration": "3h", "recheck": "1h"},
    )
    assert passed == sorted(passed)
    assert {0.0, 0.25, 0.5} <= set(passed)
    assert passed[-1] < 1


def test_without_a_history_the_cycle_is_told_nothing(ran, monkeypatch):
    from kaisched.sim import running

    seen = []
    real = running.run_cycle

    def run_cycle(snapshot, usage, *others):
        seen.append(usage)
        return real(snapshot, usage, *others)

    monkeypatch.setattr(running, "run_cycle", run_cycle)
    ran()
    assert len(seen) > 10
    assert set(seen) == {None}


def test_the_timeline_adds_up_to_the_sums(ran):
    jobs = [
        {"queue": "a", "arrivals": {"poissonPerHour": 4}, "duration": {"exponential": "1h"}},
        {"queue": "b", "arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "45m"},
    ]
    run = ran(jobs=jobs, time={"duration": "12h"})
    outcome, line = outcome_of(run), timeline_of(run, 100)
    hours = (line.end_s - line.begin_s) / 3600
    assert len(hours) <= 100
    for at, queue in enumerate(outcome.queues):
        assert float(line.allocated[at] @ hours) == pytest.approx(queue.gpu_hours)
        assert line.gpu_hours[at, -1] == pytest.approx(queue.gpu_hours)
        assert line.entitled_hours[at, -1] == pytest.approx(queue.entitled_gpu_hours)
    assert line.jain[-1] == pytest.approx(outcome.jain)
    assert (np.diff(line.gpu_hours, axis=1) >= -1e-9).all()


def test_nodes_are_as_busy_as_their_jobs_make_them(ran):
    """Two nodes of 4 GPUs, one job of 4 for half of the time: one row half full, one empty."""
    run = ran(jobs=[job("a", 4, 3)])
    means = run.record.nodes.means()
    assert sorted(means.sum(axis=1) * run.record.nodes.width) == pytest.approx([0, 4 * 180])


def test_a_long_run_has_few_spans_and_loses_no_gpu_time(ran):
    jobs = [{"queue": "a", "arrivals": {"every": "1h"}, "gpus": 3, "duration": "40m"}]
    run = ran(jobs=jobs, time={"duration": "5d"})
    nodes = run.record.nodes
    means = nodes.means()
    spans = np.full(means.shape[1], nodes.width)
    spans[-1] = run.replay.last - (means.shape[1] - 1) * nodes.width
    assert means.shape[1] <= nodes.MOST
    assert float((means @ spans).sum()) == pytest.approx(sum(run.replay.tally.used))


def test_a_result_holds_every_queue_even_one_without_jobs(ran):
    outcome = result_of(ran()).outcome
    assert [queue.name for queue in outcome.queues] == ["a", "b"]
    assert (outcome.queues[1].jobs, outcome.queues[1].got, outcome.queues[1].wait) == (
        0,
        None,
        None,
    )
