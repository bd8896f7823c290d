"""Timelines small enough to work out by hand, with a first-fit cycle instead of the real one."""

import pytest

from kaisched.errors import InvariantBroken, PluginError
from kaisched.framework.records import PluginFailure
from kaisched.sim.cluster import Cluster
from kaisched.sim.grid import NEVER
from kaisched.sim.reading import read_trace
from kaisched.sim.replay import Replay, _next_sample
from kaisched.sim.workload import ClusterSize, QuotaMode, workload_of


def replayed(folder, decide, until=NEVER, nodes=1, gpus=8):
    size = ClusterSize(nodes, gpus)
    workload = workload_of(read_trace(folder), size, QuotaMode.NONE)
    replay = Replay(workload, Cluster(workload, size), decide, 0)
    replay.run(until)
    return replay


def test_two_queues_on_one_node_by_hand(write_trace, first_fit):
    """Ticks: a takes all 8 GPUs from 1 to 4; b's two jobs of 5 come at 2, and run one by one."""
    folder = write_trace("60,180,8,a\n120,60,5,b\n120,61,5,b\n")
    replay = replayed(folder, first_fit)
    tally = replay.tally
    assert tally.arrived == tally.finished == [1, 2]
    assert tally.pending == [0, 0]
    assert tally.waits == [[0], [2, 3]]
    assert tally.used == [8 * 3, 5 * 1 + 5 * 2]
    assert replay.last_end == 7
    assert replay.last == 7
    # 1 arrival, 2 arrivals, 4 end and start, 5 end and start, 7 end
    assert replay.cycles == first_fit.calls == 5


def test_the_clock_stops_where_it_is_told(write_trace, first_fit):
    replay = replayed(write_trace("60,180,8,a\n120,60,5,b\n"), first_fit, until=3)
    assert replay.last == 3
    assert replay.tally.used == [8 * 2, 0]
    assert replay.tally.pending == [0, 1]
    assert replay.waiting() == [1]


def test_what_happens_at_the_last_tick_still_counts(write_trace, first_fit):
    replay = replayed(write_trace("60,180,8,a\n240,60,8,b\n"), first_fit, until=4)
    assert replay.tally.finished == [1, 0]
    assert replay.tally.waits == [[0], [0]]
    assert replay.tally.held == [0, 8]


def test_a_job_that_never_fits_waits_for_ever(write_trace, first_fit):
    replay = replayed(write_trace("0,60,16,a\n0,60,1,b\n"), first_fit)
    assert replay.tally.pending == [1, 0]
    assert replay.tally.finished == [0, 1]
    assert replay.last == 1


def test_a_gang_starts_as_a_whole(write_trace, first_fit):
    replay = replayed(write_trace("0,60,4,a\n0,60,16,b\n"), first_fit, nodes=2)
    assert replay.tally.waits == [[0], [1]]
    assert replay.tally.used == [4, 16]


def test_gpu_hours_are_the_sum_over_jobs(write_trace, first_fit):
    rows = [(7 * n % 300, 60 * (n % 5) + 1, 1 + n % 9, "ab"[n % 2]) for n in range(200)]
    folder = write_trace("".join(f"{','.join(map(str, row))}\n" for row in sorted(rows)))
    replay = replayed(folder, first_fit, nodes=2)
    assert sum(replay.tally.finished) == 200
    assert sum(replay.tally.used) == sum(gpus * (n // 60 + 1) for _, n, gpus, _ in rows)


def test_an_evicted_job_goes_a_tick_later_and_keeps_what_it_computed(write_trace, first_fit):
    """Evicted at tick 1, when another comes; runs again from 2, for the 4 ticks it had left."""
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,300,8,a\n60,60,1,b\n"), first_fit)
    tally = replay.tally
    assert tally.evicted == [1, 0]
    assert tally.finished == [1, 1]
    assert tally.waits == [[0], [6 - 1]], "the older job keeps its place before the newer one"
    assert tally.used == [8 * 5, 1]
    assert replay.last_end == 7


def test_an_evicted_gang_goes_as_a_whole(write_trace, first_fit):
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,300,16,a\n60,60,1,b\n"), first_fit, nodes=2)
    assert replay.tally.evicted == [1, 0]
    assert replay.tally.used == [16 * 5, 1]
    assert replay.last_end == 7


def test_what_does_not_run_cannot_be_evicted(write_trace, first_fit):
    first_fit.evict_at = {0.0: ["trace/job-0000000"]}
    with pytest.raises(InvariantBroken, match="job 0 was evicted, but does not run"):
        replayed(write_trace("0,300,8,a\n"), first_fit)


def test_a_part_of_a_gang_is_no_decision(write_trace, first_fit):
    def half(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.bind_tasks, result.bind_nodes = result.bind_tasks[:1], result.bind_nodes[:1]
        return result

    with pytest.raises(InvariantBroken, match="1 of 2 pods"):
        replayed(write_trace("0,60,16,a\n"), half, nodes=2)


def test_a_node_over_capacity_is_noticed(write_trace, first_fit):
    def heap_up(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.bind_nodes = result.bind_nodes * 0
        return result

    with pytest.raises(InvariantBroken, match="over capacity"):
        replayed(write_trace("0,60,8,a\n0,60,8,a\n"), heap_up, nodes=2)


def test_an_abandoned_cycle_stops_the_run(write_trace, first_fit):
    def abandon(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.stats.abandoned = "plugin proportion failed"
        return result

    with pytest.raises(PluginError, match="abandoned at 60 s: plugin proportion failed"):
        replayed(write_trace("1,60,8,a\n"), abandon)


def test_failures_of_plugins_are_counted(write_trace, first_fit):
    def fail(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.failures = (PluginFailure("mine", "node_score", "ValueError: no"),)
        return result

    replay = replayed(write_trace("0,60,8,a\n"), fail)
    assert replay.failures == {("mine", "node_score", "ValueError: no"): 2}


def test_rows_survive_that_the_store_drops_dead_ones(write_trace, first_fit):
    """Enough short jobs beside a long one that rows are renumbered many times."""
    jobs = "0,6000000,1,a\n" + "".join(f"{60 * n},60,1,b\n" for n in range(1, 4000))
    replay = replayed(write_trace(jobs), first_fit)
    assert replay.tally.finished == [1, 3999]
    assert replay.tally.used == [100_000, 3999]


def test_fair_shares_are_those_in_force_at_the_time_of_sampling(write_trace, first_fit):
    """Jobs run in minutes 1 and 31; samples are due at 30 and 60, when nothing happens."""

    def count(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        for share in result.shares:
            share.fair_share["gpu"] = 1000 * first_fit.calls
        return result

    replay = replayed(write_trace("60,60,1,a\n1860,60,1,a\n"), count, until=70)
    assert first_fit.calls == 4
    assert replay.tally.entitled == [2000 * 30 + 4000 * 10] * 2


@pytest.mark.parametrize(
    ("at", "tick", "following"), [(0, 0, 0), (0, 1, 30), (30, 30, 30), (30, 61, 90), (60, 4, 60)]
)
def test_times_of_sampling_are_a_grid_of_their_own(at, tick, following):
    assert _next_sample(at, tick) == following
