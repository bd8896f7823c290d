"""Clusters that mix shares, MIG instances, claims and nodes of both sorts; worked out by hand."""

from kaisched.units import CLAIMED_GPU
from tests.unit.cluster.claims.test_both_kinds import migrating
from tests.unit.cluster.claims.worlds import DRIVER, World

READY = [{"type": "Ready", "status": "True"}]
MIG = "nvidia.com/mig-1g.5gb"


def plugin_node(world, name, memory="16000", **devices):
    """Add a node whose GPUs come from a device plugin."""
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110} | devices
    labels = {"nvidia.com/gpu.memory": memory, "nvidia.com/mig.strategy": "mixed"}
    status = {"allocatable": amounts, "conditions": READY}
    world.put("Node", name, metadata={"labels": labels}, status=status)


def sharing_pod(world, name, queue="team", group="", limits=None, **annotations):
    """Add a pod that asks for a share, or for a resource."""
    given = {f"gpu-{key}": value for key, value in annotations.items()}
    given |= {"pod-group-name": group} if group else {}
    resources = {"requests": {"cpu": 1}, "limits": limits or {}}
    world.put(
        "Pod",
        name,
        "team",
        metadata={"labels": {"kai.scheduler/queue": queue}, "annotations": given},
        spec={"schedulerName": "kaisched", "containers": [{"name": "c", "resources": resources}]},
    )


def mixed(limit=-1):
    world = World(others=0)
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 0, "limit": limit}}})
    world.node("d1", "H100")
    plugin_node(world, "p1", **{"nvidia.com/gpu": 1})
    plugin_node(world, "m1", **{MIG: 1})
    world.template("one")
    world.put("PodGroup", "pg", "team", spec={"minMember": 3, "queue": "team"})
    sharing_pod(world, "share", group="pg", fraction="0.5")
    sharing_pod(world, "mig", group="pg", limits={MIG: 1})
    world.pod("claim", "team", "one", group="pg")
    return world


def test_a_gang_of_a_share_an_instance_and_a_claim_is_placed_on_three_nodes():
    world = mixed()
    world.cycle()
    assert world.nodes == {"share": "p1", "mig": "m1", "claim": "d1"}


def test_such_a_gang_waits_whole_if_one_of_its_devices_is_missing():
    world = mixed()
    world.node("d1", "H100", devices=[])
    world.cycle()
    assert set(world.nodes.values()) == {""}
    assert list(world.devices("claim-one")) == []


def test_such_a_gang_counts_with_all_its_devices_in_the_limit():
    # a half, a whole device, and an instance: more than 1 whatever the instance counts for
    world = mixed(limit=1)
    world.cycle()
    assert set(world.nodes.values()) == {""}
    [record] = [it for it in world.result.records if it.pod_group == "team/pg"]
    assert record.reason == "OverLimit"


def test_memory_goes_where_the_card_is_large_enough():
    world = World(team=4)
    plugin_node(world, "small", "16000", **{"nvidia.com/gpu": 1})
    plugin_node(world, "large", "80000", **{"nvidia.com/gpu": 1})
    sharing_pod(world, "a", memory="40000")
    sharing_pod(world, "b", memory="40000")
    sharing_pod(world, "c", memory="16000")
    sharing_pod(world, "d", memory="1000")
    world.cycle()
    # a and b fill the large card, c the small one; nothing is left for d
    assert world.nodes == {"a": "large", "b": "large", "c": "small", "d": ""}


