"""A resource by device plugin on one node and by claim on another, on an API server."""

import pytest

from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.live_claims import POD_PATH, LiveWorld, Shard

GPU = "nvidia.com/gpu"
CLAIM_WRITES = (
    {"verb": "create", "plural": "resourceclaims"},
    {"verb": "patch", "plural": "resourceclaims"},
    {"verb": "update", "plural": "resourceclaims", "subresource": "status"},
    {"verb": "patch", "plural": "pods", "subresource": "status"},
)


@pytest.fixture
def world(client):
    """Node n1 has a device, and p1 a GPU by device plugin; a class backs the resource."""
    world = LiveWorld(client)
    world.node("n1", 1)
    world.bare_node("p1", **{GPU: "1"})
    world.back(GPU)
    return world


@pytest.fixture
def shard(client, world):
    return Shard(client)


def told(world, pod):
    return world.must("GET", f"{POD_PATH}/{pod}")["status"].get("extendedResourceClaimStatus")


def test_only_the_pod_on_the_node_without_the_plugin_gets_a_claim(world, shard):
    for name in "abc":
        world.asking_pod(name)
    bound = shard.cycle()
    assert sorted(bound.values()) == ["n1", "p1"]
    by_node = {node: pod for pod, node in bound.items()}
    [claim] = world.claims()
    assert world.users(claim["metadata"]["name"]) == [by_node["n1"]]
    assert told(world, by_node["n1"])["resourceClaimName"] == claim["metadata"]["name"]
    assert told(world, by_node["p1"]) is None
    assert shard.cycle() == {}
    assert shard.cycle() == {}
    assert len(world.claims()) == 1


@pytest.mark.parametrize("write", CLAIM_WRITES, ids=["make", "mark", "allocate", "record"])
@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
def test_a_lost_answer_of_a_write_makes_one_claim(world, shard, server, write, effect):
    world.asking_pod("a")
    world.asking_pod("b")
    server.faults.add(Fault(effect, **write))
    shard.cycle()
    shard.send()
    assert sorted([world.node_of("a"), world.node_of("b")]) == ["n1", "p1"]
    assert len(world.claims()) == 1


@pytest.mark.parametrize("write", CLAIM_WRITES, ids=["make", "mark", "allocate", "record"])
def test_a_pod_whose_claim_failed_goes_to_the_plugin_without_one(world, shard, server, write):
    world.cordon("p1")
    world.asking_pod("a")
    server.faults.add(Fault("status", **write, code=422))
    shard.cycle()
    shard.send()
    assert world.node_of("a") == ""
    world.cordon("p1", is_cordoned=False)
    world.cordon("n1")
    for _ in range(3):
        shard.cycle()
    assert world.node_of("a") == "p1"
    assert world.claims() == []


@pytest.mark.parametrize("write", CLAIM_WRITES[1:], ids=["mark", "allocate", "record"])
def test_a_claim_that_a_former_leader_left_is_gone_before_its_pod_has_a_node(
    world, client, server, write
):
    world.cordon("p1")
    world.asking_pod("a")
    first = Shard(client, "first", 1)
    server.faults.add(Fault("drop_before", **write, times=None))
    first.handle()
    first.decide()
    first.send(most=1)
    server.faults.clear()
    assert len(world.claims()) == 1
    world.cordon("p1", is_cordoned=False)
    world.cordon("n1")
    then = Shard(client, "then", 2)
    then.handle()
    assert then.decide() == {}
    assert "an earlier claim for its extended resources is being given back" in then.reason("a")
    then.send()
    for _ in range(3):
        then.cycle()
    assert world.node_of("a") == "p1"
    assert world.claims() == []
