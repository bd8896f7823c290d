"""Timelines small enough to compute by hand, with a first-fit cycle instead of the real one."""

import numpy as np
import pytest

from kaisched.errors import InvariantBroken, PluginError
from kaisched.framework.report.records import RUN, PluginFailure
from kaisched.sim.cluster import Cluster, equal_nodes, equal_queues
from kaisched.sim.pools import Site
from kaisched.sim.replay import Replay, _next_sample
from kaisched.sim.report import Failure
from kaisched.sim.ticks import NEVER, Pace
from kaisched.sim.traces import read_trace
from kaisched.sim.workload import ClusterSize, QuotaMode, workload_of


def replayed(folder, decide, until=NEVER, nodes=1, gpus=8, checkpoint=1):
    size = ClusterSize(nodes, gpus)
    workload = workload_of(read_trace(folder), size, QuotaMode.NONE)
    cluster = Cluster(workload, equal_nodes(size), equal_queues(workload))
    replay = Replay(workload, [Site(cluster, decide)], 0, Pace(checkpoint=checkpoint))
    replay.run(until)
    return replay


def test_two_queues_on_one_node_by_hand(write_trace, first_fit):
    """Ticks: a takes all 8 GPUs from 1 to 4; b's two jobs of 5 come at 2, and run one by one."""
    folder = write_trace("60,180,8,a\n120,60,5,b\n120,61,5,b\n")
    replay = replayed(folder, first_fit)
    tally = replay.tally
    assert tally.arrived == tally.finished == [1, 2]
    assert tally.pending == [0, 0]
    assert tally.waits(replay.last) == [[0], [2, 3]]
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


def test_what_happens_at_the_last_tick_still_counts(write_trace, first_fit):
    replay = replayed(write_trace("60,180,8,a\n240,60,8,b\n"), first_fit, until=4)
    assert replay.tally.finished == [1, 0]
    assert replay.tally.waits(replay.last) == [[0], [0]]
    assert replay.tally.held == [0, 8]


def test_a_job_that_never_fits_waits_for_ever(write_trace, first_fit):
    replay = replayed(write_trace("0,60,16,a\n0,60,1,b\n"), first_fit)
    assert replay.tally.pending == [1, 0]
    assert replay.tally.finished == [0, 1]
    assert replay.last == 1


def test_a_gang_starts_as_a_whole(write_trace, first_fit):
    replay = replayed(write_trace("0,60,4,a\n0,60,16,b\n"), first_fit, nodes=2)
    assert replay.tally.waits(replay.last) == [[0], [1]]
    assert replay.tally.used == [4, 16]