def test_a_claim_of_two_jobs_counts_once_in_the_queue_of_the_first_and_stays_with_the_second():
    world = World(x=0, y=0)
    world.node("n1", "H100")
    world.claim("shared")
    world.pod("a", "x", claim="shared")
    world.pod("b", "y", claim="shared")
    world.cycle()
    world.cycle()
    assert world.nodes == {"a": "n1", "b": "n1"}

    def counts():
        world.cluster.snapshot()
        rows = [world.cluster.store.pods.pod(f"team/{it}") for it in "ab"]
        return [0 if it is None else it.request.get(CLAIMED_GPU, 0) // 1000 for it in rows]

    assert sorted(counts()) == [0, 1]
    at = counts().index(1)
    world.delete("ab"[at])
    assert counts()[1 - at] == 1  # the other pays from now on
    assert world.devices("shared") == ["n1/gpu-0"]


def test_an_administrator_sees_a_device_that_is_taken_and_takes_nothing():
    world = World(team=1)
    world.node("n1", "H100")
    world.template("one")
    exactly = {"deviceClassName": DRIVER, "count": 1, "adminAccess": True}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    world.put("ResourceClaimTemplate", "admin", "team", spec={"spec": spec})
    world.pod("a", "team", "one")
    world.cycle()
    world.pod("watch", "team", "admin")
    world.cycle()
    assert world.nodes == {"a": "n1", "watch": "n1"}
    assert world.devices("watch-admin") == ["n1/gpu-0"]
    world.delete("a")
    world.pod("b", "team", "one")
    world.cycle()
    assert world.nodes == {"watch": "n1", "b": "n1"}  # the administrator does not keep it


def test_partitions_share_the_counters_of_their_card():
    world = World(team=0)
    world.node("n1")

    def part(name, memory):
        takes = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
        return {"name": name, "consumesCounters": takes}

    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    counters = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    world.put("ResourceSlice", "n1-a", spec=common | {"sharedCounters": counters})
    devices = [part("whole", "80Gi"), *(part(f"half-{at}", "40Gi") for at in range(2))]
    world.put("ResourceSlice", "n1-b", spec=common | {"devices": devices})
    for at in range(3):
        world.pod(f"p{at}", "team", "one")
    world.template("one")
    world.cycle()
    # the first takes the whole card, so no part is left
    assert sorted(world.nodes.values()) == ["", "", "n1"]
    running = next(it for it, node in world.nodes.items() if node)
    assert world.devices(f"{running}-one") == ["n1/whole"]
    devices = devices[1:]
    world.delete(running)
    world.put("ResourceSlice", "n1-b", spec=common | {"devices": devices})
    world.cycle()
    assert sorted(world.nodes.values()) == ["n1", "n1"]  # both halves together fill it


def test_instances_of_a_node_where_some_were_taken_by_annotation_are_given_to_nobody():
    """n1 has seven, but nobody knows which of them is taken."""
    world = World(team=9)
    plugin_node(world, "n1", **{MIG: 7})
    plugin_node(world, "n2", **{MIG: 1})
    old = {"annotations": {MIG: "1"}, "labels": {"kai.scheduler/queue": "team"}}
    spec = {"schedulerName": "kaisched", "nodeName": "n1", "containers": [{"name": "c"}]}
    world.put("Pod", "old", "team", metadata=old, spec=spec, status={"phase": "Running"})
    for name in "ab":
        sharing_pod(world, name, limits={MIG: 1})
    world.cycle()
    assert world.nodes == {"old": "n1", "a": "n2", "b": ""}
    assert "by annotation" in world.reason("b")[1]


def test_a_pod_without_a_gpu_goes_to_a_node_whose_plugin_is_gone_while_shares_run():
    world = World(team=9)
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110}
    world.put("Node", "n1", status={"allocatable": {**amounts, "nvidia.com/gpu": 2}})
    meta = {"labels": {"kai.scheduler/queue": "team"}}
    spec = {"schedulerName": "kaisched", "containers": [{"name": "c"}]}
    world.put(
        "Pod", "share", "team", metadata=meta | {"annotations": {"gpu-fraction": "0.5"}}, spec=spec
    )
    world.cycle()
    world.put("Node", "n1", status={"allocatable": amounts})
    world.put("Pod", "plain", "team", metadata=meta, spec=spec)
    world.cycle()
    assert world.nodes == {"share": "n1", "plain": "n1"}


def test_shares_are_given_where_the_plugin_gives_gpus_though_other_nodes_have_the_resource_too():
    """A device of a claim is no card: nobody could hold the rest of it."""
    world = migrating(plugin=1, driver=2, team=8)
    for name in "abc":
        sharing_pod(world, name, fraction="0.5")
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n1"]
