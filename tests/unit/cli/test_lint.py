"""``kaisched lint``: all findings at once, each at its line, as text, JSON and SARIF."""

import json

import pytest

from kaisched.errors import join_path
from kaisched.objects.text import line_of
from tests.unit.cli.conftest import NODE, POD, QUEUE

SHARD = """apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: s}
spec:
  kValu: 1
  plugins:
    zzz: {}
---"""
SETTINGS = """apiVersion: kaisched.io/v1alpha1
kind: SchedulerConfiguration
metrics: {prot: 1}
foo: 1
"""


@pytest.fixture
def lint(run, tmp_path):
    """Lint one text; returns the exit code and (level, rule, name, path, message, line) of each."""

    def lint(text, name="f.yaml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        code, out, _ = run("lint", tmp_path / name, "-o", "json")
        document = json.loads(out)
        assert document["schemaVersion"] == "kaisched.io/lint/v1"
        return code, [
            tuple(it[key] for key in ("level", "rule", "name", "path", "message", "line"))
            for it in document["findings"]
        ]

    return lint


def rules(found):
    return [(name, rule) for _, rule, name, *_ in found[1]]


def test_good_manifests_have_no_findings(run, manifests):
    text = manifests.read_text(encoding="utf-8").replace("quota: 8", "quota: 4")
    manifests.write_text(text.replace("quota: -1", "quota: 16"), encoding="utf-8")
    assert run("lint", manifests) == (0, "9 objects of 1 file checked: 0 errors, 0 warnings\n", "")


def test_everything_is_told_at_once_and_at_its_line(lint):
    text = (
        SHARD
        + NODE % "n0"
        + QUEUE % ("root", "", 12, 10)
        + QUEUE % ("a", "root", 8, -1)
        + QUEUE % ("b", "root", 4, -1)
        + QUEUE % ("c", "d", 0, -1)
        + QUEUE % ("d", "c", 0, -1)
        + QUEUE % ("e", "rot", 0, -1)
        + POD % ("p", "aa", "kaisched", 1)
        + POD % ("q", "root", "kaisched", 1)
        + POD % ("r", "nowhere", "default-scheduler", 1)
    )
    code, found = lint(text)
    assert code == 1
    lines = text.splitlines()
    told = [(level, rule, name, path) for level, rule, name, path, *_ in found]
    quota = "spec.resources.gpu.quota"
    assert told == [
        ("error", "object", "s", "spec.kValu"),
        ("warning", "without-effect", "root", "spec.resources.gpu.limit"),
        ("error", "queue-tree", "c", "spec.parentQueue"),
        ("error", "queue-tree", "d", "spec.parentQueue"),
        ("error", "queue-tree", "e", "spec.parentQueue"),
        ("error", "shard", "", "spec.plugins.zzz"),
        ("warning", "quota-sum", "root", quota),
        ("warning", "quota-sum", "root", quota),
        ("error", "unknown-queue", "team/p", ""),
        ("error", "unknown-queue", "team/q", ""),
    ]
    assert [message for *_, message, _ in found[6:8]] == [
        (
            "the quotas of all top-level queues add up to 12 gpu, more than the 8 that the nodes in"
            " the files have"
        ),
        "the quotas of its children add up to 12 gpu, more than its own limit of 10",
    ]
    assert lines[found[0][-1] - 1] == "  kValu: 1"
    assert lines[found[5][-1] - 1] == "    zzz: {}"
    assert 'parentQueue: "rot"' in lines[found[4][-1] - 1]


def test_a_queue_with_an_unknown_key_is_all_that_is_wrong(lint):
    text = QUEUE % ("a", "", 4, -1) + QUEUE % ("b", "a", 4, -1) + POD % ("p", "b", "kaisched", 1)
    assert rules(lint(NODE % "n" + text.replace("spec: {parent", "spec: {prio: 1, parent"))) == [
        ("a", "object"),
        ("b", "object"),
    ]


def test_a_queue_that_is_left_out_keeps_those_below_it_and_its_jobs_out(lint):
    text = QUEUE % ("a", "", -4, -1) + QUEUE % ("b", "a", 4, -1) + POD % ("p", "b", "kaisched", 1)
    assert rules(lint(text)) == [
        ("a", "object"),
        ("b", "queue-tree"),
        ("team/p", "unknown-queue"),
    ]


def test_jobs_are_not_missed_queues_where_there_is_no_queue(lint):
    assert lint(POD % ("p", "a", "kaisched", 1)) == (0, [])


@pytest.mark.parametrize(
    "labels",
    [
        "metadata: {name: w, namespace: team, labels: {kai.scheduler/queue: x}}\nspec: {}",
        (
            "metadata: {name: w, namespace: team}\n"
            "spec: {template: {metadata: {labels: {kai.scheduler/queue: x}}}}"
        ),
    ],
)
def test_workloads_name_queues_too(lint, labels):
    text = QUEUE % ("a", "", 4, -1) + f"\napiVersion: apps/v1\nkind: Deployment\n{labels}\n"
    assert rules(lint(text)) == [("team/w", "unknown-queue")]


def test_a_workload_of_any_kind_that_owns_pods_has_its_place(lint):
    job = (
        "\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\n"
        "metadata: {name: w, namespace: team, labels: {kai.scheduler/queue: x}}\nspec: {}\n"
    )
    (found,) = lint(QUEUE % ("a", "", 4, -1) + job)[1]
    assert (found[1], found[2], found[-1]) == ("unknown-queue", "team/w", 7)


def test_settings_files_are_read_as_such(lint):
    code, found = lint(SETTINGS)
    assert code == 1
    assert [(rule, path, line) for _, rule, _, path, _, line in found] == [
        ("settings", "metrics.prot", 3),
        ("settings", "foo", 4),
    ]


@pytest.mark.proportion
def test_quotas_add_up_to_those_above_where_the_policy_lends(lint):
    shard = SHARD.replace("  kValu: 1\n", "").replace(
        "zzz: {}", "{fair-sharing: {enabled: true}, proportion: {enabled: false}}"
    )
    text = shard + QUEUE % ("root", "", 2, -1) + QUEUE % ("a", "root", 4, -1)
    assert lint(text) == (0, [])
    assert [it[4] for it in lint(text + NODE.replace('"8"', '"5"') % "n")[1]] == [
        "the quotas of all queues add up to 6 gpu, more than the 5 that the nodes in the files have"
    ]


@pytest.mark.proportion
def test_the_shard_may_be_a_file_of_its_own(run, tmp_path):
    queues, shard = tmp_path / "queues.yaml", tmp_path / "shard.yaml"
    queues.write_text(QUEUE % ("root", "", 2, -1) + QUEUE % ("a", "root", 4, -1), encoding="utf-8")
    lending = "{fair-sharing: {enabled: true}, proportion: {enabled: false}, binpak: {}}"
    text = SHARD.replace("  kValu: 1\n", "").replace("zzz: {}", lending)
    shard.write_text(text.replace(", binpak: {}", ""), encoding="utf-8")
    assert "more than its own quota of 2" in run("lint", queues)[1]
    assert run("lint", queues, "--shard", shard)[:2] == (
        0,
        "2 objects of 1 file checked: 0 errors, 0 warnings\n",
    )
    shard.write_text(text, encoding="utf-8")
    code, _, err = run("lint", queues, "--shard", shard)
    assert code == 2
    assert "binpak" in err


def test_two_shards_for_the_same_nodes_are_an_error(lint):
    shard = SHARD.replace("  kValu: 1\n", "").replace("    zzz: {}\n", "")
    assert rules(lint(shard + "\n" + shard.replace("name: s", "name: t"))) == [("", "shard")]


def test_findings_are_lines_for_editors(run, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(SHARD, encoding="utf-8")
    code, out, _ = run("lint", file)
    assert code == 1
    first, *_, last = out.splitlines()
    assert first == (
        f"error: {file}:5: document 1 (SchedulingShard s): spec.kValu: unknown key;"
        ' did you mean "kValue"? [object]'
    )
    assert last.endswith(" checked: 2 errors, 0 warnings")


def test_sarif_names_rules_places_and_messages(run, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(SHARD, encoding="utf-8")
    document = json.loads(run("lint", file, "-o", "sarif")[1])
    (found,) = document["runs"]
    known = {rule["id"] for rule in found["tool"]["driver"]["rules"]}
    assert document["version"] == "2.1.0"
    assert {result["ruleId"] for result in found["results"]} <= known
    place = found["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": str(file)}, "region": {"startLine": 5}}


def test_a_place_is_the_longest_part_of_a_path_that_is_there():
    data = b"# first\na: {b: 1}\n---\nx:\n  - y: 1\n  - 'k.l': {z: 1}\n"
    assert line_of(data, 1, "a.b") == 2
    assert line_of(data, 2, "x[1]" + "[" + join_path("k.l")[1:] + ".z") == 6
    assert line_of(data, 2, "x[0].gone") == 5
    assert line_of(data, 2, "") == 4
    assert line_of(b"a: [", 1, "a") == 0


IN_POOL = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s, labels: {kai.scheduler/node-pool: "%s", kaisched.io/project: t}}
spec: {resources: {gpu: {quota: 4}}, nodePools: [%s]}
---"""
OF_POOL = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: %s}
spec: {partitionLabelValue: "%s"}
---"""
IN_BOTH = OF_POOL % ("x", "x") + OF_POOL % ("y", "y") + NODE % "n0"


def test_queues_of_one_project_with_different_lists_are_told(lint):
    same = IN_BOTH + IN_POOL % ("a", "x", "x, y") + IN_POOL % ("b", "y", "x, y")
    assert lint(same) == (0, [])
    text = "queues of project t list different node pools: a (x, y), b (y)"
    code, found = lint(IN_BOTH + IN_POOL % ("a", "x", "x, y") + IN_POOL % ("b", "y", "y"))
    assert (code, [it[:5] for it in found]) == (
        0,
        [("warning", "pool-lists", "b", "spec.nodePools", text)],
    )


def test_with_several_shards_a_job_is_looked_for_in_all_pools_of_its_list(lint):
    queues = IN_POOL % ("a", "x", "y, x") + IN_POOL % ("b", "y", "y, x")
    assert lint(IN_BOTH + queues + POD % ("p", "a", "kaisched", 1)) == (0, [])
    labelled = (POD % ("p", "c", "kaisched", 1)).replace(
        "labels: {", "labels: {kai.scheduler/node-pool: y, "
    )
    other = (IN_POOL % ("c", "x", "x")).replace("project: t", "project: u")
    code, found = lint(IN_BOTH + queues + other + labelled)
    assert (code, [it[:3] for it in found]) == (1, [("error", "unknown-queue", "team/p")])
    assert found[0][4] == (
        "queue c is in node pool x; project u has no queue in node pool y, which would have the"
        " labels kai.scheduler/node-pool: y and kaisched.io/project: u"
    )


def test_a_workload_that_asks_for_what_is_not_offered_is_told_without_its_pods(lint):
    """Its controllers make the pods, which would wait with this reason."""
    text = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: t, namespace: ns}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        metadata:
          annotations:
            kai.scheduler/topology: dc
            kai.scheduler/segment-size: SIZE
            kai.scheduler/segment-topology-required-placement: rack