def test_gpu_hours_are_the_sum_over_jobs(write_trace, first_fit):
    rows = [(7 * n % 300, 60 * (n % 5) + 1, 1 + n % 9, "ab"[n % 2]) for n in range(200)]
    folder = write_trace("".join(f"{','.join(map(str, row))}\n" for row in sorted(rows)))
    replay = replayed(folder, first_fit, nodes=2)
    assert sum(replay.tally.finished) == 200
    assert sum(replay.tally.used) == sum(gpus * (n // 60 + 1) for _, n, gpus, _ in rows)


def test_an_evicted_job_goes_a_tick_later_and_keeps_what_it_computed(write_trace, first_fit):
    """Evicted at tick 1, when another job comes; runs again from 2, for the 4 ticks left."""
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,300,8,a\n60,60,1,b\n"), first_fit)
    tally = replay.tally
    assert tally.evicted == [1, 0]
    assert tally.finished == [1, 1]
    assert tally.waits(replay.last) == [[0], [6 - 1]], (
        "the older job keeps its place before the newer one"
    )
    assert tally.used == [8 * 5, 1]
    assert replay.last_end == 7


def test_an_evicted_gang_goes_as_a_whole(write_trace, first_fit):
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,300,16,a\n60,60,1,b\n"), first_fit, nodes=2)
    assert replay.tally.evicted == [1, 0]
    assert replay.tally.used == [16 * 5, 1]
    assert replay.last_end == 7


def test_an_evicted_job_computes_again_what_came_after_its_last_checkpoint(write_trace, first_fit):
    """Of 10 ticks it has run 5 when it is evicted, and begins at 6 from the checkpoint at 4."""
    first_fit.evict_at = {300.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,600,8,a\n300,60,1,b\n"), first_fit, checkpoint=4)
    tally = replay.tally
    assert (tally.redone, tally.stopping) == ([8, 0], [8, 0])
    assert tally.used == [8 * (10 + 1), 1]
    assert tally.waits(replay.last)[1] == [12 - 5]
    assert replay.last_end == 13


def test_checkpoints_are_counted_in_work_done_and_not_from_the_last_start(write_trace, first_fit):
    """Evicted with 5 of 10 ticks done, back to 4; at 11 with 9 done, back to 8; 2 are left."""
    first_fit.evict_at = {t: ["trace/job-0000000"] for t in (300.0, 660.0)}
    rows = "0,600,8,a\n300,60,1,b\n660,60,1,b\n"
    replay = replayed(write_trace(rows), first_fit, checkpoint=4, until=14)
    assert replay.tally.evicted == [2, 0]
    assert replay.tally.redone == [8 + 8, 0]
    assert replay.tally.finished == [1, 0]
    assert replay.last_end == 14


def test_a_job_that_ends_before_its_first_checkpoint_begins_anew(write_trace, first_fit):
    first_fit.evict_at = {120.0: ["trace/job-0000000"]}
    replay = replayed(write_trace("0,300,8,a\n120,60,1,b\n"), first_fit, checkpoint=60)
    assert replay.tally.redone == [16, 0]
    assert replay.tally.used[0] == 8 * (2 + 5)


def test_a_moved_job_goes_and_comes_back_without_its_promise(write_trace, first_fit):
    """Its pods are replaced by new ones, so a promise to an old pod is void."""
    first_fit.move_at = {60.0: ["trace/job-0000000"]}
    folder = write_trace("0,300,16,a\n60,60,1,b\n")
    seen = []

    def decide(snapshot, now_s):
        seen.append(snapshot.tasks.nominated_node.max())
        return first_fit(snapshot, now_s)

    replay = replayed(folder, decide, nodes=2)
    assert replay.tally.evicted == [1, 0]
    assert replay.tally.finished == [1, 1]
    assert max(seen) == -1


def test_a_gang_of_which_a_part_is_moved_stops_as_a_whole(write_trace, first_fit):
    first_fit.move_at = {60.0: ["trace/job-0000000"]}

    def decide(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.evict_tasks = result.evict_tasks[:1]
        result.nominate_tasks = result.nominate_tasks[:1]
        result.nominate_nodes = result.nominate_nodes[:1]
        return result

    replay = replayed(write_trace("0,300,16,a\n60,60,1,b\n"), decide, nodes=2)
    assert replay.tally.evicted == [1, 0]
    assert replay.tally.stopping == [16, 0]
    assert replay.tally.used == [16 * 5, 1]


def test_a_part_of_a_gang_is_not_evicted(write_trace, first_fit):
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}

    def decide(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.evict_tasks = result.evict_tasks[:1]
        return result

    with pytest.raises(InvariantBroken, match="1 of 2 pods of job 0 were evicted"):
        replayed(write_trace("0,300,16,a\n60,60,1,b\n"), decide, nodes=2)


def test_a_promise_to_a_pod_that_waits_is_kept_beside_evictions(write_trace, first_fit):
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    seen = []

    def decide(snapshot, now_s):
        seen.append(sorted(set(snapshot.tasks.nominated_node.tolist())))
        result = first_fit(snapshot, now_s)
        waiting = snapshot.tasks.name.index("trace/job-0000001-0") if now_s == 60 else -1
        if waiting >= 0:
            result.nominate_tasks = np.append(result.evict_tasks, waiting)
            result.nominate_nodes = np.zeros(len(result.nominate_tasks), np.int64)
        return result

    replayed(write_trace("0,300,8,a\n60,60,8,b\n"), decide, until=2)
    assert seen[-1] == [-1, 0]


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
        result.stats.abandoned = "plugin fair failed"
        return result

    with pytest.raises(PluginError, match="abandoned at 60 s: plugin fair failed"):
        replayed(write_trace("1,60,8,a\n"), abandon)


def test_failures_of_plugins_are_counted(write_trace, first_fit):
    def fail(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        result.failures = (PluginFailure("mine", "node_score", "ValueError: no"),)
        return result

    replay = replayed(write_trace("0,60,8,a\n"), fail)
    assert replay.failures == {("mine", "node_score", "ValueError: no"): 2}


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (("mine", "node_score", "ValueError: no"), "plugin mine at node_score failed 2 times"),
        (("reclaim", RUN, "ValueError: no"), "action reclaim failed 2 times"),
    ],
)
def test_a_failure_is_one_line(failed, line):
    assert Failure(*failed, times=2).warning() == f"warning: {line}: ValueError: no"


def test_rows_survive_that_the_store_drops_dead_ones(write_trace, first_fit):
    """Enough short jobs next to a long one that rows are renumbered many times."""
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


def test_the_distance_is_half_of_all_that_is_away_from_fair_shares(write_trace, first_fit):
    """Queue a holds 8 of 8 GPUs for 60 ticks; shares are 6 and 2, a distance of a quarter."""

    def share(snapshot, now_s):
        result = first_fit(snapshot, now_s)
        for each in result.shares:
            each.fair_share["gpu"] = {"a": 6000, "b": 2000}[each.name]
        return result

    replay = replayed(write_trace("0,6000,8,a\n0,6000,8,b\n"), share, until=60)
    assert replay.tally.distance == (2000 + 2000) * 60
    assert replay.tally.distance / 2 / 1000 / (8 * 60) == 0.25


@pytest.mark.parametrize(
    ("at", "tick", "following"), [(0, 0, 0), (0, 1, 30), (30, 30, 30), (30, 61, 90), (60, 4, 60)]
)
def test_times_of_sampling_are_a_grid_of_their_own(at, tick, following):
    assert _next_sample(at, tick) == following
