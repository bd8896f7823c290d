"""Traces through the real cycle under the default policy.

What must hold at every cycle (no node over capacity, gangs whole, no job lost) is checked inside
the replay and ends it with an error.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from kaisched.cli.app import run_line
from kaisched.engine.policy import default_policy
from kaisched.errors import InvariantBroken
from kaisched.sim.output.tables import json_of
from kaisched.sim.running import CheckedCycle, PolicyCycle, Stretch, simulate
from kaisched.sim.traces import find_trace, read_trace
from kaisched.sim.workload import ClusterSize, QuotaMode

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def philly():
    return read_trace(find_trace("philly-2017"))


@pytest.fixture
def write_trace(tmp_path):
    def write(jobs, vcs="vc,published_nodes\na,3\nb,1\n"):
        header = "submit_s,duration_s,num_gpus,vc\n"
        (tmp_path / "jobs.csv").write_text(header + jobs, encoding="utf-8")
        (tmp_path / "vcs.csv").write_text(vcs, encoding="utf-8")
        return tmp_path

    return write


def run(trace, stretch, size, quota=QuotaMode.NONE):
    return simulate(trace, stretch, size, PolicyCycle(default_policy()), quota=quota)


@pytest.mark.slow
@pytest.mark.parametrize("quota", list(QuotaMode))
def test_half_a_crowded_day_loses_nothing(philly, quota):
    report = run(philly, Stretch(29.5 * DAY_S, 30 * DAY_S), ClusterSize(16, 8), quota)
    assert report.jobs == 1174
    assert report.finished + report.running + report.pending == report.jobs
    assert 0.7 < report.utilisation < 1
    assert report.pending > 100, "the stretch is meant to be crowded"
    assert report.failures == ()
    assert sum(queue.entitled_gpu_hours for queue in report.queues) <= 16 * 8 * 12 + 1e-6


def test_a_drained_run_computes_all_that_was_asked_for(philly):
    """No GPU-minute is lost or made up: each job runs its whole minutes on all its GPUs, once."""
    day = Stretch(28 * DAY_S, 28.5 * DAY_S, is_drained=True)
    report = run(philly, day, ClusterSize(16, 8))
    assert (report.finished, report.running, report.pending) == (report.jobs, 0, 0)
    part = philly.part(28 * DAY_S, 28.5 * DAY_S)
    minutes = -(-part.duration_s // 60)
    done = report.gpu_hours - report.redone_gpu_hours
    assert done == pytest.approx(float(part.gpus @ minutes) / 60)
    assert 0 < report.redone_gpu_hours < report.lost_gpu_hours, "the day is meant to be crowded"


def test_the_same_input_gives_the_same_bytes(philly):
    stretch, size = Stretch(49 * DAY_S, 49.5 * DAY_S), ClusterSize(16, 8)
    first, second = (json_of(run(philly, stretch, size)) for _ in range(2))
    assert first == second


def test_weights_divide_a_full_node_three_to_one(write_trace):
    """Endless one-GPU jobs of two queues, weights 3 and 1, on 8 GPUs: 6 and 2 at every moment."""
    rows = [f"{60 * n},60,1,{vc}" for n in range(120) for vc in "ab" for _ in range(8)]
    trace = read_trace(write_trace("\n".join(rows) + "\n"))
    report = run(trace, Stretch(0, 7200), ClusterSize(1, 8))
    a, b = report.queues
    assert report.utilisation == 1
    assert (a.gpu_hours, b.gpu_hours) == (pytest.approx(12), pytest.approx(4))
    assert (a.got, b.got) == (pytest.approx(1), pytest.approx(1))


def test_an_idle_queue_leaves_its_share_to_the_other(write_trace):
    trace = read_trace(write_trace("".join("0,3600,1,b\n" for _ in range(8))))
    report = run(trace, Stretch(0, 3600), ClusterSize(1, 8))
    assert report.queues[1].gpu_hours == pytest.approx(8)
    assert report.queues[1].wait.longest_s == 0


def test_a_job_too_large_for_the_cluster_waits_and_blocks_nobody(write_trace):
    trace = read_trace(write_trace("0,600,16,a\n0,600,8,b\n60,600,1,a\n"))
    report = run(trace, Stretch(0, None, is_drained=True), ClusterSize(1, 8))
    assert [queue.finished for queue in report.queues] == [1, 1]
    assert [queue.pending for queue in report.queues] == [1, 0]


class Bump:
    """An action that makes room for a queue's jobs by evicting the other queue's, all at once."""

    name = "bump"

    def run(self, session):
        jobs, queue = session.jobs, session.queues.row_of_name["b"]
        waits = np.flatnonzero((session.ledger.job_pending > 0) & (jobs.queue_of_job == queue))
        runs = np.flatnonzero((jobs.active > 0) & (jobs.queue_of_job != queue))
        if not (waits.size and runs.size):
            return
        statement = session.statement()
        for task in jobs.tasks[int(runs[0])]:
            statement.evict(task)
        for task, node in zip(jobs.tasks[int(waits[0])], (0, 1), strict=False):
            statement.pipeline(task, node)
        statement.commit(self.name, int(waits[0]), "for the test")


def test_an_evicted_gang_makes_room_and_comes_back(write_trace):
    """Minutes: a's gang runs until 2 and leaves until 3, b's runs from 3 to 5, a's anew to 15."""
    jobs = "0,600,16,a\n120,120,16,b\n"
    trace = read_trace(write_trace(jobs, vcs="vc,published_nodes\na,1\nb,3\n"))
    policy = default_policy()
    policy = replace(policy, actions=(*policy.actions, Bump()))
    report = simulate(
        trace, Stretch(0, None, is_drained=True), ClusterSize(2, 8), PolicyCycle(policy)
    )
    a, b = report.queues
    assert (a.evictions, b.evictions) == (1, 0)
    assert b.wait.longest_s == 60
    # It had run for two minutes, which it computes again.
    assert (a.gpu_hours, b.gpu_hours) == (pytest.approx(16 / 5), pytest.approx(16 / 30))
    assert a.lost_gpu_hours == pytest.approx(16 * (2 + 1) / 60)
    assert report.makespan_s == 15 * 60


