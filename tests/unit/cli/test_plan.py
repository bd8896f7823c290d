"""``kaisched plan``: moves, pending jobs and their reasons, as tables and as JSON."""

import io
import json

import pytest

from kaisched import hookimpl
from kaisched.framework import cycle
from kaisched.framework.session.ledger import Ledger
from kaisched_plugins.binpack import Binpack
from tests.unit.cli.conftest import NODE, POD, QUEUE

TABLES = """\
1 pod bound; 2 jobs pending: 1 ExceedsAnyNode, 1 OverLimit

Binds
POD       NODE
team/a-0  n0

Pending
JOB           QUEUE  REASON          BECAUSE
Pod team/a-1  a      OverLimit       queue a: gpu 4 held + 4 asked is over its
                                     limit of 6; would help: a limit of gpu 8
                                     for queue a
Pod team/b-0  b      ExceedsAnyNode  a pod asks for more than any node has that
                                     may take it: 2 gpu short by at least 8;
                                     would help: 1 more node like n0 but with
                                     gpu 16

Queues: GPUs
QUEUE  FAIR SHARE  ALLOCATED  REQUESTED   DESERVED
root            8          4          8  unlimited
  a             6          4          8          4
  b             0          0          0          8

"""


def parsed(text):
    document = json.loads(text)
    assert document["schemaVersion"] == "kaisched.io/plan/v1"
    return document


def test_a_plan_is_tables_that_fit_the_screen(run, manifests):
    code, out, err = run("plan", "-f", manifests)
    assert (code, out, err) == (0, TABLES, "")
    assert max(map(len, out.splitlines())) <= 80


def test_the_same_input_prints_the_same_bytes(run, manifests):
    first = run("plan", "-f", manifests, "-o", "json")
    assert first[0] == 0
    assert run("plan", "-f", manifests, "-o", "json") == first


def test_a_plan_is_json(run, manifests):
    code, out, _ = run("plan", "-f", manifests, "-o", "json")
    document = parsed(out)
    (cycle,) = document["cycles"]
    assert code == 0
    assert cycle["binds"] == [{"pod": "team/a-0", "node": "n0"}]
    assert (cycle["evictions"], cycle["nominations"], cycle["abandoned"]) == ([], [], None)
    assert [it["reason"] for it in cycle["pending"]] == ["OverLimit", "ExceedsAnyNode"]
    named = {"podGroup", "workload", "queue"}
    assert set(cycle["pending"][0]) == {*named, "reason", "message", "advice", "turn"}
    assert cycle["pending"][0]["workload"] == {
        "kind": "Pod",
        "namespace": "team",
        "name": "a-1",
        "part": None,
    }
    turn, other = (it["turn"] for it in cycle["pending"])
    assert (turn["position"], turn["of"]) == (1, 1)
    ahead = turn["ahead"] or other["ahead"]  # which of the two it is, the policy decides
    assert set(ahead) == {*named, "plugin", "key", "own", "other", "because"}
    assert {ahead["podGroup"]} < {it["podGroup"] for it in cycle["pending"]}
    assert [level["queue"] for level in turn["levels"]] == ["a", "root"]
    assert set(turn["levels"][0]) == {"queue", "position", "of", "head", "ahead", "figures"}
    by_name = {queue["name"]: queue for queue in cycle["queues"]}
    assert by_name["a"]["fairShare"]["gpu"] == 6
    assert by_name["a"]["allocated"]["gpu"] == 4
    assert by_name["root"]["deserved"]["gpu"] is None
    assert by_name["a"]["parent"] == "root"
    assert (document["problems"], document["warnings"]) == ([], [])


def test_many_waiting_jobs_are_grouped_by_queue_and_reason(run, manifests):
    text = manifests.read_text("utf-8")
    more = "".join(POD % (f"a-{at}", "a", "kaisched", 4) for at in range(2, 60))
    manifests.write_text(text + more, encoding="utf-8")
    code, out, _ = run("plan", "-f", manifests)
    first, *lines = out.splitlines()
    assert (code, first) == (0, "1 pod bound; 60 jobs pending: 59 OverLimit, 1 ExceedsAnyNode")
    assert "Pending, by queue and reason" in lines
    rows = lines[lines.index("Pending, by queue and reason") + 2 :]
    assert rows[0].split()[:6] == ["59", "a", "OverLimit", "Pod", "team/a-1", "queue"]
    assert "team/a-7" not in out
    waiting = parsed(run("plan", "-f", manifests, "-o", "json")[1])["cycles"][0]["pending"]
    assert len(waiting) == 60  # a document has them all


