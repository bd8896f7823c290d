"""``kaisched jobs``: filters, order, totals and forms; a running scheduler says what files say."""

import json

import pytest

from kaisched.cli import app, completion
from tests.unit.cli.conftest import NODE, POD, QUEUE

OWNED = """
apiVersion: batch/v1
kind: Job
metadata:
  {name: train, namespace: nlp, uid: u-train, annotations: {kaisched.io/user: ann@example.org}}
spec: {parallelism: 1}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-x
  namespace: nlp
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {kai.scheduler/queue: b}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u-train, controller: true}]
spec:
  schedulerName: kaisched
  nodeName: n1
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "2"}}}]
status:
  phase: Running
  conditions:
  - {type: PodScheduled, status: "True", lastTransitionTime: "2025-12-31T23:00:00Z"}
---"""


@pytest.fixture
def some(tmp_path):
    """One job that runs, two pods that wait, one that starts."""
    file = tmp_path / "some.yaml"
    pods = "".join(POD % (f"a-{at}", "a", "kaisched", 4) for at in range(3))
    queues = QUEUE % ("a", "", 4, 6) + QUEUE % ("b", "", 8, -1)
    file.write_text(NODE % "n0" + NODE % "n1" + queues + pods + OWNED, encoding="utf-8")
    return file


LAST = ("WHY", "OR", "WHERE")


def cells(out):
    """The words of each row of the table."""
    table = out.partition("\nJobs\n")[2].splitlines()
    return [line.split() for line in table if line]


def names(run, file, *line):
    code, out, _ = run("jobs", "-f", file, "-o", "json", *line)
    assert code == 0
    return [f"{it['workload']['kind']} {it['workload']['name']}" for it in json.loads(out)["jobs"]]


@pytest.mark.proportion
def test_the_list_begins_with_totals_and_says_whose_since_when_and_where(run, some, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, err = run("jobs", "-f", some)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "4 jobs: 2 running, 2 pending; waiting for 2 OverLimit"
    head, *rows = cells(out)
    assert head == ["JOB", "STATE", "QUEUE", "USER", "GPUS", "FOR", "PLACE", *LAST]
    by_name = {row[1]: row for row in rows}
    train = by_name["nlp/train"]
    assert train[:6] == ["Job", "nlp/train", "running", "b", "ann@example.org", "2"]
    assert train[7:] == ["-", "n1"]
    assert by_name["team/a-1"][2:5] == ["pending", "a", "4"]
    assert by_name["team/a-1"][-4:] == ["1", "of", "2", "OverLimit"]
    assert by_name["team/a-0"][2] == "running"


def test_a_user_has_a_column_only_where_one_is_known(run, live_files):
    assert "USER" not in run("jobs", "-f", live_files)[1]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (("--queue", "b"), ["Job train"]),
        (("-q", "a", "-s", "waiting"), ["Pod a-1", "Pod a-2"]),
        (("--state", "running", "--sort", "name"), ["Job train", "Pod a-0"]),
        (("--state", "running", "--sort", "name", "-r"), ["Pod a-0", "Job train"]),
        (("--user", "ann@example.org"), ["Job train"]),
        (("--user", "ann"), []),
        (("--reason", "OverLimit"), ["Pod a-1", "Pod a-2"]),
        (("-n", "nlp"), ["Job train"]),
        (("--name", "Job nlp/tr"), ["Job train"]),
        (("--sort", "gpus"), ["Job train", "Pod a-0", "Pod a-1", "Pod a-2"]),
    ],
    ids=" ".join,
)
def test_filters_and_order(run, some, line, found):
    assert sorted(names(run, some, *line)) == sorted(found)
    if "--sort" in line:
        assert names(run, some, *line)[:1] == found[:1]


@pytest.mark.proportion
def test_since_when_is_the_start_of_what_runs_and_the_creation_of_what_waits(run, some):
    document = json.loads(run("jobs", "-f", some, "-o", "json")[1])
    assert document["schemaVersion"] == "kaisched.io/jobs/v1"
    since = {it["workload"]["name"]: it["since"] for it in document["jobs"]}
    assert since["train"] == "2025-12-31T23:00:00.000Z"
    starts = {it["workload"]["name"]: it["nodes"] for it in document["jobs"]}
    assert (starts["train"], len(starts["a-0"]), starts["a-1"]) == (["n1"], 1, [])


