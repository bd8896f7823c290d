"""Pods that ask for an extended resource which a device class backs get a claim made for them."""

import pytest

from kaisched.cluster.claims.generated import generated_key, shown
from tests.unit.cluster.claims.test_shared_devices import counts
from tests.unit.cluster.claims.worlds import DRIVER, World

GPU = "example.com/gpu"


def backed(**quotas):
    world = World(**quotas)
    world.put(
        "DeviceClass",
        DRIVER,
        spec={
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
            "extendedResourceName": GPU,
        },
    )
    return world


def asking_pod(world, name, number=1, resource=GPU):
    world.put(
        "Pod",
        name,
        "team",
        metadata={"labels": {"kai.scheduler/queue": "team"}},
        spec={
            "schedulerName": "kaisched",
            "containers": [{"name": "c", "resources": {"limits": {resource: number}}}],
        },
    )


def test_a_claim_is_made_for_an_extended_resource_and_goes_with_its_pod():
    world = backed(team=4)
    world.node("n1", "H100", "H100")
    asking_pod(world, "a")
    asking_pod(world, "b")
    asking_pod(world, "c")
    world.cycle()
    world.cycle()
    assert world.nodes == {"a": "n1", "b": "n1", "c": ""}
    claims = list(world.claims())
    assert [it.status.reserved_for[0].name for it in claims] == ["a", "b"]
    given = [it.status.allocation.devices.results[0] for it in claims]
    assert [it.device for it in given] == ["gpu-0", "gpu-1"]
    assert {it.request for it in given} == {"container-0-request-0"}
    world.delete("a")
    world.cycle()
    assert world.nodes == {"b": "n1", "c": "n1"}
    assert len(list(world.claims())) == 2


def test_the_class_can_be_named_in_the_resource():
    world = World(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a", resource=f"deviceclass.resource.kubernetes.io/{DRIVER}")
    asking_pod(world, "b", resource="deviceclass.resource.kubernetes.io/none")
    world.cycle()
    assert world.nodes == {"a": "n1", "b": ""}
    reason, message = world.reason("b")
    assert reason == "DeviceClaim"
    assert "claim for extended resources: device class none does not exist" in message


def test_devices_count_as_gpus_in_the_limits_of_queues():
    world = backed()
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 1, "limit": 1}}})
    world.node("n1", "H100", "H100")
    asking_pod(world, "a")
    asking_pod(world, "b")
    world.cycle()
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1"]


def test_a_class_that_comes_later_backs_pods_that_wait():
    world = World(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a")
    world.cycle()
    assert world.nodes == {"a": ""}
    spec = {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "extendedResourceName": GPU,
    }
    world.put("DeviceClass", DRIVER, spec=spec)
    world.cycle()
    assert world.nodes == {"a": "n1"}


def test_what_nodes_offer_by_a_plugin_is_not_claimed():
    world = backed(team=4)
    world.node("n1", "H100")
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110, GPU: 1}
    world.put("Node", "n2", status={"allocatable": amounts})
    asking_pod(world, "a")
    asking_pod(world, "b")
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n2"]
    [claim] = world.claims()
    assert world.nodes[claim.status.reserved_for[0].name] == "n1"


def test_gpus_of_a_vendor_without_a_class_are_not_dropped():
    world = World(team=4)
    world.node("n1", "H100")
    selecting = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selecting, "extendedResourceName": "nvidia.com/gpu"}
    world.put("DeviceClass", DRIVER, spec=spec)
    limits = {"limits": {"nvidia.com/gpu": 1, "amd.com/gpu": 1}}
    labels = {"kai.scheduler/queue": "team"}
    spec = {"schedulerName": "kaisched", "containers": [{"name": "c", "resources": limits}]}
    world.put("Pod", "a", "team", metadata={"labels": labels}, spec=spec)
    asking_pod(world, "b", resource="nvidia.com/gpu")
    world.cycle()
    assert world.nodes == {"a": "", "b": "n1"}


def test_containers_that_ask_for_more_together_than_there_is_wait_without_a_long_search():
    world = World(team=40)
    world.node("n1", *["A1"] * 16)
    selecting = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.put("DeviceClass", "boards", spec={"selectors": selecting})
    for name, containers in (("a", 6), ("b", 5)):
        limits = {"limits": {"deviceclass.resource.kubernetes.io/boards": 3}}
        listed = [{"name": f"c{at}", "resources": limits} for at in range(containers)]
        labels = {"kai.scheduler/queue": "team"}
        spec = {"schedulerName": "kaisched", "containers": listed}
        world.put("Pod", name, "team", metadata={"labels": labels}, spec=spec)
    world.cycle()
    assert world.nodes == {"a": "", "b": "n1"}
    assert "too few devices are free for its claims" in world.reason("a")[1]


NVIDIA = "nvidia.com/gpu"


def backing(world, resource=NVIDIA):
    selecting = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selecting, "extendedResourceName": resource}
    world.put("DeviceClass", DRIVER, spec=spec)


@pytest.mark.parametrize("change", ["none", "another", "gone"])
def test_what_a_pod_has_by_its_claim_counts_once_whatever_becomes_of_the_class(change):
    world = World(team=4)
    backing(world)
    world.node("n1", "H100", "H100")
    asking_pod(world, "a", resource=NVIDIA)
    assert counts(world, "a") == (1000, 1000)
    world.cycle()
    if change == "gone":
        world.remove("DeviceClass", DRIVER)
    elif change == "another":
        backing(world, "example.com/other")
    assert counts(world, "a") == (1000, 1000)
    backing(world)
    assert counts(world, "a") == (1000, 1000)


def test_a_claim_that_is_on_its_way_counts_once_when_its_class_goes():
    world = World(team=4)
    backing(world)
    world.node("n1", "H100")
    asking_pod(world, "a", resource=NVIDIA)
    store, snapshot = world.cluster.store, world.cluster.snapshot()
    task = list(snapshot.tasks.name).index("team/a")
    [bind] = [it for it in world.decide(snapshot).binds if it.pod == snapshot.tasks.name[task]]
    pod = store.pods.pod("team/a")
    store.device_claims.assume(pod, dict(bind.claims), lambda: "share")
    store.assume_bound("team/a", "n1")
    world.remove("DeviceClass", DRIVER)
    assert counts(world, "a") == (1000, 1000)


def test_a_claim_that_no_server_has_is_called_by_its_pod():
    key = generated_key("team/a", "0f3c")
    assert shown(key) == "the claim of pod team/a for extended resources"
    assert shown("team/c") == "claim team/c"
