"""Claims for extended resources on an API server: made, allocated, told to the pod, then bound."""

import pytest

from kaisched.cluster.kubernetes import binder
from kaisched.cluster.kubernetes.device_claims import FINALIZER
from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.live_claims import CLAIMS, POD_PATH, LiveWorld, Shard

GPU = "example.com/gpu"
WRITES = (
    {"verb": "create", "plural": "resourceclaims"},
    {"verb": "patch", "plural": "resourceclaims"},
    {"verb": "update", "plural": "resourceclaims", "subresource": "status"},
    {"verb": "patch", "plural": "pods", "subresource": "status"},
    {"verb": "create", "plural": "pods", "subresource": "binding"},
)
"""The writes of a bind with such a claim, in their order."""


@pytest.fixture
def world(client):
    """A node with one device, and a class that backs a resource."""
    world = LiveWorld(client)
    world.node("n1", 1)
    world.back(GPU)
    return world


@pytest.fixture
def shard(client, world):
    return Shard(client)


def test_the_claim_is_made_allocated_and_told_before_the_bind(world, shard, server):
    pod = world.asking_pod("p")
    server.log.clear()
    assert shard.cycle() == {"p": "n1"}
    wanted = [(it["verb"], it["plural"], it.get("subresource", "")) for it in WRITES]
    sent = [(it.verb, it.plural, it.subresource) for it in server.log]
    assert [it for it in sent if it in wanted] == wanted
    [claim] = world.claims()
    meta = claim["metadata"]
    assert meta["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
    assert meta["finalizers"] == [FINALIZER]
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert world.users(meta["name"]) == ["p"]
    assert world.devices(meta["name"]) == ["n1/gpu-0"]
    told = world.must("GET", f"{POD_PATH}/p")["status"]["extendedResourceClaimStatus"]
    assert told == {
        "resourceClaimName": meta["name"],
        "requestMappings": [
            {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
        ],
    }


def test_devices_stay_taken_and_are_free_once_the_pod_is_gone(world, shard):
    world.asking_pod("p")
    shard.cycle()
    world.asking_pod("q")
    assert shard.cycle() == {}
    shard.handle()
    assert shard.decide() == {}
    world.delete_pod("p")
    world.parts.look()
    for claim in world.claims():  # the claim controller lets it go
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        freed = world.must("PUT", f"{path}/status", {**claim, "status": {}})
        freed["metadata"]["finalizers"] = []
        world.must("PUT", path, freed)
    assert shard.cycle() == {"q": "n1"}
    assert len(world.claims()) == 1


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("write", WRITES, ids=["make", "mark", "allocate", "record", "bind"])
def test_a_lost_answer_of_any_write_makes_one_claim_and_binds(world, shard, server, write, effect):
    world.asking_pod("p")
    server.faults.add(Fault(effect, **write))
    shard.cycle()
    shard.send()
    assert world.node_of("p") == "n1"
    [claim] = world.claims()
    assert world.devices(claim["metadata"]["name"]) == ["n1/gpu-0"]


@pytest.mark.parametrize("write", WRITES[:-1], ids=["make", "mark", "allocate", "record"])
def test_a_refused_write_leaves_no_claim_and_the_device_free(world, shard, server, write):
    world.asking_pod("p")
    server.faults.add(Fault("status", **write, code=422))
    shard.cycle()
    shard.send()
    assert world.node_of("p") == ""
    assert world.claims() == []
    shard.cycle()
    shard.cycle()
    assert world.node_of("p") == "n1"
    assert len(world.claims()) == 1


def test_a_bind_that_admission_refuses_gives_its_devices_back(world, shard, server):
    world.asking_pod("p")
    server.faults.add(Fault("status", **WRITES[-1], code=422))
    shard.cycle()
    shard.send()
    assert (world.node_of("p"), world.claims()) == ("", [])


def test_a_refused_bind_binds_nothing_and_is_tried_again_with_the_same_claim(world, shard, server):
    world.asking_pod("p")
    server.faults.add(Fault("status", **WRITES[-1], code=401))  # of our account, not of the pod
    shard.handle()
    shard.decide()
    server.log.clear()
    shard.send(most=1)
    assert world.node_of("p") == ""  # refused: the server has done nothing
    [claim] = world.claims()
    shard.send()  # the try after the pause
    assert world.node_of("p") == "n1"
    [after] = world.claims()
    assert after["metadata"]["uid"] == claim["metadata"]["uid"]
    assert [it.subresource for it in server.log].count("binding") == 2


def test_a_bind_that_is_refused_again_and_again_leaves_no_claim(world, shard, server, monkeypatch):
    world.asking_pod("p")
    refusal = server.faults.add(Fault("status", **WRITES[-1], code=422, times=None))
    shard.handle()
    shard.decide()
    shard.send(most=1)
    monkeypatch.setattr(binder, "DEADLINE_S", 0.0)
    shard.send()
    assert refusal.met >= 1
    assert world.node_of("p") == ""
    assert world.claims() == []  # given back, and deleted


@pytest.mark.parametrize("write", WRITES[1:], ids=["mark", "allocate", "record", "bind"])
def test_another_leader_goes_on_from_any_point(world, client, server, write):
    world.asking_pod("p")
    first = Shard(client, "first", 1)
    server.faults.add(Fault("drop_before", **write, times=None))
    first.handle()
    first.decide()
    first.send(most=1)
    server.faults.clear()
    then = Shard(client, "then", 2)
    for _ in range(4):
        then.cycle()
    assert world.node_of("p") == "n1"
    [claim] = world.claims()
    assert world.users(claim["metadata"]["name"]) == ["p"]
