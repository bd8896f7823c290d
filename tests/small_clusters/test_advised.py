"""What is advised in small clusters: the least that works there, worked out by hand."""

import json

import pytest

from kaisched.engine.planning import plan, read_plan_input
from kaisched.view.documents import cycle_document
from tests.objects import group, node_status, pod, queue

HOST = "kubernetes.io/hostname"
NEED = "requiredDuringSchedulingIgnoredDuringExecution"
BUILD = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "build"},
    "value": 100,
}
SHARD = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": "default"},
    "spec": {"gpuSharing": {"image": "example.com/agent"}},
}
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]},
}


def node(name, gpus=8, cpus=64, labels=None, taints=()):
    status = node_status(gpus)
    status["allocatable"] = {**status["allocatable"], "cpu": str(cpus)}
    meta = {"name": name, "labels": {HOST: name, **(labels or {})}}
    spec = {"taints": list(taints)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def running(name, of, on, gpus=1, **more):
    made = pod(name, of, gpus, nodeName=on, **more)
    return {**made, "status": {"phase": "Running", "startTime": "2026-01-05T09:00:00Z"}}


def near(kind, app, key=HOST):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {NEED: [term]}}


def advised(tmp_path, *made, of):
    """Return what is said to help a job or lone pod, by kind; and the whole sentence."""
    file = tmp_path / "cluster.yaml"
    for at, it in enumerate(made):
        it["metadata"].setdefault("namespace", "t")
        it["metadata"].setdefault("uid", f"uid-{at}")
        it["metadata"]["creationTimestamp"] = f"2026-01-05T09:00:{at:02}Z"
    file.write_text("\n---\n".join(map(json.dumps, made)), encoding="utf-8")
    result = plan(read_plan_input([str(file)])).cycles[0]
    entries = cycle_document(result)["pending"]
    names = (f"t/{of}", f"t/pg-{of}-")
    entry = next(it for it in entries if it["podGroup"].startswith(names))
    assert all(it["isLeast"] for it in entry["advice"] if it["helps"])
    return {it["kind"]: it["text"] for it in entry["advice"] if it["helps"]}


def test_a_gang_that_lacks_one_node_of_nine_needs_one(tmp_path):
    nodes = [node(f"n{at}") for at in range(8)]
    pods = [pod(f"g-{at}", "q", 8, group="g") for at in range(9)]
    found = advised(tmp_path, *nodes, queue("q", -1), group("g", "q", 9), *pods, of="g")
    assert found["nodes"] == "1 more node like n0"


@pytest.mark.parametrize(
    ("of", "said"), [("p0", "1 more node"), ("p1", "2 more nodes"), ("p2", "3 more nodes")]
)
def test_jobs_in_line_need_as_many_nodes_as_their_place_says(tmp_path, of, said):
    pods = [pod(f"p{at}", "q", 8) for at in range(3)]
    made = node("n0"), queue("q", -1), running("x", "q", "n0", 8), *pods
    assert advised(tmp_path, *made, of=of)["nodes"] == f"{said} like n0"


@pytest.mark.parametrize(
    "rules",
    [
        {"nodeSelector": {HOST: "n0"}},
        {"affinity": near("podAffinity", "x")},
        {
            "affinity": {
                "nodeAffinity": {
                    NEED: {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["n0"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ],
)
def test_no_other_node_helps_a_pod_that_must_be_on_one_host(tmp_path, rules):
    x = running("x", "q", "n0", 1, labels={"app": "x"}, priorityClassName="build")
    made = node("n0", 1), BUILD, queue("q", 1), x, pod("p", "q", **rules)
    assert "nodes" not in advised(tmp_path, *made, of="p")


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": near("podAntiAffinity", "x")},
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": HOST,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "x"}},
                    "minDomains": 2,
                }
            ]
        },
    ],
)
def test_one_more_node_helps_a_replica_that_needs_a_host_of_its_own(tmp_path, rules):
    x = running("x", "q", "n0", 1, labels={"app": "x"})
    made = node("n0", 2), queue("q", -1), x, pod("p", "q", labels={"app": "x"}, **rules)
    assert advised(tmp_path, *made, of="p")["nodes"] == "1 more node like n0"


def test_a_gang_of_one_replica_a_host_needs_as_many_hosts_as_it_lacks(tmp_path):
    rules = {"affinity": near("podAntiAffinity", "g")}
    pods = [pod(f"g-{at}", "q", group="g", labels={"app": "g"}, **rules) for at in range(5)]
    made = node("n0"), node("n1"), queue("q", -1), group("g", "q", 5), *pods
    assert advised(tmp_path, *made, of="g")["nodes"] == "3 more nodes like n0"


