"""Storage end to end: pods wait for their claims, go where volumes are, and have theirs made."""

import threading

import msgspec
import pytest

from kaisched_apiserver.connection import Fault
from tests.on_kubernetes.looking import events
from tests.waiting import until

pytestmark = pytest.mark.slow
MERGE = "application/merge-patch+json"
CLASS = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def cluster(rig, server):
    """A node in each of two zones, and a class of volumes that are made once a pod has a node."""
    for name in ("n0", "n1"):
        rig.node(name, labels={"zone": name})
    rig.queue("a", 16)
    made_late = {"provisioner": "x.io/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    rig.must("POST", CLASS, {"metadata": {"name": "late"}, **made_late})
    rig.start_kubelet()
    return rig


def claims_path(cluster):
    return f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"


def claim(cluster, name, **spec):
    cluster.must("POST", claims_path(cluster), {"metadata": {"name": name}, "spec": spec})


def volume(cluster, name, zone):
    wanted = {"key": "zone", "operator": "In", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    body = {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}
    cluster.must("POST", "/api/v1/persistentvolumes", body)


def bind(cluster, name, to):
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    body = {"metadata": {"annotations": done}, "spec": {"volumeName": to}}
    cluster.must("PATCH", f"{claims_path(cluster)}/{name}", body, MERGE)


def pod(cluster, name, using, **more):
    source = {"persistentVolumeClaim": {"claimName": using}}
    cluster.pod(name, "a", volumes=[{"name": "data", **source}], **more)


def test_a_pod_waits_for_its_claim_and_goes_where_its_volume_is(cluster):
    cluster.start().wait_leading()
    pod(cluster, "p", "data")
    until(lambda: "claim data does not exist" in cluster.condition("p").get("message", ""))
    claim(cluster, "data")
    volume(cluster, "pv", "n1")
    bind(cluster, "data", "pv")
    assert cluster.wait_placed("p")["p"] == "n1"


def test_a_volume_is_made_for_the_node_before_the_pod_is_bound(cluster):
    cluster.start().wait_leading()
    claim(cluster, "data", storageClassName="late")
    pod(cluster, "p", "data", nodeSelector={"zone": "n1"})
    named = until(lambda: selected(cluster, "data"))
    assert named == "n1"
    assert cluster.placed() == {}
    volume(cluster, "pv", "n1")
    bind(cluster, "data", "pv")
    assert cluster.wait_placed("p")["p"] == "n1"


def test_a_volume_that_could_not_be_made_is_asked_for_again(cluster):
    cluster.start().wait_leading()
    claim(cluster, "data", storageClassName="late")
    pod(cluster, "p", "data")
    until(lambda: selected(cluster, "data"))
    path = f"{claims_path(cluster)}/data"
    taken = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}
    cluster.must("PATCH", path, taken, MERGE)
    until(lambda: events(cluster, "bind_failed"))
    node = until(lambda: selected(cluster, "data"))
    volume(cluster, "pv", node)
    bind(cluster, "data", "pv")
    assert cluster.wait_placed("p")["p"] == node


def test_where_claims_may_not_be_read_pods_are_bound_as_if_there_were_none(cluster, server):
    plural = "persistentvolumeclaims"
    server.faults.add(Fault("status", plural=plural, code=403, times=None))
    cluster.start().wait_leading()
    pod(cluster, "p", "data")
    cluster.wait_placed("p")
    (told,) = [it for it in events(cluster, "kind_unreadable") if plural in it["needs"]]
    assert told["needs"] == f"get, list and watch on {plural}"


def test_a_gang_of_pods_with_claims_is_bound_whole(cluster):
    """A provisioner that makes every volume where it is asked for."""
    cluster.start().wait_leading()
    end = threading.Event()
    provisioner = threading.Thread(target=provide, args=(cluster, end), daemon=True)
    provisioner.start()
    cluster.group("g", "a", 4)
    for number in range(4):
        claim(cluster, f"data-{number}", storageClassName="late")
        pod(cluster, f"g-{number}", f"data-{number}", group="g", gpus=4)
    placed = cluster.wait_placed(*(f"g-{number}" for number in range(4)))
    end.set()
    provisioner.join()
    assert sorted(placed.values()) == ["n0", "n0", "n1", "n1"]
    for number in range(4):
        assert selected(cluster, f"data-{number}") == placed[f"g-{number}"]


def selected(cluster, name):
    meta = cluster.must("GET", f"{claims_path(cluster)}/{name}")["metadata"]
    return meta.get("annotations", {}).get("volume.kubernetes.io/selected-node", "")


def provide(cluster, end):
    while not end.wait(0.03):
        answer = cluster.ask("GET", claims_path(cluster))
        for it in msgspec.json.decode(answer.data)["items"]:
            name = it["metadata"]["name"]
            node = it["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")
            if node and not it["spec"].get("volumeName"):
                volume(cluster, f"pv-{name}", node)
                bind(cluster, name, f"pv-{name}")
