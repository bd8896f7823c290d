"""Pods with claims go where their claims can be allocated, and nothing is given twice."""

import random
from collections import Counter

import pytest
from msgspec import convert

from kaisched.cluster.embedded import EmbeddedCluster
from kaisched.objects.devices import DeviceClass
from tests.unit.cluster.claims.worlds import DRIVER, World, asking


def test_a_claim_is_made_allocated_and_given_back():
    world = World(team=4)
    world.node("n1", "H100")
    world.template("one")
    world.pod("a", "team", "one")
    world.cycle()
    assert world.nodes == {"a": "n1"}
    assert world.devices("a-one") == ["n1/gpu-0"]
    [claim] = world.claims()
    assert [it.name for it in claim.status.reserved_for] == ["a"]
    world.delete("a")
    assert list(world.claims()) == []


def test_a_claim_by_name_is_kept_by_its_users_and_given_back_by_the_last():
    world = World(team=4)
    world.node("n1", "H100")
    world.node("n2", "H100")
    world.claim("shared")
    for name in "abc":
        world.pod(name, "team", claim="shared")
    world.cycle()
    world.cycle()
    assert set(world.nodes.values()) == {"n1"}  # one claim, one device, one node
    assert world.devices("shared") == ["n1/gpu-0"]
    world.delete("a")
    world.delete("b")
    assert world.devices("shared") == ["n1/gpu-0"]
    world.delete("c")
    assert world.devices("shared") == []


def test_a_gang_that_shares_a_claim_goes_to_the_node_with_most_room():
    world = World(team=4)
    world.node("n1", "H100")
    world.node("n2", "H100")
    world.put("Node", "n1", status={"allocatable": {"cpu": 1, "memory": "1Gi", "pods": 9}})
    world.claim("shared")
    world.put("PodGroup", "pg", "team", spec={"minMember": 2, "queue": "team"})
    for name in "ab":
        world.pod(name, "team", claim="shared", group="pg")
    world.cycle()
    assert world.nodes == {"a": "n2", "b": "n2"}


def test_a_claim_by_name_of_one_pod_leaves_it_the_choice_of_a_node():
    """V14 fixes one node for several pods only: one pod goes where scores say, here the fuller."""
    world = World(team=9)
    world.node("n1", "H100", "H100", "H100")
    world.node("n2", "H100", "H100")
    world.template("one")
    world.claim("named")
    world.pod("a", "team", "one")
    world.cycle()
    assert world.nodes["a"] == "n2"
    world.pod("b", "team", claim="named")
    world.cycle()
    assert world.nodes["b"] == "n2"


@pytest.mark.parametrize("users", [1, 2])
def test_claims_by_name_are_counted_in_every_domain(users):
    """D3: which node is left to pods that share a claim says nothing about other domains."""
    world = World(team=9)
    world.put("Topology", "t", spec={"levels": [{"nodeLabel": "rack"}]})
    for name, models in (("n1", ["H100"]), ("n2", ["H100", "H100"])):
        world.node(name, *models, labels={"rack": f"rack-{name}"})
    rack = {"topology": "t", "requiredTopologyLevel": "rack"}
    spec = {"minMember": 2 * users, "queue": "team", "topologyConstraint": rack}
    world.put("PodGroup", "pg", "team", spec=spec)
    for claim in "cd":
        world.claim(claim)
        for number in range(users):
            world.pod(f"{claim}{number}", "team", claim=claim, group="pg")
    world.cycle()
    assert set(world.nodes.values()) == {"n2"}


def test_a_selector_decides_where_and_which():
    world = World(team=4)
    world.node("n1", "L4", "L4")
    world.node("n2", "L4", "H100")
    world.template("big", model="H100")
    world.pod("a", "team", "big")
    world.pod("b", "team", "big")
    world.cycle()
    assert world.nodes == {"a": "n2", "b": ""}
    assert world.devices("a-big") == ["n2/gpu-1"]
    reason, message = world.reason("b")
    assert reason == "NoRoom"
    assert "too few devices are free for its claims" in message


