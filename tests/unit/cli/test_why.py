"""``kaisched why`` and ``kaisched queue``: one answer from files, snapshots and daemons."""

import json
import math
from dataclasses import replace

import pytest

from kaisched.cli.when import when_document, when_lines
from kaisched.sim.forecast.forecast import Forecast
from tests.unit.cli.conftest import NODE, POD, QUEUE


@pytest.fixture
def crowd(tmp_path):
    """A queue at its limit with two jobs that wait, and a job that fits nowhere."""
    file = tmp_path / "crowd.yaml"
    file.write_text(
        NODE % "n0"
        + NODE % "n1"
        + QUEUE % ("root", "", 16, -1)
        + QUEUE % ("a", "root", 4, 6)
        + QUEUE % ("b", "root", 8, -1)
        + POD % ("a-0", "a", "kaisched", 4)
        + POD % ("a-1", "a", "kaisched", 4)
        + POD % ("a-2", "a", "kaisched", 4)
        + POD % ("b-0", "b", "kaisched", 16),
        encoding="utf-8",
    )
    return file


@pytest.mark.proportion
def test_a_waiting_job_has_a_reason_a_position_and_a_step_that_was_tried(run, crowd):
    assert run("why", "a-1", "-f", crowd) == (
        0,
        """\
Pod team/a-1 is pending: OverLimit
  queue a: gpu 4 held + 4 asked is over its limit of 6
  pod team/a-1: pending
  position 1 of 2 in queue a
  no job is ahead of it
  queue a: 4 GPUs allocated, fair share 6, quota 4, requested 12
  queue root: 4 GPUs allocated, fair share 12, quota 16, requested 12
  next: a limit of gpu 8 for queue a
    tried on a copy: the job starts, or is promised room
""",
        "",
    )


@pytest.mark.proportion
def test_a_queue_behind_another_hears_why_in_plain_words(run, tmp_path):
    """Both queues wait for the same node; b would be above its quota with its job."""
    file = tmp_path / "two.yaml"
    file.write_text(
        NODE % "n0"
        + QUEUE % ("a", "", 8, -1)
        + QUEUE % ("b", "", 0, -1)
        + POD % ("a-0", "a", "kaisched", 16)
        + POD % ("b-0", "b", "kaisched", 16),
        encoding="utf-8",
    )
    code, said, _ = run("why", "b-0", "-f", file)
    assert code == 0
    assert "because queue b " in " ".join(said.split())
    assert "(0 no, 1 yes)" not in said


@pytest.mark.proportion
def test_a_job_behind_another_hears_what_is_enough_for_both(run, crowd):
    lines = run("why", "team/a-2", "-f", crowd)[1].splitlines()
    because = "because the name of Pod team/a-2 comes later"
    assert f"  directly ahead: Pod team/a-1, {because}" in lines
    assert "  position 2 of 2 in queue a, behind jobs that ask for 4 GPUs" in lines
    assert lines[-2] == "  next: a limit of gpu 12 for queue a"


@pytest.mark.proportion
def test_a_job_far_behind_others_hears_who_they_are_and_what_they_ask_for(run, tmp_path):
    file = tmp_path / "line.yaml"
    pods = "".join(POD % (f"a-{at:02}", "a", "kaisched", 8) for at in range(60))
    file.write_text(NODE % "n0" + QUEUE % ("a", "", 8, -1) + pods, encoding="utf-8")
    document = json.loads(run("plan", "-f", file, "-o", "json")[1])
    last = next(it for it in document["cycles"][-1]["pending"] if it["podGroup"].count("a-59"))
    assert last["turn"]["gpusAhead"] == 58 * 8
    lines = run("why", "team/a-59", "-f", file)[1].splitlines()
    assert "  position 59 of 59 in queue a, behind jobs that ask for 464 GPUs" in lines
    assert "  next: 59 more nodes like n0" in lines  # one for each, and n0 for the first


def test_the_nodes_that_are_out_are_evidence(run, crowd):
    assert "2 gpu short by at least 8" in run("why", "b-0", "-f", crowd)[1]
    document = json.loads(run("why", "b-0", "-f", crowd, "-o", "json")[1])
    (miss,) = document["nodeMisses"]
    assert (miss["nodes"], miss["detail"]) == (2, "gpu short by at least 8")


