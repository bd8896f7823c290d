"""Nodes with a device plugin beside nodes with a driver, for one resource: each by what it has."""

import pytest

from kaisched.core.axis import GPU
from kaisched.units import CLAIMED_GPU
from tests.unit.cluster.claims.worlds import DRIVER, World

NVIDIA, OTHER = "nvidia.com/gpu", "example.com/gpu"
BOTH = pytest.mark.parametrize("resource", [NVIDIA, OTHER])


def backed(resource=NVIDIA, **quotas):
    """A world with a class that backs a resource."""
    world = World(**quotas)
    selecting = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selecting, "extendedResourceName": resource}
    world.put("DeviceClass", DRIVER, spec=spec)
    return world


def plugin_node(world, name, gpus, resource=NVIDIA):
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110, resource: gpus}
    ready = [{"type": "Ready", "status": "True"}]
    world.put("Node", name, status={"allocatable": amounts, "conditions": ready})


def asking_pod(world, name, number=1, resource=NVIDIA, queue="team", group="", **more):
    limits = resource if isinstance(resource, dict) else {resource: number}
    container = {"name": "c", "resources": {"limits": limits}}
    notes = {"pod-group-name": group} if group else {}
    labels = {"kai.scheduler/queue": queue, **more.pop("labels", {})}
    spec = {"schedulerName": "kaisched", "containers": [container], **more}
    meta = {"labels": labels, "annotations": {**notes, **more.pop("annotations", {})}}
    world.put("Pod", name, "team", metadata=meta, spec=spec)


def migrating(resource=NVIDIA, plugin=1, driver=2, **quotas):
    """A world in which n1 has a device plugin and n2 a driver."""
    world = backed(resource, **quotas)
    plugin_node(world, "n1", plugin, resource)
    world.node("n2", *["H100"] * driver)
    return world


def users(world):
    return sorted(user.name for it in world.claims() for user in it.status.reserved_for)


@BOTH
def test_pods_run_on_nodes_of_both_kinds_in_one_cycle(resource):
    world = migrating(resource, team=8)
    for name in "abcd":
        asking_pod(world, name, resource=resource)
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n2", "n2"]
    assert users(world) == sorted(it for it, node in world.nodes.items() if node == "n2")
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n2", "n2"]


@BOTH
def test_a_gang_runs_over_nodes_of_both_kinds_or_not_at_all(resource):
    world = migrating(resource, team=8)
    for name, size in (("fits", 3), ("waits", 1)):
        world.put(
            "PodGroup",
            name,
            "team",
            metadata={"labels": {"kai.scheduler/queue": "team"}},
            spec={"minMember": size},
        )
    for at in range(3):
        asking_pod(world, f"a{at}", resource=resource, group="fits")
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n2", "n2"]
    assert len(users(world)) == 2
    asking_pod(world, "b0", resource=resource, group="waits")
    world.cycle()
    assert world.nodes["b0"] == ""


@BOTH
def test_each_gpu_is_divided_and_held_once(resource):
    world = migrating(resource, team=8)
    assert world.cluster.snapshot().total[GPU] == 3000
    for name in "abc":
        asking_pod(world, name, resource=resource)
    for _ in range(2):
        world.cycle()
        snapshot = world.cluster.snapshot()
        assert snapshot.total[GPU] == 3000
        assert snapshot.allocated[GPU].tolist() == [3000]


@BOTH
def test_limits_count_gpus_of_both_kinds(resource):
    world = migrating(resource, plugin=4, driver=4)
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 5, "limit": 5}}})
    for at in range(8):
        asking_pod(world, f"p{at}", resource=resource)
    world.cycle()
    world.cycle()
    assert sum(bool(node) for node in world.nodes.values()) == 5


@BOTH
def test_work_on_both_kinds_is_reclaimed(resource):
    world = migrating(resource, first=1, second=2)
    for at in range(3):
        asking_pod(world, f"old{at}", resource=resource, queue="first")
    world.cycle()
    for at in range(2):
        asking_pod(world, f"new{at}", resource=resource, queue="second")
    for _ in range(4):
        world.cycle()
    nodes = world.nodes
    assert "" not in {nodes["new0"], nodes["new1"]}
    assert sum(bool(nodes[it]) for it in nodes if it.startswith("old")) == 1
    assert users(world) == sorted(it for it, node in nodes.items() if node == "n2")
    assert world.cluster.snapshot().allocated[GPU].tolist() == [1000, 2000]


def test_pods_with_claims_of_their_own_and_such_pods_share_the_devices_of_a_node():
    world = migrating(team=8)
    world.template("own")
    world.pod("t", "team", "own")
    world.cycle()
    for name in "abc":
        asking_pod(world, name)
    world.cycle()
    assert world.nodes["t"] == "n2"
    assert sorted(world.nodes.values()) == ["", "n1", "n2", "n2"]
    assert world.cluster.snapshot().allocated[GPU].tolist() == [3000]
    assert world.cluster.snapshot().total[GPU] == 3000