def test_a_pod_waits_whole_for_all_its_claims():
    world = World(team=4)
    world.node("n1", "H100", "L4")
    world.node("n2", "H100", "H100")
    world.template("two", 2, constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    world.template("one")
    world.pod("a", "team", "one", "two")
    world.pod("b", "team", "two")
    world.cycle()
    assert world.nodes == {"a": "", "b": "n2"}
    assert world.devices("b-two") == ["n2/gpu-0", "n2/gpu-1"]


def requesting(device_class=DRIVER, expression="", **more):
    """A claim with one request, whose devices an expression selects."""
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    exactly = {"deviceClassName": device_class, **selectors, **more}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (requesting("no"), "device class no does not exist"),
        (asking(33), "33 devices are more than 32, the most"),
        (asking(1, constraints=[{}]), "is of a kind that is not known"),
        (requesting(expression="device.driver.find('a') == 'a'"), "find"),
        (requesting(expression=f"device.attributes['{DRIVER}'].size > 1"), "size"),
        (requesting(allocationMode="Half"), "no such allocationMode: Half"),
    ],
)
def test_a_claim_that_cannot_be_allocated_says_why(spec, told):
    world = World(team=4)
    world.node("n1", "H100")
    world.put("ResourceClaim", "c", "team", spec=spec)
    world.pod("a", "team", claim="c")
    world.cycle()
    reason, message = world.reason("a")
    assert reason == "DeviceClaim"
    assert told in message


def test_a_pod_waits_until_its_claim_is_there():
    world = World(team=4)
    world.node("n1", "H100")
    world.pod("a", "team", "later")
    world.pod("b", "team", claim="c")
    world.cycle()
    assert world.reason("a")[1].startswith("claim later is not made from its template yet")
    assert world.reason("b")[1].startswith("claim c does not exist")
    world.template("later")
    world.cycle()
    assert world.nodes == {"a": "n1", "b": ""}


def test_where_no_classes_slices_and_claims_are_known_pods_with_claims_are_refused():
    world = World(team=4)
    world.pod("a", "team", claim="c")
    bare = EmbeddedCluster()
    bare.load([world.cluster.pod("team/a")])
    [[fault]] = [list(faults.values()) for faults in bare.store.members.faults().values()]
    assert fault == "resourceClaims: no device classes, slices and claims are known here"
    bare.load(convert({"metadata": {"name": it}}, DeviceClass) for it in ["any"])
    assert not bare.store.members.faults()


def test_claims_on_gpus_count_in_queues_and_are_reclaimed():
    world = World(a=1, b=1)
    world.node("n1", "H100", "H100")
    world.template("one")
    world.pod("a1", "a", "one")
    world.pod("a2", "a", "one")
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n1"]
    world.pod("b1", "b", "one")
    result = world.cycle()
    assert [it.action for it in result.evictions] == ["reclaim"]
    assert [it.pod for it in result.nominations] == ["team/b1"]
    world.cycle()
    assert world.nodes["b1"] == "n1"
    assert Counter(it for claim in world.claims() for it in world.devices(claim.name)) == {
        "n1/gpu-0": 1,
        "n1/gpu-1": 1,
    }


def test_whoever_starts_with_a_shared_claim_is_within_the_limit_of_its_queue():
    world = World(b=1)
    world.put("Queue", "a", spec={"resources": {"gpu": {"quota": 0, "limit": 0}}})
    world.node("n1", "H100")
    world.claim("shared")
    world.put("PodGroup", "pg", "team", spec={"minMember": 2, "queue": "b"})
    world.pod("p1", "a", claim="shared")
    world.pod("p2", "a", claim="shared")
    world.cycle()
    assert world.nodes == {"p1": "", "p2": ""}
    assert world.reason("p2")[0] == "OverLimit"
    for name in ("g1", "g2"):  # a gang counts it once, and the others then use what it has
        world.pod(name, "b", claim="shared", group="pg")
    world.cycle()
    world.cycle()
    assert set(world.nodes.values()) == {"n1"}


