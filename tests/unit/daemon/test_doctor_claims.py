"""Doctor: what drivers offer to claims, which classes match, and what nodes have free of them."""

import pytest

from kaisched_apiserver import ApiServer
from kaisched_apiserver.playground import (
    DRIVER,
    add_claims,
    add_kai_kinds,
    add_namespace,
    add_nodes,
)
from tests.chaos.claim_parts import RESOURCE
from tests.unit.daemon.test_doctor import SHARDS, found, must, of, shard, texts


@pytest.fixture
def server():
    """Two nodes whose GPUs a driver offers, and a shard that allocates claims."""
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_nodes(server, 2, 4, has_claims=True)
        add_claims(server, 2, 4)
        shard(server, "default", resourceClaims=True)
        yield server


def allocate(server, name, device, node="gpu-node-1"):
    path = f"{RESOURCE}/namespaces/kaisched/resourceclaims"
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    must(server, "POST", path, claim)
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    must(server, "PUT", f"{path}/{name}/status", claim)


def test_what_drivers_and_classes_offer_is_told_with_what_nodes_have_free(server):
    allocate(server, "c", "gpu-0")
    allocate(server, "d", "gpu-3")
    findings = found(server)
    assert texts(findings, f"driver {DRIVER}", "ok") == ["8 devices on 2 nodes, 2 of them taken"]
    assert texts(findings, f"class {DRIVER}", "ok") == [
        "free are 4 of 4 on gpu-node-2, 2 of 4 on gpu-node-1"
    ]
    assert texts(findings, "rights claims", "ok") == ["all 14 requests are allowed"]
    assert of(findings, "claims") == []


def test_a_pool_that_is_not_whole_and_a_class_without_devices_are_named(server):
    pool = {"name": "gpu-node-2", "generation": 2, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": "gpu-node-2", "pool": pool, "devices": []}
    must(server, "POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": "x"}, "spec": spec})
    for name, expression in (
        ("none", 'device.driver == "other"'),
        ("odd", "sets.contains(['a'], ['a'])"),
    ):
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        must(
            server, "POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": spec}
        )
    findings = found(server)
    (fault,) = texts(findings, f"driver {DRIVER}", "warn")
    assert "pool gpu-node-2 of gpu.nvidia.com is being updated: 1 slices are there, of 2" in fault
    assert texts(findings, "class none", "warn") == ["no device of any node is in it"]
    (odd,) = texts(findings, "class odd", "warn")
    assert odd.startswith("pods that ask for it wait: ")


def test_a_pool_whose_counters_alone_are_there_adds_no_nodes_to_its_driver(server):
    pool = {"name": "cards", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "card-0", "counters": {"slices": {"value": "7"}}}]
    spec = {"driver": "other", "nodeName": "gpu-node-2", "pool": pool, "sharedCounters": counters}
    must(server, "POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": "x"}, "spec": spec})
    findings = found(server)
    assert texts(findings, "driver other", "ok") == ["0 devices on 0 nodes, 0 of them taken"]
    (fault,) = texts(findings, "driver other", "warn")
    assert "pool cards of other is being updated: 1 slices are there, of 2" in fault


def test_claims_that_no_shard_allocates_are_warned_of(server):
    must(server, "DELETE", f"{SHARDS}/default", {})
    (warning,) = of(found(server), "claims")
    assert "no shard allocates them" in warning.text
    assert "resourceClaims: true" in warning.fix


def test_a_server_without_the_kinds_is_a_fault_where_a_shard_wants_them(server):
    def forget():
        for plural in (
            "deviceclasses",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourceslices",
        ):
            server.api.registry.remove("resource.k8s.io", plural)

    server.call(forget)
    (fault,) = of(found(server), "claims")
    assert fault.level == "fail"


# -- shares that are claims ----------------------------------------------------------------------

SHARES = {"resourceClaims": True, "gpuSharing": {"deviceClass": DRIVER}}


@pytest.fixture
def sharing():
    """Two nodes whose GPUs claims may have parts of, and a shard whose shares are claims."""
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_nodes(server, 2, 4, has_claims=True)
        add_claims(server, 2, 4, can_share=True)
        shard(server, "default", **SHARES)
        yield server


def policy(server):
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
    meta = {"name": "kaisched-share-claims"}
    must(server, "POST", path, {"metadata": meta, "spec": {"policyName": meta["name"]}})


def test_shares_that_are_claims_are_looked_at_only_where_a_shard_has_some(server, sharing):
    assert of(found(server), "share claims") == of(found(server), "rights share-claims") == []
    policy(sharing)
    findings = found(sharing)
    assert texts(findings, "share claims", "ok") == [
        f"pods may share devices of class {DRIVER}, of 81920 MiB each",
        "a policy writes the claim into pods with a share",
    ]
    assert texts(findings, "rights share-claims", "ok") == ["all 3 requests are allowed"]
    assert of(findings, "rights sharing") == of(findings, "gpu sharing") == []


def test_a_missing_policy_is_named(sharing):
    (text,) = texts(found(sharing), "share claims", "warn")
    assert text.startswith("no policy writes the claim into pods")


def test_a_class_whose_devices_cannot_be_shared_is_named(server):
    policy(server)
    for name, text in ((DRIVER, "can be shared by its memory"), ("gpu.none", "does not exist")):
        must(server, "DELETE", f"{SHARDS}/default", None)
        shard(server, "default", **(SHARES | {"gpuSharing": {"deviceClass": name}}))
        (said,) = texts(found(server), "share claims", "warn")
        assert f"device class {name}" in said or f"device of class {name}" in said
        assert text in said


def test_devices_of_two_sizes_are_named(sharing):
    policy(sharing)
    memory = {"memory": {"value": "40Gi"}}
    devices = [{"name": "d", "allowMultipleAllocations": True, "capacity": memory}]
    pool = {"name": "small", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "gpu-node-1", "pool": pool, "devices": devices}
    must(sharing, "POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
    (text,) = texts(found(sharing), "share claims", "warn")
    assert "have from 40960 to 81920 MiB: pods with gpu-fraction wait" in text


def test_a_device_of_which_claims_have_parts_is_not_free(sharing):
    allocate(sharing, "c", "gpu-0")
    path = f"{RESOURCE}/namespaces/kaisched/resourceclaims/d"
    must(sharing, "POST", path.rpartition("/")[0], {"metadata": {"name": "d"}, "spec": {}})
    result = {"request": "gpu", "driver": DRIVER, "pool": "gpu-node-1", "device": "gpu-1"}
    result |= {"shareID": "6f2c8a4e-0d1b-4c39-9a57-3be1f0c4d282"}
    result["consumedCapacity"] = {"memory": "1Gi"}
    status = {"allocation": {"devices": {"results": [result]}}}
    body = {"metadata": {"name": "d"}, "spec": {}, "status": status}
    must(sharing, "PUT", f"{path}/status", body)
    assert texts(found(sharing), f"class {DRIVER}", "ok") == [
        "free are 4 of 4 on gpu-node-2, 2 of 4 on gpu-node-1"
    ]