"""
    assert lint(text.replace("SIZE", '"2"')) == (0, [])
    code, ((level, rule, name, _, message, line),) = lint(text.replace("SIZE", "two"))
    assert (code, level, rule, name, line) == (1, "error", "object", "ns/t", 1)
    assert message.startswith(
        "template of its workers: metadata.annotations['kai.scheduler/segment-size']: 'two':"
    )


CLAIMING = """apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: default
  labels: {kai.scheduler/queue: a}
  annotations: {gpu-fraction: "0.5"}
spec:
  schedulerName: kaisched
  resourceClaims: [{name: gpu-share, resourceClaimTemplateName: kaisched-gpu-fraction-0.5}]
  containers: [{name: main, resources: {claims: [{name: gpu-share}]}}]
---"""
CLASSES = """apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: s}
spec: {resourceClaims: true, gpuSharing: {%s}}
---"""


def test_neither_devices_nor_their_shard_are_missed_where_the_files_have_none(lint):
    queue = "\n" + QUEUE % ("a", "", 4, 8) + "\n"
    assert lint(queue + CLAIMING)[1] == []
    assert lint(CLASSES % "deviceClass: gpu.example.com" + queue + CLAIMING)[1] == []
    _, ((level, rule, *_, message, _),) = lint(CLASSES % "image: x" + queue + CLAIMING)
    assert (level, rule) == ("error", "object")
    assert "the shard names no devices for shares" in message


OWNED = """apiVersion: batch/v1
kind: Job
metadata:
  name: j
  namespace: team
  uid: u
  annotations: {%s}
