"""Devices that several nodes, claims or pods can use; worked out by hand."""

from tests.unit.cluster.claims.worlds import DRIVER, World

READY = [{"type": "Ready", "status": "True"}]


def plain_node(world, name, cpu, **labels):
    """Add a node without devices of its own, with room for so many pods."""
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": 110}
    status = {"allocatable": amounts, "conditions": READY}
    world.put("Node", name, metadata={"labels": labels}, status=status)


def publish(world, name, slices=1, driver=DRIVER, pool="", generation=1, **spec):
    pool = {"name": pool or name, "generation": generation, "resourceSliceCount": slices}
    world.put("ResourceSlice", name, spec={"driver": driver, "pool": pool, **spec})


def ask(world, name, of=DRIVER, **exactly):
    """Add a template for devices of a class."""
    requests = [{"name": "r", "exactly": {"deviceClassName": of, **exactly}}]
    world.put(
        "ResourceClaimTemplate", name, "team", spec={"spec": {"devices": {"requests": requests}}}
    )


def pods(world, template, *names, queue="team"):
    for name in names:
        world.pod(name, queue, template)


def places(world, cycles=3):
    """Return where pods are after some cycles, in order."""
    for _ in range(cycles):
        world.cycle()
    return sorted(world.nodes.values())


def test_a_device_for_any_node_is_not_kept_for_one_that_is_full():
    """n1 has room for one pod, which gets n1's own device: the others go to n2."""
    world = World(team=0)
    plain_node(world, "n1", 1, zone="a")
    plain_node(world, "n2", 9, zone="b")
    world.put("DeviceClass", "net", spec={})
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    devices = [
        {"name": "d0", "nodeName": "n1"},
        {"name": "d1", "nodeSelector": {"nodeSelectorTerms": terms}},
        {"name": "d2", "allNodes": True},
    ]
    publish(world, "net", driver="net.example.com", perDeviceNodeSelection=True, devices=devices)
    ask(world, "one", of="net")
    pods(world, "one", "a", "b", "c", "d")
    assert places(world) == ["", "n1", "n2", "n2"]
    by_node = {world.nodes[it]: set() for it in "abcd"}
    for it in "abcd":
        by_node[world.nodes[it]].update(world.devices(f"{it}-one"))
    assert by_node == {"": set(), "n1": {"net/d0"}, "n2": {"net/d1", "net/d2"}}


def test_a_gang_is_placed_with_devices_for_any_node_where_there_is_room():
    world = World(team=0)
    plain_node(world, "n1", 1)
    plain_node(world, "n2", 2)
    world.put("DeviceClass", "net", spec={})
    devices = [{"name": f"d{at}"} for at in range(3)]
    publish(world, "net", driver="net.example.com", allNodes=True, devices=devices)
    ask(world, "one", of="net")
    world.put("PodGroup", "pg", "team", spec={"minMember": 3, "queue": "team"})
    for at in range(3):
        world.pod(f"p{at}", "team", "one", group="pg")
    assert places(world, 1) == ["n1", "n2", "n2"]


def test_counters_of_a_pool_count_for_the_devices_of_all_its_nodes():
    """One channel of a link for two nodes: the device of either takes it."""
    world = World(team=0)
    plain_node(world, "n1", 9)
    plain_node(world, "n2", 9)
    world.put("DeviceClass", "link", spec={})
    common = {"driver": "link.example.com", "pool": "p", "slices": 3}
    counters = [{"name": "link", "counters": {"channels": {"value": "1"}}}]
    takes = [{"counterSet": "link", "counters": {"channels": {"value": "1"}}}]
    publish(world, "s0", allNodes=True, sharedCounters=counters, **common)
    for at in (1, 2):
        devices = [{"name": f"d{at}", "consumesCounters": takes}]
        publish(world, f"s{at}", nodeName=f"n{at}", devices=devices, **common)
    ask(world, "one", of="link")
    pods(world, "one", "a", "b")
    assert len(set(places(world))) == 2
    running = next(it for it, node in world.nodes.items() if node)
    world.delete(running)
    assert places(world, 1)[0] in {"n1", "n2"}