def test_a_job_that_does_not_wait_says_where_its_pods_are(run, crowd):
    lines = run("why", "team/pg-a-0-uid-6", "-f", crowd)[1].splitlines()
    assert lines[:2] == [
        "Pod team/a-0 does not wait",
        "  pod team/a-0: to be bound now on n0",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a-11", "there is no job or pod a-11; did you mean"),
        ("zzz", "there is no job or pod zzz; only pods of our scheduler names are read"),
        ("same", "several are called same: Pod one/same, Pod two/same; write the"),
    ],
)
def test_a_name_that_means_no_job_or_several_is_an_error(run, crowd, name, message):
    same = POD % ("same", "a", "kaisched", 1)
    text = crowd.read_text(encoding="utf-8")
    text += same.replace("team", "one") + same.replace("team", "two")
    crowd.write_text(text, encoding="utf-8")
    code, out, err = run("why", name, "-f", crowd)
    assert (code, out) == (2, "")
    assert message in err


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: team, uid: u-%s}
spec: {parallelism: %s}
---"""
OWNED = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  labels: {kai.scheduler/queue: a}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: %s, uid: u-%s, controller: true}]
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
---"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_job_is_found_by_the_name_of_its_workload(run, crowd, is_there):
    """Also where only the pod names the workload."""
    text = crowd.read_text(encoding="utf-8") + (JOB % ("train", 1, 1) if is_there else "")
    crowd.write_text(text + OWNED % ("train-x5", "train", 1), encoding="utf-8")
    names = ("train", "team/train", "Job team/train", "job/train", "job.batch/train", "jobs/train")
    for name in names:
        out = run("why", name, "-f", crowd)[1]
        assert out.startswith("Job team/train ")
        assert "pod team/train-x5" in out
    assert "did you mean" in run("why", "traim", "-f", crowd)[2]


def test_of_a_workload_with_many_jobs_some_are_named(run, crowd):
    pods = "".join(POD % (f"w-{n}", "a", "kaisched", 1) for n in range(7))
    owner = "{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}"
    pods = pods.replace("namespace: team,", f"namespace: team, ownerReferences: [{owner}],")
    crowd.write_text(crowd.read_text(encoding="utf-8") + pods, encoding="utf-8")
    code, _, err = run("why", "web", "-f", crowd)
    assert code == 2
    assert "several are called web: ReplicaSet team/web (w-0), " in err
    assert "ReplicaSet team/web (w-4) and 2 more; name one of them" in err
    for name in ("w-3", "pod/w-3", "ReplicaSet team/web (w-3)"):
        assert run("why", name, "-f", crowd)[1].startswith("ReplicaSet team/web (w-3) ")


@pytest.mark.proportion
def test_a_waiting_job_of_kueue_is_found_by_its_name(run):
    line = ["why", "sweep", "-f", "docs/examples/kueue", "--shard", "config/shards/kueue.yaml"]
    code, out, _ = run(*line)
    assert code == 0
    assert out.startswith("Job team-vision/sweep is pending: QuotaExhausted\n")


def test_a_snapshot_answers_what_the_files_do(run, crowd, tmp_path):
    file = tmp_path / "s.json"
    assert run("snapshot", "take", file, "-f", crowd)[0] == 0
    for line in (("why", "a-2"), ("queue", "ls"), ("queue", "show", "a")):
        for form in ((), ("-o", "json")):
            told = run(*line, "--snapshot", file, *form)
            assert told[0] == 0
            assert told == run(*line, "-f", crowd, *form)
    code, _, err = run("why", "a-2", "--snapshot", file, "-f", crowd)
    assert (code, "name several sources" in err) == (2, True)


def test_the_answer_is_json_with_the_entry_of_a_plan(run, crowd):
    document = json.loads(run("why", "a-2", "-f", crowd, "-o", "json")[1])
    plan = json.loads(run("plan", "-f", crowd, "-o", "json")[1])["cycles"][0]
    assert document["schemaVersion"] == "kaisched.io/why/v1"
    assert document["pending"] in plan["pending"]
    assert [queue["name"] for queue in document["queues"]] == ["a", "root"]
    of_plan = {queue["name"]: queue for queue in plan["queues"]}
    assert all(queue.items() >= of_plan[queue["name"]].items() for queue in document["queues"])
    pod = {"pod": "team/a-2", "state": "pending", "node": None}
    assert [it.items() >= pod.items() for it in document["pods"]] == [True]
    running = json.loads(run("why", "a-0", "-f", crowd, "-o", "json")[1])
    assert (running["pending"], running["pods"][0]["node"]) == (None, "n0")


def test_an_evicted_job_says_by_whom_and_why(run, tmp_path):
    held = (
        POD.replace("spec:", "spec:\n  nodeName: n0").replace("\n---", "")
        % (
            "old",
            "a",
            "kaisched",
            8,
        )
        + "\nstatus: {phase: Running}\n---"
    )
    file = tmp_path / "f.yaml"
    queues = QUEUE % ("a", "", 0, -1) + QUEUE % ("b", "", 8, -1)
    file.write_text(NODE % "n0" + queues + held + POD % ("new", "b", "kaisched", 8), "utf-8")
    lines = run("why", "old", "-f", file)[1].splitlines()
    assert lines[1] == "  pod team/old: to be evicted now on n0"
    assert lines[2].startswith("  evicted by reclaim for Pod team/new: ")


def test_problems_of_objects_are_told_and_are_the_exit_code(run, crowd):
    text = crowd.read_text(encoding="utf-8") + QUEUE % ("c", "nowhere", 1, 1)
    crowd.write_text(text, encoding="utf-8")
    code, out, err = run("why", "a-1", "-f", crowd)
    assert (code, bool(out)) == (1, True)
    assert "nowhere" in err


@pytest.mark.proportion
def test_queues_are_listed_with_the_reasons_of_their_jobs(run, crowd):
    code, out, err = run("queue", "ls", "-f", crowd)
    assert (code, err) == (0, "")
    assert (
        out
        == """\
