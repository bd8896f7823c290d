"""``kaisched whatif``: what a job, a quota, a weight, a limit or a node would change."""

import json

import pytest

from kaisched.cli.app import run_line
from tests.unit.cli.conftest import NODE, POD, QUEUE

RUNS = "\n  nodeName: %s\n  containers"


def running(name, queue, gpus, node):
    """A pod that runs."""
    text = POD % (name, queue, "kaisched", gpus)
    return text.replace("\n  containers", RUNS % node).replace(
        "\n---", "\nstatus: {phase: Running}\n---"
    )


@pytest.fixture
def shared(tmp_path):
    """Two nodes and two queues: one has taken more than its quota, nobody waits."""
    file = tmp_path / "shared.yaml"
    file.write_text(
        NODE % "n0"
        + NODE % "n1"
        + QUEUE % ("a", "", 8, -1)
        + QUEUE % ("b", "", 8, 8)
        + running("a-0", "a", 4, "n0")
        + running("a-1", "a", 4, "n0")
        + running("a-2", "a", 4, "n1"),
        encoding="utf-8",
    )
    return file


def told(run, *line):
    """Return the document of a command that must succeed."""
    code, out, err = run("whatif", *line, "-o", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.proportion
def test_a_gang_takes_its_quota_back_and_it_is_said_from_whom(run, shared):
    code, out, err = run("whatif", "submit", "--queue", "b", "--gpus", 8, "-f", shared)
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines()[2:4]] == [
        "Pod team/a-2 a goes on with 1 pod is evicted, 1 waits: NoRoom",
        "PodGroup whatif/whatif b is not there starts with 1 pod",
    ]
    assert "Evicted by the change\nPOD       BY       FOR" in out
    document = told(run, "submit", "--queue", "b", "--gpus", 8, "-f", shared)
    (evicted,) = document["evictions"]
    assert (evicted["pod"], evicted["action"]) == ("team/a-2", "reclaim")
    assert evicted["beneficiary"] == "whatif/whatif"
    assert {it["podGroup"]: it["with"]["running"] for it in document["jobs"]} == {
        "team/pg-a-2-uid-7": 0,
        "whatif/whatif": 1,
    }
    held = {it["name"]: it["with"]["allocated"]["gpu"] for it in document["queues"]}
    assert held == {"a": 8, "b": 8}