def test_other_forms(run, some):
    csv = run("jobs", "-f", some, "-o", "csv")[1].splitlines()
    assert csv[0].startswith("podGroup,kind,namespace,name,part,state,queue,user,gpusHeld,")
    assert any(
        row.startswith("nlp/pg-train-u-train,Job,nlp,train,,running,b,ann@ex") for row in csv
    )
    found = run("jobs", "-f", some, "-o", "name", "-n", "nlp")[1]
    assert found == "podgroup.scheduling.run.ai/pg-train-u-train\n"


def test_what_is_wrong_is_said(run, some):
    code, _, err = run("jobs", "-f", some, "--queue", "c")
    assert (code, "there is no queue c" in err) == (2, True)
    code, _, err = run("jobs", "-f", some, "--state", "sleeping")
    assert (code, "sleeping" in err) == (2, True)
    assert run("jobs", "-f", some, "--name", "nothing")[1] == "0 jobs\n\n"


@pytest.mark.parametrize(
    "line", [(), ("--state", "waiting"), ("--sort", "gpus"), ("-q", "a")], ids=str
)
def test_a_running_scheduler_says_what_the_files_say(run, live_files, url, line):
    here = json.loads(run("jobs", *line, "-f", live_files, "-o", "json")[1])
    there = json.loads(run("jobs", *line, "--server", url, "-o", "json")[1])
    assert here.keys() == there.keys()
    for one, other in zip(here["jobs"], there["jobs"], strict=True):
        assert one.keys() == other.keys()
        assert {**one, "since": ""} == {**other, "since": ""}  # the loop has another clock


def test_names_are_completed_from_a_running_scheduler(url, monkeypatch):
    monkeypatch.setenv("KAISCHED_SERVER", url)
    assert sorted(completion.jobs("a-")) == ["a-0", "a-1", "a-2"]
    assert completion.jobs("team/b") == ["team/b-0"]
    assert completion.queues("ro") == ["root"]
    monkeypatch.setenv("KAISCHED_SERVER", "http://127.0.0.1:9")
    assert completion.jobs("a-") == []


def test_a_workload_may_be_taken_away_by_its_name(run, some):
    """With its pods: nothing of it is left."""
    code, out, _ = run("whatif", "remove", "job/train", "-f", some, "-o", "json")
    (gone,) = json.loads(out)["jobs"]
    assert (code, gone["workload"]["name"], gone["with"]) == (0, "train", None)
    code, _, err = run("whatif", "remove", "job/trrain", "-f", some)
    assert (code, "there is no job trrain" in err) == (2, True)


def test_kubectl_completes_names_too(url, monkeypatch, capsys):
    monkeypatch.setenv("KAISCHED_SERVER", url)
    for line, found in ((["why", "b-"], "b-0"), (["jobs", "--queue", "ro"], "root")):
        app.complete_main(line)
        assert capsys.readouterr().out.splitlines()[0] == f"{found}\t"


RUNS = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: team
  creationTimestamp: "2026-01-01T00:00:0{at}Z"
  labels: {{kai.scheduler/queue: a}}
  annotations: {{kaisched.io/run-seconds: "600"}}
spec:
  schedulerName: kaisched
  containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: "8"}}}}}}]
---"""


def test_when_each_waiting_job_may_start(run, tmp_path):
    """Of a node of eight GPUs three jobs of all of them and ten minutes each have one at a time."""
    file = tmp_path / "line.yaml"
    pods = "".join(RUNS.format(name=f"r{at}", at=at) for at in range(3))
    file.write_text(NODE % "n0" + QUEUE % ("a", "", 8, -1) + pods, encoding="utf-8")
    code, out, _ = run("jobs", "-f", file, "--when", "-o", "json")
    assert code == 0
    document = json.loads(out)
    starts = {it["workload"]["name"]: it["when"] for it in document["jobs"]}
    assert starts["r0"]["latestSeconds"] == 0
    assert starts["r1"]["latestSeconds"] == pytest.approx(600, rel=0.02)
    assert starts["r2"]["latestSeconds"] == pytest.approx(1200, rel=0.02)
    assert "3 jobs as declared" in document["assumptions"][0]
    _, out, _ = run("jobs", "-f", file, "--when")
    heads, *rows = cells(out)
    assert heads[-4:] == ["STARTS", "WHY", "OR", "WHERE"]
    of_job = {row[1]: " ".join(row) for row in rows}
    assert " now " in of_job["team/r0"]
    assert " in 10m " in of_job["team/r1"]
    assert "assumed: run times: 3 jobs as declared" in out
    _, out, _ = run("jobs", "-f", file, "--when", "-o", "csv")
    assert out.splitlines()[0].endswith("startEarliestSeconds,startLatestSeconds")