def shared(world, size="80Gi"):
    """Add a node with a device of which claims may have parts."""
    plain_node(world, "n1", 9)
    policy = {"default": size, "validRange": {"min": "1Mi", "step": "1Mi"}}
    memory = {"value": size, "requestPolicy": policy}
    device = {"name": "d0", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    publish(world, "n1", nodeName="n1", devices=[device])


def test_a_claim_that_names_no_amount_has_the_whole_device():
    world = World(team=0)
    shared(world)
    ask(world, "part", capacity={"requests": {"memory": "1Gi"}})
    ask(world, "whole")
    pods(world, "part", "a")
    places(world, 1)
    pods(world, "whole", "b")
    pods(world, "part", "c")
    assert places(world, 1) == ["", "n1", "n1"]
    assert not world.nodes["b"]


def test_a_gang_with_a_common_claim_and_own_ones_needs_the_common_device_once():
    """Three devices do for two pods: one for each, and one for both. n2 has two of them only."""
    world = World(team=0)
    world.node("n1", "H100")
    world.node("n2", "H100", "H100")
    world.node("n3", "H100", "H100", "H100")
    world.claim("common")
    world.template("one")
    world.put("PodGroup", "pg", "team", spec={"minMember": 2, "queue": "team"})
    for at in range(2):
        world.pod(f"p{at}", "team", "one", claim="common", group="pg")
    assert places(world, 1) == ["n3", "n3"]
    given = [it for claim in world.claims() for it in world.devices(claim.name)]
    assert sorted(given) == ["n3/gpu-0", "n3/gpu-1", "n3/gpu-2"]


def test_a_gang_gets_devices_of_a_pool_of_two_nodes_in_whatever_order_its_nodes_come():
    """Only n2 has devices of its own; but links come first there too, and it is filled first."""
    world = World(team=0)
    plain_node(world, "n1", 9)
    plain_node(world, "n2", 1)
    world.put("DeviceClass", "net", spec={})
    common = {"driver": "net.example.com", "pool": "links", "slices": 3}
    counters = [{"name": "link", "counters": {"channels": {"value": "2"}}}]
    takes = [{"counterSet": "link", "counters": {"channels": {"value": "1"}}}]
    publish(world, "s0", allNodes=True, sharedCounters=counters, **common)
    for at in (1, 2):
        devices = [{"name": f"d{at}{it}", "consumesCounters": takes} for it in range(2)]
        publish(world, f"s{at}", nodeName=f"n{at}", devices=devices, **common)
    devices = [{"name": f"e{it}"} for it in range(2)]
    publish(world, "own", driver="net.example.com", nodeName="n2", devices=devices)
    ask(world, "two", of="net", count=2)
    world.put("PodGroup", "pg", "team", spec={"minMember": 2, "queue": "team"})
    for at in range(2):
        world.pod(f"p{at}", "team", "two", group="pg")
    assert places(world, 1) == ["n1", "n2"]


def test_amounts_of_a_shared_device_are_rounded_up_to_those_that_it_gives():
    """Three of a device that gives one, two, four or eight are four: two claims have eight."""
    world = World(team=0)
    plain_node(world, "n1", 9)
    policy = {"default": "1", "validValues": ["1", "2", "4", "8"]}
    units = {"units": {"value": "10", "requestPolicy": policy}}
    device = {"name": "d0", "allowMultipleAllocations": True, "capacity": units}
    publish(world, "n1", nodeName="n1", devices=[device])
    ask(world, "three", capacity={"requests": {"units": "3"}})
    pods(world, "three", "a", "b", "c")
    assert places(world) == ["", "n1", "n1"]
    given = [it.status.allocation for it in world.claims() if it.status.allocation]
    assert [it.devices.results[0].consumed_capacity for it in given] == [{"units": "4"}] * 2


def test_a_pool_that_is_being_updated_gives_no_devices_and_takes_none_back():
    world = World(team=0)
    plain_node(world, "n1", 9)
    ask(world, "one")
    one, other = (
        {"pool": "n1", "nodeName": "n1", "devices": [{"name": it}]} for it in ("d0", "d1")
    )
    publish(world, "s0", slices=2, **one)
    pods(world, "one", "a")
    assert places(world, 1) == [""]  # one of two slices is there
    publish(world, "s1", slices=2, **other)
    assert places(world, 1) == ["n1"]
    publish(world, "s0", slices=2, generation=2, **one)
    pods(world, "one", "b")
    assert places(world, 1) == ["", "n1"]
    publish(world, "s1", slices=2, generation=2, **other)
    assert places(world, 1) == ["n1", "n1"]
    assert sorted(world.devices("a-one") + world.devices("b-one")) == ["n1/d0", "n1/d1"]