def test_a_manifest_does_what_the_options_do(run, shared, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(POD % ("new", "b", "kaisched", 4), encoding="utf-8")
    document = told(run, "submit", job, "-f", shared)
    (entry,) = document["jobs"]
    assert (entry["without"], entry["with"]["running"]) == (None, 1)
    assert document["evictions"] == []
    file = tmp_path / "s.json"
    assert run("snapshot", "take", file, "-f", shared)[0] == 0
    assert told(run, "submit", job, "--snapshot", file) == document
    assert document == told(run, "submit", job, "--snapshot", file)  # the file is as it was


@pytest.mark.proportion
def test_when_a_submitted_job_may_start(run, shared):
    when = told(run, "submit", "--queue", "b", "--gpus", 8, "--when", "-f", shared)["when"]
    seen = when["whatif/whatif"]
    assert (seen["started"], seen["courses"]) == (1, 1)
    assert 30 <= seen["medianSeconds"] <= 40  # until the evicted pod has gone
    out = run("whatif", "submit", "--queue", "b", "--when", "-f", shared)[1]
    assert "PodGroup whatif/whatif may start:\n  when: in the next cycle\n" in out


@pytest.mark.proportion
def test_a_quota_a_weight_and_a_limit(run, shared):
    with shared.open("a", encoding="utf-8") as file:
        file.write(POD % ("b-0", "b", "kaisched", 8) + POD % ("b-1", "b", "kaisched", 8))
    document = told(run, "set", "queue/b", "gpu.quota=16", "gpu.limit=-1", "-f", shared)
    jobs = {it["podGroup"]: it for it in document["jobs"]}
    assert jobs["team/pg-b-1-uid-9"]["without"]["reason"] == "OverLimit"
    assert jobs["team/pg-b-1-uid-9"]["with"]["reason"] != "OverLimit"
    (queue,) = [it for it in document["queues"] if it["name"] == "b"]
    assert (queue["without"]["deserved"]["gpu"], queue["with"]["deserved"]["gpu"]) == (8, 16)
    light = told(run, "set", "queue/a", "spec.resources.gpu.quota=0", "gpu.weight=0", "-f", shared)
    assert {it["name"] for it in light["queues"]} == {"a"}


def test_a_node_that_goes_lets_its_pods_wait_again(run, shared):
    document = told(run, "remove", "node/n1", "-f", shared)
    (job,) = document["jobs"]
    assert (job["podGroup"], job["with"]["running"], job["with"]["waiting"]) == (
        "team/pg-a-2-uid-7",
        0,
        1,
    )
    assert told(run, "remove", "pod/a-0", "-f", shared)["jobs"][0]["with"] is None


def test_a_larger_node_and_one_that_is_closed(run, shared):
    with shared.open("a", encoding="utf-8") as file:
        file.write(POD % ("a-3", "a", "kaisched", 8))
    (job,) = told(run, "set", "node/n1", "gpu=16", "-f", shared)["jobs"]
    assert (job["without"]["running"], job["with"]["running"]) == (0, 1)
    more = told(run, "set", "node/n1", "unschedulable=true", "-f", shared)
    assert [it["with"]["running"] for it in more["jobs"]] == [0] * len(more["jobs"])


def test_what_changes_nothing_for_anybody_is_said(run, shared):
    code, out, err = run("whatif", "set", "queue/b", "priority=50", "-f", shared)
    assert (code, out, err) == (0, "the change makes no difference to any job or queue\n", "")


def test_an_empty_queue_in_a_manifest_is_a_row(run, shared, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(QUEUE % ("c", "", 4, 4), encoding="utf-8")
    out = run("whatif", "submit", more, "-f", shared)[1]
    assert "c       none -> 0" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("submit",), "nothing is to be submitted; name manifests, or --queue"),
        (("submit", "x.yaml", "--queue", "a"), "files and --queue name two things"),
        (("submit", "nowhere.yaml"), "nowhere.yaml: no such file or folder"),
        (("submit", "--queue", "a", "--snapshot", "x"), "name several sources"),
        (("set", "queue/bb", "gpu.quota=1"), "queue/bb: there is no Queue bb; known: a, b"),
        (("set", "b", "gpu.quota=1"), "b: names no object; write one of queue/NAME, node/NAME"),
        (("set", "queue/b", "gpu.quota"), "gpu.quota: is no assignment; write path=value"),
        (("set", "queue/b", "gpu.quota=8"), "gpu.quota=8: makes no difference; the value is that"),
        (("set", "queue/b", "gpu.quota=-7"), "spec.resources.gpu.quota"),
        (("set", "queue/b", "gpu.qota=7"), 'did you mean "quota"?'),
        (("set", "queue/b", "metadata.name.x=7"), "metadata.name.x=7: name has no fields"),
        (("set", "node/n0", "spec.nothing=7"), "spec.nothing=7: makes no difference"),
        (("set", "shard", "kValue=much"), "spec.kValue"),
        (("remove", "pod/a-9"), "there is no Pod a-9; known: a-0, a-1"),
    ],
)
def test_a_wrong_line_is_an_error_that_says_what_to_write(shared, line, message, capsys):
    assert run_line(["whatif", *line, "-f", str(shared)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, message in shown.err, shown.err.count("\n")) == ("", True, 1), shown.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POD % ("p", "b", "default-scheduler", 1), "another scheduler places this pod"),
        (QUEUE % ("c", "", '"x"', 1), "spec.resources.gpu.quota"),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 2}\n",
            "a workload makes no pods here (value 'j'); add its pods, as a cluster makes them",
        ),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "such objects are not read"),
        (
            "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: s}\nspec: {}\n",
            "such objects are not applied here (value 'SchedulingShard s'); use `kaisched whatif",
        ),
        ("", "holds no object"),
    ],
)
def test_a_wrong_manifest_is_an_error_with_its_file(run, shared, tmp_path, text, message):
    file = tmp_path / "new.yaml"
    file.write_text(text, encoding="utf-8")
    code, out, err = run("whatif", "submit", file, "-f", shared)
    assert (code, out, message in err) == (2, "", True), err


def test_two_pods_of_one_name_have_to_be_told_apart(run, shared):
    text = shared.read_text(encoding="utf-8") + (POD % ("a-0", "a", "kaisched", 1)).replace(
        "namespace: team", "namespace: other"
    )
    shared.write_text(text, encoding="utf-8")
    code, _, err = run("whatif", "remove", "pod/a-0", "-f", shared)
    assert (code, "write one of pod/other/a-0, pod/team/a-0" in err) == (2, True)
    assert run("whatif", "remove", "pod/other/a-0", "-f", shared)[0] == 0


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (["submit", "--gpus", "x"], "kaisched whatif submit --help"),
        (["submit", "--nope"], "kaisched whatif submit --help"),
        (["remove"], "kaisched whatif remove --help"),
        (["set"], "kaisched whatif set --help"),
        (["nope"], "kaisched whatif --help"),
    ],
)
def test_a_wrong_line_names_the_help_of_its_own_command(run, line, wanted):
    code, out, err = run("whatif", *line)
    assert (code, out) == (2, "")
    assert err.rstrip().endswith(f"; see {wanted}")
