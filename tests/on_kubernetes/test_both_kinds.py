"""A cluster that changes from a device plugin to a driver, node by node, under a daemon."""

import pytest

from kaisched.cluster.kubernetes.client import STRATEGIC
from tests.chaos.claim_parts import RESOURCE, delete_claims, device_class, slice_of
from tests.waiting import until

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {resourceClaims: true}
"""
GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster(rig, tmp_path):
    """Node p0 has a device plugin with two GPUs, d0 a driver with two."""
    rig.node("p0", gpus=2)
    rig.node("d0", gpus=0)  # kubelets keep the name of a plugin that is gone, with 0
    rig.queue("a", 4)
    of_class = device_class()
    slices = [slice_of(name, 2)["metadata"]["name"] for name in ("d0", "p0")]
    of_class["spec"]["extendedResourceName"] = GPU
    rig.must("POST", f"{RESOURCE}/deviceclasses", of_class)
    rig.must("POST", f"{RESOURCE}/resourceslices", slice_of("d0", 2))
    rig.start_kubelet()
    shard = tmp_path / "shard.yaml"
    shard.write_text(SHARD)
    rig.start([str(shard)]).wait_leading()
    yield rig
    rig.stop()
    delete_claims(rig)
    rig.ask("DELETE", f"{RESOURCE}/deviceclasses/{of_class['metadata']['name']}")
    for name in slices:
        rig.ask("DELETE", f"{RESOURCE}/resourceslices/{name}")


def claims(rig):
    """Pod to the node of its devices, by the claims there are."""
    found = rig.must("GET", f"{RESOURCE}/namespaces/{rig.namespace}/resourceclaims")["items"]
    return {
        it["status"]["reservedFor"][0]["name"]: it["status"]["allocation"]["devices"]["results"][0][
            "pool"
        ]
        for it in found
    }


def told(rig, pod):
    return rig.pods()[pod]["status"].get("extendedResourceClaimStatus")


def test_a_gang_runs_on_both_kinds_and_only_pods_on_the_driver_have_claims(cluster):
    cluster.gang("g", "a", 4)
    placed = cluster.wait_placed("g-0", "g-1", "g-2", "g-3")
    assert sorted(placed.values()) == ["d0", "d0", "p0", "p0"]
    by_claim = {pod: node for pod, node in placed.items() if node == "d0"}
    assert claims(cluster) == by_claim
    assert {pod for pod in placed if told(cluster, pod)} == by_claim.keys()


def test_a_node_that_changes_to_the_driver_serves_the_same_pods(cluster):
    cluster.gang("g", "a", 4)
    placed = cluster.wait_placed("g-0", "g-1", "g-2", "g-3")
    for pod in [pod for pod, node in placed.items() if node == "p0"]:
        cluster.delete_pod(pod)
    none = {"allocatable": {GPU: "0"}, "capacity": {GPU: "0"}}
    cluster.must("PATCH", "/api/v1/nodes/p0/status", {"status": none}, STRATEGIC)
    cluster.pod("late", "a")
    until(lambda: cluster.condition("late").get("reason") == "Unschedulable")
    cluster.must("POST", f"{RESOURCE}/resourceslices", slice_of("p0", 2))
    assert cluster.wait_placed("late")["late"] == "p0"
    assert until(lambda: claims(cluster).get("late")) == "p0"
    assert told(cluster, "late")["requestMappings"] == [
        {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
    ]


def test_work_of_another_queue_is_reclaimed_on_both_kinds(cluster):
    cluster.queue("b", 0)
    for at in range(4):
        cluster.pod(f"old-{at}", "b")
    cluster.wait_placed(*(f"old-{at}" for at in range(4)))
    cluster.gang("new", "a", 4)

    # The stand-in for the controller of claims: devices are free once their pod is gone.
    def freed():
        path = f"{RESOURCE}/namespaces/{cluster.namespace}/resourceclaims"
        there = cluster.pods()
        for claim in cluster.must("GET", path)["items"]:
            owner = claim["metadata"]["ownerReferences"][0]["name"]
            if owner not in there:
                name = f"{path}/{claim['metadata']['name']}"
                cluster.ask("PUT", f"{name}/status", {**claim, "status": {}})
                meta = {"metadata": {"finalizers": None}}
                cluster.ask("PATCH", name, meta, "application/merge-patch+json")
                cluster.ask("DELETE", name)
        return {f"new-{at}" for at in range(4)} <= cluster.placed().keys()

    until(freed, what="the gang")
    placed = {pod: node for pod, node in cluster.placed().items() if pod.startswith("new")}
    assert sorted(placed.values()) == ["d0", "d0", "p0", "p0"]
    of_new = {pod: node for pod, node in claims(cluster).items() if pod.startswith("new")}
    assert of_new == {pod: node for pod, node in placed.items() if node == "d0"}