def test_claims_are_evicted_for_such_a_pod_and_the_other_way_round():
    world = migrating(plugin=1, driver=1, first=0, second=2)
    world.template("own")
    world.pod("t", "first", "own")
    asking_pod(world, "p", queue="first")
    world.cycle()
    assert world.nodes == {"t": "n2", "p": "n1"}
    asking_pod(world, "new0", queue="second")
    asking_pod(world, "new1", queue="second")
    for _ in range(4):
        world.cycle()
    assert sorted([world.nodes["new0"], world.nodes["new1"]]) == ["n1", "n2"]
    assert world.nodes["t"] == world.nodes["p"] == ""


def test_a_pod_larger_than_the_nodes_with_the_plugin_goes_to_the_driver():
    world = migrating(plugin=1, driver=4, team=8)
    asking_pod(world, "a", 4)
    asking_pod(world, "b", 5)
    world.cycle()
    assert world.nodes == {"a": "n2", "b": ""}
    assert [len(it.status.allocation.devices.results) for it in world.claims()] == [4]
    assert world.reason("b")[0] == "ExceedsAnyNode"


def test_a_pod_of_which_only_the_plugin_knows_the_resource_stays_off_the_driver():
    world = migrating(plugin=0, driver=4, team=8)
    plugin_node(world, "n3", 1)
    asking_pod(world, "amd", resource="amd.com/gpu")
    asking_pod(world, "two", resource={"amd.com/gpu": 1, NVIDIA: 1})
    world.cycle()
    assert world.nodes == {"amd": "n3", "two": ""}
    # Nothing about claims is said of a pod that could not have one.
    asking_pod(world, "three", resource="amd.com/gpu")
    asking_pod(world, "elsewhere", resource="amd.com/gpu", nodeSelector={"zone": "a"})
    world.cycle()
    message = world.reason("three")[1]
    assert "what it asks for is given there by claims only" in message
    assert "too few devices" not in message
    assert "by claims only" not in world.reason("elsewhere")[1], "each node says its first reason"


def test_a_pod_with_another_resource_that_only_a_class_backs_goes_to_the_plugin():
    # Its claim would be another on each kind of node: see docs/explanation/devices.md.
    world = migrating(plugin=1, driver=4, team=8)
    world.node("n1", "A10")
    plugin_node(world, "n1", 2)
    named = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    asking_pod(world, "a", resource={NVIDIA: 1, named: 1})
    world.cycle()
    assert world.nodes == {"a": "n1"}
    [claim] = world.claims()
    assert len(claim.status.allocation.devices.results) == 1


def test_shares_of_gpus_stay_off_nodes_with_a_driver():
    world = migrating(plugin=0, driver=4, team=8)
    plugin_node(world, "n3", 1)
    world.put(
        "Pod",
        "half",
        "team",
        metadata={
            "labels": {"kai.scheduler/queue": "team"},
            "annotations": {"gpu-fraction": "0.5"},
        },
        spec={"schedulerName": "kaisched", "containers": [{"name": "c"}]},
    )
    world.cycle()
    assert world.nodes == {"half": "n3"}


def test_a_node_that_changes_to_the_driver_keeps_what_its_pods_hold():
    world = migrating(plugin=2, driver=1, team=8)
    plugin_node(world, "n3", 1)
    asking_pod(world, "a")
    asking_pod(world, "b")
    asking_pod(world, "c")
    asking_pod(world, "d")
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n1", "n2", "n3"]
    world.node("n1", "H100", "H100")  # the plugin is gone, the pods run on
    for name in "efg":
        asking_pod(world, name)
    world.cycle()
    assert [world.nodes[it] for it in "efg"] == ["", "", ""]
    gone = next(it for it, node in world.nodes.items() if node == "n1")
    world.delete(gone)
    world.cycle()
    assert sorted(world.nodes[it] for it in "efg") == ["", "", "n1"]
    assert world.cluster.snapshot().total[GPU] == 4000


def test_a_node_that_changes_to_the_plugin_keeps_the_claims_of_its_pods():
    world = migrating(plugin=1, driver=2, team=8)
    world.node("n3", "H100")
    for name in "abcd":
        asking_pod(world, name)
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n2", "n2", "n3"]
    plugin_node(world, "n2", 2)
    asking_pod(world, "e")
    world.cycle()
    assert world.nodes["e"] == ""
    gone = next(it for it, node in world.nodes.items() if node == "n2")
    world.delete(gone)
    world.cycle()
    assert world.nodes["e"] == "n2"
    assert "e" not in users(world)
    assert world.cluster.snapshot().allocated[GPU].tolist() == [4000]


def test_the_number_of_devices_may_change():
    world = migrating(plugin=1, driver=1, team=8)
    for name in "abcd":
        asking_pod(world, name)
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "", "n1", "n2"]
    world.node("n2", *["H100"] * 3)
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n2", "n2", "n2"]
    assert world.cluster.snapshot().total[GPU] == 4000