Queues: GPUs
QUEUE  FAIR SHARE  ALLOCATED  REQUESTED  DESERVED
root           12          4         12        16
  a             6          4         12         4
  b             0          0          0         8

Waiting
QUEUE  WAITING JOBS  REASONS
root              3  2 OverLimit, 1 ExceedsAnyNode
a                 2  2 OverLimit
b                 1  1 ExceedsAnyNode

Unschedulable
QUEUE  COUNTS FOR NO SHARE
b      gpu 16 that its jobs ask for counts for no share: 1 ExceedsAnyNode, such
       as Pod team/b-0; they could not start if nothing else ran

"""
    )


def test_a_queue_shows_its_jobs_in_order(run, crowd):
    out = run("queue", "show", "a", "-f", crowd)[1]
    jobs = out.partition("Jobs in order\n")[2].splitlines()
    assert [line.split()[:3] for line in jobs if line.split() and line.split()[0].isdecimal()] == [
        ["1", "Pod", "team/a-1"],
        ["2", "Pod", "team/a-2"],
    ]
    assert "\n  b " not in out
    document = json.loads(run("queue", "show", "root", "-f", crowd, "-o", "json")[1])
    assert [queue["name"] for queue in document["queues"]] == ["root", "a", "b"]
    assert sum(document["queues"][0]["pending"].values()) == len(document["jobs"]) == 3
    code, _, err = run("queue", "show", "aa", "-f", crowd)
    assert (code, "there is no queue aa" in err) == (2, True)


@pytest.mark.proportion
def test_a_queue_with_a_problem_says_it(run, tmp_path):
    file = tmp_path / "f.yaml"
    shut = (QUEUE % ("a", "", 0, -1)).replace("quota: 0", "quota: 0, overQuotaWeight: 0")
    file.write_text(NODE % "n0" + shut + POD % ("p", "a", "kaisched", 1), encoding="utf-8")
    assert "Problems\nQUEUE  PROBLEM\na      " in run("queue", "ls", "-f", file)[1]
    document = json.loads(run("queue", "ls", "-f", file, "-o", "json")[1])
    assert document["queues"][0]["problem"]


RUNS = """
apiVersion: v1
kind: Pod
metadata:
  name: old
  namespace: team
  labels: {kai.scheduler/queue: a}
  annotations: {kaisched.io/run-seconds: "3600"}
spec:
  schedulerName: kaisched
  nodeName: n0
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]
status: {phase: Running, startTime: "2026-07-01T11:30:00Z"}
---"""


@pytest.fixture
def busy(tmp_path):
    """A job that ends in half an hour, and one that waits for its room."""
    file = tmp_path / "busy.yaml"
    waits = (POD % ("new", "a", "kaisched", 8)).replace(
        "labels:", 'creationTimestamp: "2026-07-01T12:00:00Z", labels:'
    )
    file.write_text(NODE % "n0" + QUEUE % ("a", "", 8, -1) + RUNS + waits, encoding="utf-8")
    return file


def test_when_a_job_may_start_is_told_with_its_assumptions(run, busy):
    code, out, err = run("why", "new", "-f", busy, "--when")
    assert (code, err) == (0, "")
    assert out.endswith(
        """\
  when: in 30m if what is assumed holds
    assumed: run times: 1 job as declared; 1 job for ever, since no run that has ended is known
    assumed: no new jobs come: how often they do is not known
    assumed: evicted jobs begin anew after their grace period; nodes and past usage stay as they are