def outcome(capsys, *line):
    code = run_line(["simulate", *line])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_simulate_prints_the_same_table_again_and_times_on_stderr(capsys):
    line = ("--from", "28d", "--until", "2462400", "--nodes", "8")
    code, out, err = outcome(capsys, *line)
    assert code == 0
    assert "day 28 to 28.5, 8 nodes with 8 GPUs, quota none" in out
    assert err.startswith("kaisched: took ")
    assert outcome(capsys, *line)[1] == out


def test_simulate_checks_what_must_always_hold(capsys):
    line = ["--from", "28d", "--until", "28d6h", "--nodes", "16"]
    code, plain, _ = outcome(capsys, *line)
    assert code == 0
    assert outcome(capsys, *line, "--check-invariants")[:2] == (0, plain)


def test_a_checked_run_ends_with_the_first_violation_and_its_cycle(write_trace):
    cycle = PolicyCycle(default_policy())

    def twice(snapshot, now_s):
        """Decide well, but bind the last pod a second time."""
        result = cycle(snapshot, now_s)
        return replace(
            result,
            bind_tasks=np.append(result.bind_tasks, result.bind_tasks[-1:]),
            bind_nodes=np.append(result.bind_nodes, result.bind_nodes[-1:]),
        )

    trace = read_trace(write_trace("0,600,1,a\n"))
    with pytest.raises(
        InvariantBroken, match=r"cycle 1, at \d+ s: I5 pod .* more than once; report"
    ):
        simulate(trace, Stretch(), ClusterSize(1, 4), CheckedCycle(twice))


def test_simulate_speaks_json(capsys):
    _, out, _ = outcome(capsys, "--from", "28d", "--until", "29d", "-o", "json")
    assert json.loads(out)["untilSeconds"] == 29 * DAY_S


def test_simulate_takes_a_shard(capsys, tmp_path):
    shard = tmp_path / "shard.yaml"
    shard.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: spread}\n"
        "spec: {placementStrategy: {gpu: spread, cpu: spread}}\n",
        encoding="utf-8",
    )
    line = ("--from", "28d", "--until", "28.5d", "--nodes", "8")
    code, out, _ = outcome(capsys, *line, "--shard", str(shard))
    assert code == 0
    assert out.startswith("philly-2017, day 28")


def test_simulate_runs_only_the_actions_it_is_told(capsys):
    line = ("--from", "28d", "--until", "28.2d", "--nodes", "8", "-o", "json")
    _, by_default, _ = outcome(capsys, *line)
    _, allocating, _ = outcome(capsys, *line, "--actions", "allocate")
    _, idle, _ = outcome(capsys, *line, "--actions", "stalegang")
    assert json.loads(by_default)["finished"] == json.loads(allocating)["finished"] > 0
    assert json.loads(idle)["gpuHours"] == 0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (("--from", "3d", "--until", "2d"), "--until 2d is not after --from 3d"),
        (("--from", "soon"), "--from: 'soon' is no duration"),
        (("--trace", "nowhere"), "there is no such trace (value 'nowhere')"),
        (("--shard", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (("--nodes", "0"), "'--nodes'"),
        (("--checkpoint-every", "0s"), "--checkpoint-every: there is no time between two"),
        (("--checkpoint-every", "now"), "--checkpoint-every: 'now' is no duration"),
        (("--actions", "allokate"), "--actions: there is no such action (value 'allokate')"),
        (("--quota", "some"), "'--quota'"),
    ],
)
def test_simulate_says_what_is_wrong_in_one_line(capsys, line, complaint):
    code, out, err = outcome(capsys, *line)
    assert code == 2
    assert out == ""
    assert err.startswith("kaisched: ")
    assert complaint in err
    assert err.count("\n") == 1


def test_simulate_names_the_row_of_a_trace(capsys, write_trace):
    folder = write_trace("0,60,1,a\n0,60,many,a\n")
    code, _, err = outcome(capsys, "--trace", str(folder))
    assert code == 2
    assert err == (
        f"kaisched: {folder}/jobs.csv:3: num_gpus: is not a number (value 'many');"
        " write a whole number of GPUs from 1 to 1000000\n"
    )


@pytest.mark.slow
def test_demo_fits_a_terminal_and_ends_with_a_next_step_that_works(capsys):
    assert run_line(["demo"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "6214e9" in out
    step = out.strip().splitlines()[-1]
    line = step.removeprefix("Try next: kaisched simulate ").split()
    assert outcome(capsys, *line, "--until", "28.2d")[0] == 0