@pytest.mark.parametrize("kept", ["n1", "n2"])
def test_once_one_kind_is_left_all_is_as_without_the_other(kept):
    world = migrating(plugin=3, driver=3, team=8)
    for name in "abcde":
        asking_pod(world, name)
    world.cycle()
    for name in [it for it, at in world.nodes.items() if at != kept]:
        world.delete(name)
    world.remove("Node", "n2" if kept == "n1" else "n1")
    snapshot = world.cluster.snapshot()
    assert snapshot.total[GPU] == 3000
    assert snapshot.axis.bridged == ""
    world.delete(min(world.nodes))
    asking_pod(world, "f")
    world.cycle()
    assert world.nodes["f"] == kept
    assert ("f" in users(world)) == (kept == "n2")


def test_pods_that_run_are_moved_between_the_kinds():
    # Two pods of one GPU each stand on the node with the plugin and on that with the driver; a pod
    # of two GPUs has room once one of them is moved to the other kind of node.
    world = migrating(plugin=2, driver=2, team=8)
    for name in "abcd":
        asking_pod(world, name)
    world.cycle()
    gone = [next(it for it, at in world.nodes.items() if at == node) for node in ("n1", "n2")]
    for name in gone:
        world.delete(name)
    asking_pod(world, "big", 2, labels={"priorityClassName": "train"})
    for _ in range(5):
        world.cycle()
    assert world.nodes["big"] in {"n1", "n2"}
    assert len([it for it in world.nodes.values() if it]) >= 2
    assert users(world) == sorted(it for it, node in world.nodes.items() if node == "n2")


def test_without_the_plugin_on_any_node_nothing_is_bridged():
    world = backed(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a")
    world.cycle()
    snapshot = world.cluster.snapshot()
    assert snapshot.axis.bridged == ""
    assert snapshot.claims.bridge is None
    row = snapshot.axis.position[CLAIMED_GPU]
    assert snapshot.nodes.allocatable[[GPU, row], 0].tolist() == [0, 1000]


def test_without_devices_nothing_is_bridged():
    world = backed(team=4)
    plugin_node(world, "n1", 1)
    asking_pod(world, "a")
    world.cycle()
    snapshot = world.cluster.snapshot()
    assert snapshot.claims is None
    assert (
        snapshot.nodes.allocatable[GPU].tolist() == snapshot.total[GPU : GPU + 1].tolist() == [1000]
    )


def test_a_node_that_has_both_gives_each_gpu_once():
    world = migrating(plugin=2, driver=1, team=8)
    devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
    world.put("ResourceSlice", "n1-gpus", spec=spec)
    assert world.cluster.snapshot().total[GPU] == 3000
    world.template("two", 2)
    world.pod("t", "team", "two")
    world.cycle()
    asking_pod(world, "a")
    asking_pod(world, "b")
    world.cycle()
    assert world.nodes["t"] == "n1"
    assert sorted([world.nodes["a"], world.nodes["b"]]) == ["", "n2"]


def test_while_claims_cannot_be_read_pods_go_to_the_plugin():
    world = migrating(plugin=1, driver=2, team=8)
    store = world.cluster.store
    asking_pod(world, "a")
    world.cluster.snapshot()
    store.look_again(store.device_claims.set_reading("deviceclasses: not readable"))
    asking_pod(world, "b")
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1"]
    store.look_again(store.device_claims.set_reading("on"))
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n2"]


def test_what_a_claim_counts_as_is_what_the_pod_asks_for():
    # An init container that ends lets later ones have its devices: as amounts of pods are counted.
    world = migrating(plugin=0, driver=4, team=8)
    plugin_node(world, "n3", 1)
    limits = [{"limits": {NVIDIA: number}} for number in (3, 1, 1)]
    init, *rest = ({"name": f"c{at}", "resources": amounts} for at, amounts in enumerate(limits))
    spec = {"schedulerName": "kaisched", "initContainers": [init], "containers": rest}
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    world.cycle()
    assert world.nodes == {"a": "n2"}
    [claim] = world.claims()
    assert len(claim.status.allocation.devices.results) == 3
    assert world.cluster.snapshot().allocated[GPU].tolist() == [3000]


@BOTH
def test_a_shared_claim_counts_once_among_the_pieces_of_a_resource(resource):
    """The driver's node has two devices: one for c, of two queues, and one for d."""
    world = migrating(resource, a=1, b=1)
    world.claim("c")
    world.pod("p0", "a", claim="c")
    world.pod("p1", "b", claim="c")
    world.claim("d")
    world.pod("p2", "b", claim="d")
    world.cycle()
    assert set(world.nodes.values()) == {"n2"}
    assert sum(it.allocated["gpu"] for it in world.result.shares) == 2000