spec: {parallelism: 1}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: team
  labels: {kai.scheduler/queue: a}
  annotations: {%s}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]
spec: {schedulerName: kaisched, containers: [{name: main}]}
---"""
TWICE = 'kaisched.io/node-pools: "x,x"'


@pytest.mark.parametrize(
    ("on_job", "on_pod", "name", "line"), [(TWICE, "", "team/j", 7), ("", TWICE, "team/p", 16)]
)
def test_a_fault_of_a_job_without_a_group_is_told_where_it_is_written(
    lint, on_job, on_pod, name, line
):
    text = QUEUE % ("a", "", 4, 8) + "\n" + OWNED % (on_job, on_pod)
    _, ((level, rule, of, _, message, at),) = lint(text)
    assert (level, rule, of, at) == ("error", "object", name, line)
    assert "'x' is listed twice" in message


SCENARIO = """name: x
time: {duration: 2h}
nodes: [{gpus: 8}]
queues: [{name: q}]
jobs: [{queue: %s, arrivals: {at: [0s]}, duration: 1h, gpus: %s}]
"""


def test_scenario_files_have_faults_of_their_own(lint):
    assert lint(SCENARIO % ("q", 8)) == (0, [])
    code, ((level, rule, _, path, message, line),) = lint(SCENARIO % ("r", 8))
    assert (code, level, rule, path, line) == (1, "error", "scenario", "jobs[0].queue", 5)
    assert message == "there is no such queue for jobs"
    code, ((level, rule, _, _, message, _),) = lint(SCENARIO % ("q", 16))
    assert (code, level, rule) == (0, "warning", "scenario")
    assert "wait for ever" in message


def test_a_manifest_without_a_version_is_no_scenario(lint):
    _, ((_, rule, _, path, _, _),) = lint("kind: Queue\ntime: 1\nnodes: []\n")
    assert (rule, path) == ("object", "apiVersion")


# -- jobs that need a minimum runtime --------------------------------------------------------------

OVER_TIME = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {usageDBConfig: {clientType: sqlite}%s}
---
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 40}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: rest}
spec: {resources: {gpu: {quota: 0, overQuotaWeight: 9}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: q}
spec: {resources: {gpu: {quota: %s, limit: %s, overQuotaWeight: 1}}%s}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {kai.scheduler/queue: q}}
spec:
  schedulerName: kaisched
  containers: [{name: c, resources: {requests: {nvidia.com/gpu: %s}, limits: {nvidia.com/gpu: %s}}}]
---
"""


