"""``kaisched snapshot``: a file with all inputs of a cycle, and replays of the cycle."""

import json

import pytest

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: other}
spec: {placementStrategy: {gpu: spread}}
"""


@pytest.fixture
def taken(run, manifests, tmp_path):
    file = tmp_path / "taken.json.gz"
    code, out, err = run("snapshot", "take", file, "-f", manifests)
    assert (code, err) == (0, "")
    assert out.startswith(f"{file}: 9 objects, result ")
    return file


def test_a_replay_prints_the_plan_and_that_it_is_the_same(run, manifests, taken):
    code, out, err = run("snapshot", "replay", taken)
    _, plan, _ = run("plan", "-f", manifests)
    assert (code, err) == (0, "")
    assert out.startswith(plan)
    assert "the same result as recorded, byte for byte: " in out


def test_a_replay_is_json(run, taken):
    code, out, _ = run("snapshot", "replay", taken, "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["cycles"][0]["binds"] == [{"pod": "team/a-0", "node": "n0"}]
    assert len(document["result"]) == 64


def test_another_result_than_recorded_is_told(run, manifests, tmp_path):
    file = tmp_path / "a.json"
    run("snapshot", "take", file, "-f", manifests)
    document = json.loads(file.read_text())
    document["objects"] = [it for it in document["objects"] if it["metadata"]["name"] != "a-0"]
    file.write_text(json.dumps(document))
    code, out, _ = run("snapshot", "replay", file)
    assert code == 1
    assert "DIFFERENT result from the recorded one" in out


def test_another_policy_may_be_tried(run, taken, tmp_path):
    shard = tmp_path / "shard.yaml"
    shard.write_text(SHARD)
    code, out, _ = run("snapshot", "replay", taken, "--shard", shard)
    assert code == 0
    assert "by another shard: result " in out


def test_what_is_in_it_is_shown(run, taken):
    code, out, err = run("snapshot", "show", taken)
    assert (code, err) == (0, "")
    assert "objects         Node 2, Pod 4, Queue 3" in out
    assert "n0       8     8          0        64        512Gi" in out
    assert "Pod team/a-1  a      OverLimit" in out
    assert "root            8          4          8  unlimited" in out


def test_what_is_in_it_is_json(run, taken):
    _, out, _ = run("snapshot", "show", taken, "-o", "json")
    document = json.loads(out)
    assert document["schemaVersion"] == "kaisched.io/snapshot-summary/v1"
    assert document["objects"] == {"Node": 2, "Pod": 4, "Queue": 3}
    assert document["nodes"][0]["idle"]["gpu"] == 8
    assert [it["name"] for it in document["queues"]] == ["root", "a", "b"]
    assert document["usage"] == "none"


def test_names_can_be_left_out(run, manifests, tmp_path):
    file = tmp_path / "bare.json"
    code, _, err = run("snapshot", "take", file, "-f", manifests, "--redact")
    assert (code, err) == (0, "")
    assert "team" not in file.read_text()
    _, out, _ = run("snapshot", "replay", file)
    assert "namespace-1/pod-1  node-1" in out
    assert "the same result as recorded" in out


def test_objects_with_problems_are_told(run, tmp_path):
    manifests = tmp_path / "bad.yaml"
    manifests.write_text("apiVersion: v1\nkind: Node\nmetadata: {labels: {}}\n")
    code, _, err = run("snapshot", "take", tmp_path / "a.json", "-f", manifests)
    assert code == 1
    assert "metadata.name: missing" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("show", "nowhere.json"), "nowhere.json: cannot be read"),
        (("replay", "."), ".: cannot be read"),
        (("take", "x.json", "-f", "a", "--daemon", "http://b"), "name two sources"),
        (("take", "x.json", "--daemon", "ftp://b"), "--daemon: no address of a daemon"),
        (("take", "x.json", "--daemon", "http://127.0.0.1:1"), "no answer from 127.0.0.1:1"),
        (("take", "x.json", "--daemon", "http://b", "--shard", "x"), "has a shard of its own"),
        (("take", "x.json", "--kubeconfig", "nowhere"), "nowhere: kubernetes.kubeconfig"),
    ],
)
def test_errors_are_one_line(run, line, said):
    code, out, err = run("snapshot", *line)
    assert code in {2, 4}
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_to_is_named(run, manifests, tmp_path):
    file = tmp_path / "nowhere" / "a.json"
    code, _, err = run("snapshot", "take", file, "-f", manifests)
    assert code == 2
    assert f"{file}: cannot be written" in err