"""
    )
    assert "when" not in run("why", "new", "-f", busy)[1]


def test_when_is_in_the_document_and_null_where_it_was_not_asked(run, busy, tmp_path):
    when = json.loads(run("why", "new", "-f", busy, "--when", "-o", "json")[1])["when"]
    assert [when[f"{name}Seconds"] for name in ("earliest", "median", "latest")] == [1800] * 3
    assert (when["courses"], when["started"], when["lookedAheadSeconds"]) == (1, 1, None)
    assert json.loads(run("why", "new", "-f", busy, "-o", "json")[1])["when"] is None
    assert json.loads(run("why", "old", "-f", busy, "--when", "-o", "json")[1])["when"] is None
    file = tmp_path / "s.json"
    assert run("snapshot", "take", file, "-f", busy)[0] == 0
    again = json.loads(run("why", "new", "--snapshot", file, "--when", "-o", "json")[1])["when"]
    assert again == when


def test_a_job_that_the_cycle_starts_starts_in_the_next_cycle(run, crowd):
    assert "  when: in the next cycle\n" in run("why", "a-0", "-f", crowd, "--when")[1]


def test_a_job_that_never_fits_is_told_how_far_was_looked_ahead(run, crowd):
    lines = run("why", "b-0", "-f", crowd, "--when")[1].splitlines()
    (when,) = [line for line in lines if line.startswith("  when: ")]
    assert when == "  when: not in the next 6d"


OPEN = "not in the next 3h20m"


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        ((0, 0, 0), "in the next cycle"),
        ((1800, 1800, 1800), "in 30m if what is assumed holds, and in all of 10 courses of events"),
        ((95, 110, 4000), "in 1m35s to 1h7m, half of the time within 1m50s, by 10 courses"),
        (
            (130, 9000, None),
            f"in 2m at the earliest, half of the time within 2h30m; {OPEN} in 4 of",
        ),
        ((700_000, None, None), f"in 8d at the earliest; {OPEN} in 4 of 10 courses"),
        ((None, None, None), f"{OPEN}, in none of 10 courses of events"),
    ],
)
def test_a_band_is_told_as_far_as_it_is_known(seconds, line):
    numbers = [math.inf if it is None else float(it) for it in seconds]
    started = 10 if math.isfinite(numbers[2]) else 6 if math.isfinite(numbers[0]) else 0
    seen = Forecast(*numbers, 10, started, 12_500.0, 90, False, ("no new jobs come",))
    lines = list(when_lines(when_document(seen)))
    assert lines[0].startswith(f"  when: {line}")
    assert lines[1:] == ["    assumed: no new jobs come"]
    assert "time was up" in list(when_lines(when_document(replace(seen, is_cut=True))))[1]


@pytest.mark.parametrize(
    "line",
    [
        ("why", "a-2"),
        ("queue", "ls"),
        ("whatif", "submit", "--queue", "b", "--gpus", "2"),
    ],
    ids=" ".join,
)
def test_a_snapshot_is_answered_by_the_shard_that_is_named(run, crowd, tmp_path, line):
    file, shard = tmp_path / "s.json", tmp_path / "shard.yaml"
    shard.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: other}\n"
        "spec: {plugins: {proportion: {enabled: false}}}\n",
        encoding="utf-8",
    )
    assert run("snapshot", "take", file, "-f", crowd)[0] == 0
    own = run(*line, "--snapshot", file)
    other = run(*line, "--snapshot", file, "--shard", shard)
    assert (own[0], other[0]) == (0, 0)
    assert other == run(*line, "-f", crowd, "--shard", shard)
    assert other[1] != own[1]


def test_a_namespace_may_be_an_option_as_of_kubectl(run, crowd):
    told = run("why", "a-1", "-n", "team", "-f", crowd)
    assert told[0] == 0
    assert told == run("why", "team/a-1", "-f", crowd)
    assert run("why", "pod/a-1", "-n", "team", "-f", crowd) == run(
        "why", "Pod team/a-1", "-f", crowd
    )
    assert run("why", "Pod", "team/a-1", "-f", crowd)[0] == 0  # a title as two words
    assert run("why", "a-1", "-n", "other", "-f", crowd)[0] == 2
    assert run("why", "a-1", "-f", crowd, "-o", "name")[1] == "pod/a-1\n"


def test_the_tree_is_the_list_under_another_name(run, crowd):
    told = run("queue", "tree", "-f", crowd)
    assert told[0] == 0
    assert told == run("queue", "ls", "-f", crowd)