def over_time(shard="", quota=0, limit=-1, queue="", gpus=8):
    return OVER_TIME % (shard, quota, limit, queue, gpus, gpus)


def test_a_job_that_past_usage_alone_lets_run_needs_a_minimum_runtime(lint):
    """A tenth of 40 GPUs is 4; the job needs 8."""
    code, found = lint(over_time())
    assert (code, [it[:4] for it in found]) == (
        0,
        [("warning", "min-runtime", "q", "spec.reclaimMinRuntime")],
    )
    assert "needs 8 GPUs at once, and by quota and weight queue q has 4 of 40" in found[0][4]


@pytest.mark.parametrize(
    "other",
    [
        {"gpus": 4},
        {"quota": 8},
        {"limit": 7},
        {"queue": ", reclaimMinRuntime: 2h"},
        {"shard": ", minRuntime: {reclaimMinRuntime: 2h}"},
        {"shard": ", kValue: 0"},
        {"shard": ", plugins: {time-based-fairshare: {arguments: {handOver: timeSlices}}}"},
    ],
)
def test_else_nothing_is_said_of_it(lint, other):
    assert "min-runtime" not in [it[1] for it in lint(over_time(**other))[1]]


def test_a_scenario_whose_jobs_need_a_minimum_runtime_is_told_by_queue(lint):
    text = """
time: {duration: 1d}
nodes: [{count: 5, gpus: 8}]
queues: [{name: rest, overQuotaWeight: 9}, {name: q}]
jobs:
  - {queue: q, gpus: 8, arrivals: {every: 1d}, duration: %s}
  - {queue: rest, gpus: 8, arrivals: {backlog: endless}, duration: 6h}
shard: {usageDBConfig: {clientType: memory}}
"""
    code, found = lint(text % "6h")
    assert (code, [it[1] for it in found]) == (0, ["min-runtime"])
    assert "queue q has 4 of 40" in found[0][4]
    assert lint(text % "10m") == (0, [])


def test_pods_of_a_group_with_a_fault_are_not_said_to_name_none(lint):
    group = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\n"
    pod = """apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {pod-group-name: g}}
spec: {schedulerName: kaisched, containers: [{name: m}]}
"""
    text = f"{NODE % 'n0'}{QUEUE % ('a', '', 4, -1)}"

    def errors(whole):
        return [it for it in lint(whole)[1] if it[0] == "error"]

    (found,) = errors(f"{text}\n{group}spec: {{queue: a, minMember: -1}}\n---\n{pod}")
    assert (found[2], found[3]) == ("g", "spec.minMember")
    (found,) = errors(f"{text}\n{pod}")
    assert found[4] == "pod group default/g does not exist"