def test_a_gang_is_promised_devices_that_are_free_and_devices_that_are_being_freed():
    world = World(a=0, b=2)
    world.node("n1", "H100", "H100")
    world.template("one")
    world.pod("a1", "a", "one")
    world.cycle()
    world.put("PodGroup", "pg", "team", spec={"minMember": 2, "queue": "b"})
    world.pod("b1", "b", "one", group="pg")
    world.pod("b2", "b", "one", group="pg")
    result = world.cycle()
    assert [it.pod for it in result.evictions] == ["team/a1"]
    assert sorted(it.pod for it in result.nominations) == ["team/b1", "team/b2"]
    world.cycle()
    assert world.nodes == {"a1": "", "b1": "n1", "b2": "n1"}


def test_a_pod_is_moved_if_another_claim_needs_its_node():
    world = World(team=9)
    world.node("n1", "H100", "H100")
    world.template("one")
    world.template("two", 2, constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    world.pod("a", "team", "one")
    world.cycle()
    assert world.nodes == {"a": "n1"}
    world.node("n2", "H100")
    world.pod("b", "team", "two")
    for _ in range(4):
        world.cycle()
    assert world.nodes == {"a": "n2", "b": "n1"}
    assert world.devices("a-one") == ["n2/gpu-0"]


def test_devices_that_belong_to_no_node_are_given_once():
    world = World(team=9)
    world.node("n1")
    world.node("n2")
    devices = [{"name": f"nic-{at}"} for at in range(3)]
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "allNodes": True, "pool": pool, "devices": devices}
    world.put("ResourceSlice", "net", spec=spec)
    world.put("DeviceClass", "net", spec={})
    request = [{"name": "nic", "exactly": {"deviceClassName": "net", "count": 1}}]
    world.put(
        "ResourceClaimTemplate", "nic", "team", spec={"spec": {"devices": {"requests": request}}}
    )
    for at in range(5):
        world.pod(f"p{at}", "team", "nic")
    world.cycle()
    world.cycle()
    given = [it for claim in world.claims() for it in world.devices(claim.name)]
    assert sorted(given) == ["net/nic-0", "net/nic-1", "net/nic-2"]


@pytest.mark.parametrize("seed", range(3))
def test_in_any_history_no_device_is_given_twice_and_nothing_is_left_behind(seed):
    chance = random.Random(f"claims {seed}")
    world = World(a=2, b=2)
    for at in range(3):
        world.node(f"n{at}", *chance.choices(["H100", "L4"], k=chance.randrange(1, 4)))
    world.template("one")
    world.template("big", model="H100")
    world.template("two", 2, constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    world.claim("shared")
    for step in range(12):
        for _ in range(chance.randrange(3)):
            templates = chance.sample(["one", "big", "two"], chance.randrange(1, 3))
            name, queue = f"p{step}{chance.randrange(1000)}", chance.choice("ab")
            if chance.random() < 0.2:
                world.pod(name, queue, claim="shared")
            else:
                world.pod(name, queue, *templates)
        running = [it for it, node in world.nodes.items() if node]
        if running and chance.random() < 0.4:
            world.delete(chance.choice(running))
        world.cycle(for_s=chance.choice([0.5, 2.0]))
        check(world)
    for name in list(world.nodes):
        world.delete(name)
    world.cluster.advance_to(world.cluster.clock.now_s() + 10)
    assert [world.devices(it.name) for it in world.claims()] == [[]]
    assert world.cluster.snapshot().claims is None


def check(world):
    """Assert that claims, devices and nodes of pods agree."""
    given = Counter(it for claim in world.claims() for it in world.devices(claim.name))
    assert all(number == 1 for number in given.values())
    users = {it.uid: claim for claim in world.claims() for it in claim.status.reserved_for}
    for pod in world.cluster.pods():
        made = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses}
        for ref in pod.spec.resource_claims:
            name = ref.resource_claim_name or made[ref.name]
            pools = {it.partition("/")[0] for it in world.devices(name)}
            if pod.spec.node_name:
                assert pools == {pod.spec.node_name}
                assert pod.metadata.uid in users
