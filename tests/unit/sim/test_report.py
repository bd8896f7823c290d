import json
import re

import pytest

from kaisched.sim.cluster import Cluster, equal_nodes, equal_queues
from kaisched.sim.output.tables import json_of, short_duration, table_of
from kaisched.sim.pools import Site
from kaisched.sim.replay import Replay
from kaisched.sim.report import Setting, nearest_rank, report_of
from kaisched.sim.ticks import NEVER
from kaisched.sim.traces import read_trace
from kaisched.sim.workload import ClusterSize, QuotaMode, workload_of

SIZE = ClusterSize(1, 8)
HAND = "60,180,8,a\n120,60,5,b\n120,61,5,b\n"


def reported(folder, decide, until=NEVER):
    workload = workload_of(read_trace(folder), SIZE, QuotaMode.NONE)
    cluster = Cluster(workload, equal_nodes(SIZE), equal_queues(workload))
    replay = Replay(workload, [Site(cluster, decide)], 0)
    replay.run(until)
    return report_of(replay, workload, Setting("hand", SIZE, QuotaMode.NONE))


def test_a_report_by_hand(write_trace, first_fit):
    report = reported(write_trace(HAND), first_fit)
    assert (report.jobs, report.finished, report.running, report.pending) == (3, 3, 0, 0)
    assert report.gpu_hours == pytest.approx((8 * 3 + 5 * 3) / 60)
    assert report.utilisation == pytest.approx((8 * 3 + 5 * 3) / (8 * 7))
    assert report.makespan_s == 7 * 60
    b = report.queues[1]
    assert (b.wait.mean_s, b.wait.p50_s, b.wait.p95_s, b.wait.longest_s) == (150, 120, 180, 180)


def test_a_job_that_still_waits_counts_with_its_wait_so_far(write_trace, first_fit):
    report = reported(write_trace(HAND), first_fit, until=3)
    assert report.makespan_s is None
    assert (report.running, report.pending) == (1, 2)
    assert report.queues[1].wait.longest_s == 60


def test_a_queue_without_jobs_has_no_waits_and_no_line(write_trace, first_fit):
    report = reported(write_trace("0,60,8,a\n"), first_fit)
    assert report.queues[1].wait is None
    text = table_of(report)
    assert text.endswith("1 queues without a job are not shown.")
    assert "\nb " not in text


def test_nothing_at_all_is_a_report_too(write_trace, first_fit):
    report = reported(write_trace(""), first_fit)
    assert (report.jobs, report.utilisation, report.makespan_s) == (0, 0.0, 0.0)
    assert "0 jobs" in table_of(report)
    json.loads(json_of(report))


def test_what_evictions_cost_is_in_the_report(write_trace, first_fit):
    """Evicted after 1 tick with 8 GPUs: it repeats that tick, and stops for another one."""
    first_fit.evict_at = {60.0: ["trace/job-0000000"]}
    report = reported(write_trace("0,300,8,a\n60,60,1,b\n"), first_fit)
    a, b = report.queues
    assert (a.evictions, b.evictions, report.evictions) == (1, 0, 1)
    assert (a.lost_gpu_hours, b.lost_gpu_hours) == (pytest.approx(16 / 60), 0)
    assert report.redone_gpu_hours == pytest.approx(8 / 60)
    assert report.lost_gpu_hours == pytest.approx(16 / 60)
    assert report.checkpoint_every_s == 3600
    text = table_of(report)
    line = next(line for line in text.splitlines() if line.startswith("a "))
    assert line.split()[-2:] == ["1", "0.3"]


def test_the_distance_from_fair_shares_is_a_line_and_a_number(write_trace, first_fit):
    """Fair shares are zero here, so the distance is half of the 8 GPUs held."""
    report = reported(write_trace("0,6000,8,a\n"), first_fit, until=60)
    assert report.fair_share_distance == 0.5
    assert "\nOn average 50.0% of the GPUs were away from fair shares.\n" in table_of(report)
    assert json.loads(json_of(report))["fairShareDistance"] == 0.5


def test_the_table_fits_a_terminal(write_trace, first_fit):
    name = "a-virtual-cluster-with-a-long-name"
    jobs = "".join(f"{n},100000000,8,{name}\n" for n in range(2000))
    folder = write_trace(jobs, vcs=f"vc,published_nodes\n{name},1\n")
    text = table_of(reported(folder, first_fit, until=2_000_000))
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(rf"^{name}\n +2000 ", text, re.MULTILINE), "a name is not cut"


def test_json_holds_everything_in_camel_case(write_trace, first_fit):
    answer = json.loads(json_of(reported(write_trace(HAND), first_fit)))
    assert answer["schemaVersion"] == "kaisched.io/simulation/v1"
    assert answer["queues"][1]["gpuHours"] == 0.25
    assert answer["queues"][1]["wait"]["p95Seconds"] == 180


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 3), (95, 5), (1, 1), (100, 5), (0, 1), (20, 1), (21, 2)]
)
def test_percentiles_are_values_that_occurred(percent, value):
    assert nearest_rank([1, 2, 3, 4, 5], percent) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0m"), (59, "0m"), (60, "1m"), (3600, "1h0m"), (3900, "1h5m"), (183_600, "2d3h")],
)
def test_durations_in_the_table_are_short(seconds, text):
    assert short_duration(seconds) == text