def test_the_order_is_a_table_of_its_own(run, manifests):
    code, out, _ = run("plan", "-f", manifests, "--order")
    before, _, order = out.partition("Order\n")
    assert code == 0
    assert before == TABLES
    assert order.startswith("JOB           QUEUE  PLACE   AHEAD")
    assert sum("1 of 1" in line for line in order.splitlines()) == 2


def test_rounds_end_when_nothing_moves(run, manifests):
    _, out, _ = run("plan", "-f", manifests, "--rounds", 9, "-o", "json")
    cycles = parsed(out)["cycles"]
    assert [len(cycle["binds"]) for cycle in cycles][:2] == [1, 0]
    assert len(cycles) < 9


def test_a_bad_object_is_told_and_the_rest_is_planned(run, manifests):
    text = manifests.read_text("utf-8").replace("quota: 8", "qouta: 8")
    manifests.write_text(text, encoding="utf-8")
    code, out, err = run("plan", "-f", manifests, "-o", "json")
    document = parsed(out)
    assert code == 1
    assert len(document["cycles"][0]["binds"]) == 1
    (problem,) = document["problems"]
    assert (problem["kind"], problem["name"]) == ("Queue", "b")
    assert problem["path"].startswith("spec.resources.gpu")
    assert err.startswith(f"kaisched: {manifests}: document 5 (Queue b): spec.resources.gpu")
    assert len(err.splitlines()) == 1


def test_standard_input_and_folders_are_read(run, manifests, monkeypatch):
    whole = run("plan", "-f", manifests, "-o", "json")
    assert run("plan", "-f", manifests.parent, "-o", "json") == whole
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(manifests.read_bytes())))
    assert run("plan", "-f", "-", "-o", "json") == whole


SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: %s}
spec: {placementStrategy: {gpu: spread}, actions: {allocate: {enabled: %s}}}
---"""


def test_a_shard_among_the_manifests_is_used_unless_one_is_given(run, manifests, tmp_path):
    text = manifests.read_text("utf-8")
    manifests.write_text(text + SHARD % ("idle", "false"), encoding="utf-8")
    _, out, _ = run("plan", "-f", manifests, "-o", "json")
    assert parsed(out)["cycles"][0]["binds"] == []
    other = tmp_path / "shard.yml.txt"
    other.write_text(SHARD % ("busy", "true"), encoding="utf-8")
    _, out, _ = run("plan", "-f", manifests, "--shard", other, "-o", "json")
    assert len(parsed(out)["cycles"][0]["binds"]) == 1


def test_two_shards_are_a_question(run, manifests):
    text = manifests.read_text("utf-8")
    manifests.write_text(text + SHARD % ("x", "true") + SHARD % ("y", "true"), encoding="utf-8")
    code, out, err = run("plan", "-f", manifests)
    assert (code, out) == (2, "")
    assert err == "kaisched: several SchedulingShards: x, y; name the file of one with --shard\n"


def test_a_shard_file_with_two_shards_says_where_they_may_be(run, manifests, tmp_path):
    two = tmp_path / "two.yml.txt"
    two.write_text(SHARD % ("x", "true") + SHARD % ("y", "true"), encoding="utf-8")
    code, out, err = run("plan", "-f", manifests, "--shard", two)
    assert (code, out) == (2, "")
    assert err.startswith(f"kaisched: {two}: several SchedulingShards: x, y; leave one in the file")


def test_a_wrong_shard_is_not_replaced_by_the_default(run, manifests):
    text = manifests.read_text("utf-8") + SHARD % ("x", "true")
    manifests.write_text(text.replace("gpu: spread", "gpu: spraed"), encoding="utf-8")
    code, out, err = run("plan", "-f", manifests)
    assert (code, out) == (2, "")
    assert "(SchedulingShard x): spec.placementStrategy.gpu" in err


def test_the_shipped_shards_plan(run, manifests):
    code, _, err = run("plan", "-f", manifests, "--shard", "config/shards/kai.yaml")
    assert code == 0
    assert err == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("plan",), "kaisched: Missing option '-f' / '--filename'; see kaisched plan --help"),
        (("plan", "-f", "/nowhere"), "kaisched: /nowhere: no such file or folder"),
        (
            ("plan", "-f", "{manifests}", "--actions", "allokate"),
            "kaisched: --actions: there is no such action (value 'allokate'); did you mean",
        ),
        (
            ("plan", "-f", "{manifests}", "--shard", "/nowhere"),
            "kaisched: /nowhere: no such file",
        ),
        (("plan", "-f", "{manifests}", "--shard", "{manifests}"), "holds no SchedulingShard"),
    ],
)
def test_a_wrong_line_is_one_line(run, manifests, line, message):
    code, out, err = run(*(str(word).format(manifests=manifests) for word in line))
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_what_must_be_missing_is_said(run, tmp_path, manifests):
    file = tmp_path / "empty.yaml"
    file.write_text("", encoding="utf-8")
    assert run("plan", "-f", file) == (
        0,
        "0 pods bound; 0 jobs pending\n\n",
        (
            f"kaisched: {file}: holds no object; check the path\n"
            "kaisched: no nodes among the manifests, so nothing can be placed\n"
        ),
    )
    file.write_text(manifests.read_text("utf-8").split("kind: Pod")[0].rsplit("---", 1)[0], "utf-8")
    assert run("plan", "-f", file)[2].startswith("kaisched: no pods of ours among the manifests: ")


def test_a_problem_names_its_object_once(run, manifests):
    text = manifests.read_text("utf-8").replace('parentQueue: "root"', 'parentQueue: "rot"')
    manifests.write_text(text, encoding="utf-8")
    code, out, err = run("plan", "-f", manifests, "-o", "json")
    assert code == 1
    assert [problem["name"] for problem in parsed(out)["problems"]] == ["a", "b"]
    assert err.splitlines()[0].count("Queue a") == 1


RACKS = """
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: dc}
spec: {levels: [{nodeLabel: example.com/rack, alias: rack}]}
---
apiVersion: v1
kind: Node
metadata: {name: r1, labels: {example.com/rack: r1}}
status: {allocatable: {cpu: 4, pods: 10}, conditions: [{type: Ready, status: "True"}]}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team}
spec: {queue: b, topologyConstraint: {topology: %s, requiredTopologyLevel: %s}}
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team, annotations: {pod-group-name: %s}}
spec: {schedulerName: kaisched, containers: [{name: c}]}
---"""


def test_required_topology_levels_are_read_from_files(run, manifests):
    groups = [("in", "dc", "rack"), ("no-name", "dcs", "rack"), ("no-level", "dc", "racks")]
    manifests.write_text(
        manifests.read_text("utf-8")
        + RACKS
        + "".join(GROUP % (name, *wish, f"{name}-0", name) for name, *wish in groups),
        encoding="utf-8",
    )
    _, out, err = run("plan", "-f", manifests, "-o", "json")
    (cycle,) = parsed(out)["cycles"]
    assert {it["pod"]: it["node"] for it in cycle["binds"]}["team/in-0"] == "r1"
    told = {it["podGroup"]: (it["reason"], it["message"]) for it in cycle["pending"]}
    assert told["team/no-name"] == (
        "NoSuchTopology",
        "there is no topology dcs; did you mean dc?",
    )
    assert told["team/no-level"] == (
        "NoSuchTopologyLevel",
        "topology dc has no level racks; did you mean rack?",
    )
    assert not err


def test_what_fails_is_told(run, manifests, monkeypatch):
    """A failing plugin, and a failing action, which is a bug and so occurs in no other test."""

    def fails(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr(cycle, "run_cycle", cycle.run_cycle.__wrapped__)
    monkeypatch.setattr(Ledger, "place_pending", fails)
    monkeypatch.setattr(Binpack, "node_score", hookimpl(fails))
    code, out, err = run("plan", "-f", manifests, "--rounds", 3)
    assert code == 1
    assert "Pod team/a-0  a      ActionFailed    an action failed on it" in out
    plugin, *actions = err.splitlines()
    assert plugin == "kaisched: plugin binpack at node_score failed: KeyError: 'x'"
    for line, job in zip(actions, ("a-0", "a-1"), strict=True):
        assert line.startswith("kaisched: action allocate failed: KeyError: 'x' (in ")
        assert line.endswith(f"on Pod team/{job})")


def test_mig_instances_are_placed_by_profile(run, manifests):
    text = manifests.read_text("utf-8")
    offer = 'nvidia.com/mig-1g.10gb: "1", nvidia.com/gpu: "8"'
    text = text.replace('nvidia.com/gpu: "8"', offer, 1)
    for name in ("m-0", "m-1"):
        pod = POD % (name, "b", "kaisched", 1)
        text += pod.replace("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")
    manifests.write_text(text, encoding="utf-8")
    _, out, _ = run("plan", "-f", manifests, "-o", "json")
    (cycle,) = parsed(out)["cycles"]
    assert {"pod": "team/m-0", "node": "n0"} in cycle["binds"]
    (waits,) = [it for it in cycle["pending"] if "m-1" in it["podGroup"]]
    assert waits["reason"] == "NoRoom"
    assert "nvidia.com/mig-1g.10gb short by at least 1" in str(waits)


def test_a_plan_decides_about_shares_and_keeps_their_cards_from_cycle_to_cycle(run, manifests):
    text = NODE % "n0" + QUEUE % ("a", "", 4, -1)
    for name, fraction in (("s-0", "0.4"), ("s-1", "0.5"), ("s-2", "0.6")):
        pod = POD % (name, "a", "kaisched", 0)
        text += pod.replace("labels", f'annotations: {{gpu-fraction: "{fraction}"}}, labels')
    text = text.replace('nvidia.com/gpu: "0"', 'cpu: "1"').replace('"8"', '"2"')
    text += POD % ("whole", "a", "kaisched", 1)
    manifests.write_text(text, encoding="utf-8")
    _, out, err = run("plan", "-f", manifests, "--rounds", "3", "-o", "json")
    assert not err
    first, *later = parsed(out)["cycles"]
    assert [bind["pod"] for bind in first["binds"]] == ["team/s-0", "team/s-1", "team/s-2"]
    assert not any(cycle["binds"] for cycle in later)
    (waits,) = first["pending"]
    assert "1 gpu: 0 whole GPUs left on node n0" in waits["message"]
    assert [bind["cards"] for bind in first["binds"]] == [[0], [0], [1]]
    assert "team/s-2  n0    1\n" in run("plan", "-f", manifests)[1]


def test_a_plan_names_the_cards_that_are_promised(run, manifests):
    text = NODE.replace('"8"', '"2"') % "n0" + QUEUE % ("a", "", 4, -1)
    leaves = 'deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [a/b], '
    for name, fraction, group, what in (
        ("s-0", "0.4", "x", ""),
        ("s-1", "0.6", "x", leaves),
        ("s-2", "0.9", "y", leaves),
        ("w-0", "0.5", "", ""),
        ("w-1", "0.8", "", ""),
    ):
        said = f'{what}annotations: {{gpu-fraction: "{fraction}"}}, labels: {{'
        pod = (POD % (name, "a", "kaisched", 0)).replace("labels: {", said)
        if group:
            pod = pod.replace(said, f"{said}runai-gpu-group: {group}, ")
            pod = pod.replace("spec:", "status: {phase: Running}\nspec:\n  nodeName: n0")
        text += pod.replace(', resources: {limits: {nvidia.com/gpu: "0"}}', "")
    manifests.write_text(text, encoding="utf-8")
    _, out, err = run("plan", "-f", manifests, "-o", "json")
    assert not err
    assert parsed(out)["cycles"][0]["nominations"] == [
        {"pod": "team/w-0", "node": "n0", "cards": [0], "wholeCards": 0},
        {"pod": "team/w-1", "node": "n0", "cards": [], "wholeCards": 1},
    ]
    out = run("plan", "-f", manifests)[1]
    assert "team/w-0  n0    0\nteam/w-1  n0    a whole one\n" in out
