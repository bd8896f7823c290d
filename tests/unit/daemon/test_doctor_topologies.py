"""Doctor: what is free in the domains of each topology, and which gangs still fit in one."""

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from kaisched_apiserver import ApiServer
from kaisched_apiserver.playground import add_kai_kinds, add_namespace, add_nodes
from tests.unit.daemon.test_doctor import EVERYTHING, client_of, found, must, of, queue, texts

TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
WISH = {"topology": "dc", "requiredTopologyLevel": "rack"}
RACKS = {"gpu-node-1": "r1", "gpu-node-2": "r2", "gpu-node-3": "r2"}


@pytest.fixture
def server():
    """Three nodes with two GPUs each in two racks, and a queue."""
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_nodes(server, 3, 2)
        for node, rack in RACKS.items():
            label(server, node, rack)
        queue(server, "default-queue")
        queue(server, "root")
        queue(server, "a", parentQueue="root")
        topology(server, "example.com/rack")
        yield server


def label(server, node, rack):
    body = {"metadata": {"labels": {"example.com/rack": rack}}, "spec": {"taints": None}}
    path = f"/api/v1/nodes/{node}"
    assert client_of(server).call("PATCH", path, body=body, content_type=MERGE).is_done


def topology(server, key):
    spec = {"levels": [{"nodeLabel": key, "alias": "rack"}]}
    kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
    must(server, "POST", TOPOLOGIES, {**kind, "metadata": {"name": "dc"}, "spec": spec})


def gang(server, name, pods, queue="a"):
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    spec = {"queue": queue, "minMember": pods, "topologyConstraint": WISH}
    must(server, "POST", GROUPS, {**kind, "metadata": {"name": name}, "spec": spec})
    asks = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    for at in range(pods):
        meta = {"name": f"{name}-{at}", "annotations": {"pod-group-name": name}}
        spec = {
            "schedulerName": "kaisched",
            "containers": [{"name": "main", "image": "train", "resources": asks}],
        }
        must(server, "POST", "/api/v1/namespaces/default/pods", {"metadata": meta, "spec": spec})


def test_free_gpus_are_told_by_domain(server):
    assert texts(found(server), "topology dc", "ok") == [
        "2 domains of rack: 6 GPUs are free, 4 of them in r2"
    ]


def test_a_gang_that_no_rack_holds_hears_which_is_nearest(server):
    gang(server, "big", 5)
    (warning,) = of(found(server), "topology dc", "warn")
    assert warning.text == (
        "gangs of 5 pods (1 gpu each) in one rack, as PodGroup default/big: none fits, though in"
        " all there is room for 1; best is r2, short by 1 pod"
    )
    assert warning.fix == "wait, ask for fewer pods, or require a wider level"


def test_nodes_and_labels_that_are_missing_are_named(server):
    label(server, "gpu-node-1", None)
    (warning,) = texts(found(server), "topology dc", "warn")
    assert warning == "1 of 3 nodes lack a label of it: gpu-node-1"


def test_a_level_that_no_node_has_is_named(server):
    must(server, "DELETE", f"{TOPOLOGIES}/dc", {})
    topology(server, "example.com/racks")
    (warning,) = of(found(server), "topology dc")
    assert warning.text == "no node has the label example.com/racks: jobs that require a level wait"


def test_without_topologies_nothing_is_told(server):
    must(server, "DELETE", f"{TOPOLOGIES}/dc", {})
    assert not [it for it in found(server) if it.check.startswith("topolog")]


def test_gangs_that_wait_for_another_reason_hear_where_they_fit(server):
    """The limit of the queue holds it back, not the racks."""
    queue(server, "b", resources={**EVERYTHING, "limit": 1}, parentQueue="root")
    gang(server, "g", 2, queue="b")
    assert texts(found(server), "topology dc", "ok") == [
        "2 domains of rack: 6 GPUs are free, 4 of them in r2",
        (
            "gangs of 2 pods (1 gpu each) in one rack, as PodGroup default/g: 3 of 3 fit, 2 in r2,"
            " 1 in r1"
        ),
    ]


def test_a_full_cluster_has_room_for_none(server):
    gang(server, "first", 4)
    gang(server, "second", 2)
    gang(server, "third", 2)
    free, gangs = of(found(server), "topology dc")
    assert free.text == "2 domains of rack: no GPU is free"
    assert gangs.text == (
        "gangs of 2 pods (1 gpu each) in one rack, as PodGroup default/third: none fits; best is"
        " r1, short by 2 pods"
    )