def test_a_gang_that_needs_a_rack_hears_in_which_rack_nodes_are_missing(tmp_path):
    racks = {"n0": "a", "n1": "a", "n2": "b", "n3": "b", "n4": "b"}
    nodes = [node(name, labels={"rack": rack}) for name, rack in racks.items()]
    topology = {"topology": "racks", "requiredTopologyLevel": "rack"}
    pods = [pod(f"g-{at}", "q", 8, group="g") for at in range(4)]
    gang = group("g", "q", 4, topologyConstraint=topology)
    found = advised(tmp_path, TOPOLOGY, *nodes, queue("q", -1), gang, *pods, of="g")
    assert found["nodes"] == "1 more node like n2"


def test_of_several_kinds_of_nodes_the_cheapest_that_works_is_named(tmp_path):
    made = node("big", 8), node("small", 2), node("bare", 0), queue("q", -1)
    taken = running("x", "q", "big", 8), running("y", "q", "small", 2)
    assert advised(tmp_path, *made, *taken, pod("p", "q", 2), of="p")["nodes"] == (
        "1 more node like small"
    )
    taken = [
        running(f"c{at}", "q", name, limits={"cpu": "64"})
        for at, name in enumerate(("big", "small", "bare"))
    ]
    assert advised(tmp_path, *made, *taken, pod("p", "q", limits={"cpu": "4"}), of="p")[
        "nodes"
    ] == ("1 more node like bare")


@pytest.mark.proportion
def test_the_least_quota_for_a_second_notebook_is_two(tmp_path):
    made = node("n0", 4), BUILD, queue("q", 1), running("b0", "q", "n0", priorityClassName="build")
    training = [running(f"t{at}", "q", "n0") for at in range(3)]
    found = advised(tmp_path, *made, *training, pod("b1", "q", priorityClassName="build"), of="b1")
    assert found["quota"] == "a quota of gpu 2 for queue q"


def test_the_least_limits_at_several_levels(tmp_path):
    queues = queue("up", -1, limit=2), queue("q", -1, "up", limit=3)
    made = node("n0"), *queues, running("x", "q", "n0", 2), pod("p", "q", 4)
    assert advised(tmp_path, *made, of="p")["limit"] == (
        "a limit of gpu 6 for queue q and a limit of gpu 6 for queue up"
    )


def test_changes_that_help_only_together_are_named_together(tmp_path):
    made = node("n0", 4), queue("q", -1, limit=2), pod("p", "q", 8)
    assert advised(tmp_path, *made, of="p") == {
        "several": "a limit of gpu 8 for queue q together with 1 more node like n0 but with gpu 8"
    }


def test_a_node_is_tried_where_pods_share_gpus_and_nodes_lack_them(tmp_path):
    half = {"gpu-fraction": "0.5"}
    shared = pod("s", "q", 0, annotations=half, limits={"cpu": "1"})
    made = SHARD, node("n0", 0), node("n1", 1), queue("q", -1), running("x", "q", "n1", 1)
    assert advised(tmp_path, *made, shared, of="s")["nodes"] == "1 more node like n1"


def test_a_node_with_gpus_is_tried_where_no_node_has_any_to_share(tmp_path):
    # The share is the first in line: it takes a part of one of the two GPUs of the first node.
    shared = pod("s", "q", 0, annotations={"gpu-fraction": "0.3"}, limits={"cpu": "1"})
    made = SHARD, node("n0", 0), queue("q", -1), shared, pod("p", "q", 2)
    assert advised(tmp_path, *made, of="s")["nodes"] == "1 more node like n0 but with gpu 1"
    assert advised(tmp_path, *made, of="p")["nodes"] == "2 more nodes like n0 but with gpu 2"


def test_a_job_of_which_all_pods_are_promised_room_needs_no_node(tmp_path):
    # The rest of a gang waits for GPUs of its own; sharing is not set up, no GPU is divided.
    half = pod("j", "q", 0, annotations={"gpu-fraction": "0.5"}, limits={"cpu": "1"})
    gang = [running(f"g-{at}", "q", "n0", group="g") for at in range(2)]
    made = (
        node("n0", 2),
        queue("q", -1),
        half,
        group("g", "q", 3),
        *gang,
        pod("g-2", "q", group="g"),
    )
    assert advised(tmp_path, *made, of="g")["nodes"] == "1 more node like n0"


def test_devices_of_a_node_that_is_tried_are_its_own(tmp_path):
    chip = {"name": "chip", "attributes": {}}
    made = [
        node("n0", 0),
        queue("q", -1),
        {
            "apiVersion": "kai.scheduler/v1",
            "kind": "SchedulingShard",
            "metadata": {"name": "default"},
            "spec": {"resourceClaims": True},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "chip"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'x.example.com'"}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "n0-chips"},
            "spec": {
                "driver": "x.example.com",
                "nodeName": "n0",
                "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
                "devices": [chip],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one"},
            "spec": {
                "spec": {
                    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "chip"}}]}
                }
            },
        },
    ]
    claims = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "one"}]}
    made += [pod(name, "q", 0, limits={"cpu": "1"}, **claims) for name in ("a", "b")]
    assert advised(tmp_path, *made, of="b")["nodes"] == "1 more node like n0"
