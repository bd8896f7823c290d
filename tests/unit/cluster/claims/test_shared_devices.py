"""Parts of devices: how many fit, and what they count in queues and on nodes."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from kaisched.cluster.claims.gpus import SharedDevices
from kaisched.core.claims.model import Capacity, Device, Quantity, nanos_of
from kaisched.core.claims.selectors import DeviceClass
from kaisched.core.claims.table import Gpus, measure_of
from kaisched.units import CLAIMED_GPU
from tests.unit.cluster.claims.worlds import DRIVER, World, asking


def shared_node(world, name, *sizes, **more):
    """Add a node with shared devices of so many GiB."""
    devices = [
        {
            "name": f"gpu-{at}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": f"{size}Gi"}},
            **more,
        }
        for at, size in enumerate(sizes)
    ]
    world.node(name, *["H100"] * len(sizes), devices=devices)


def template(world, name, memory, count=1):
    spec = asking(count)
    spec["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": memory}}
    world.put("ResourceClaimTemplate", name, "team", spec={"spec": spec})


def counts(world, name):
    """Return what a pod takes of its node and what it counts in its queue, in thousandths."""
    snapshot = world.cluster.snapshot()
    # A pod that asks for other amounts than before has a new row, after the old one.
    task = max(at for at, it in enumerate(snapshot.tasks.name) if it == f"team/{name}")
    shape = snapshot.tasks.shape_of_task[task]
    gpu, claimed = 2, snapshot.axis.position[CLAIMED_GPU]
    shapes = snapshot.shapes
    assert shapes.request[gpu, shape] == 0
    return int(shapes.request[claimed, shape]), int(shapes.charge[gpu, shape])


def fullness(world):
    """Return what claims have of the memory of each device, as parts of it."""
    sizes = {
        f"{it.spec.pool.name}/{device.name}": nanos_of(device.capacity["memory"].value)
        for it in world.slices.values()
        for device in it.spec.devices
    }
    full = Counter()
    for claim in world.claims():
        given = claim.status.allocation
        for it in given.devices.results if given else ():
            name = f"{it.pool}/{it.device}"
            full[name] += Fraction(nanos_of(it.consumed_capacity["memory"]), sizes[name])
    return full


def device(**capacities):
    of = {name: Capacity(Quantity(nanos)) for name, nanos in capacities.items()}
    return Device(DRIVER, "p", "d", capacities=of, is_shared=True)


@pytest.mark.parametrize(
    ("consumed", "gpus"),
    [
        (3000, Gpus(1000, 1000)),
        (1500, Gpus(500, 500)),
        (1000, Gpus(333, 333)),
        (500, Gpus(166, 167)),
        (1, Gpus(0, 1)),
        (0, Gpus(0, 1)),
    ],
)
def test_a_part_is_rounded_down_on_its_node_and_to_the_nearest_in_its_queue(consumed, gpus):
    measure = measure_of(device(memory=3000, cores=7))
    assert measure.part({"memory": consumed, "cores": 7}) == gpus


def test_a_device_without_memory_is_measured_by_its_first_capacity():
    assert measure_of(device(shares=10, alpha=4)) == ("alpha", 4)
    assert measure_of(device()).part({}) == Gpus(0, 1)


def test_amounts_refuse_nothing_that_a_device_has_room_for():
    """Six sixths are 1002 thousandths if each is rounded to the nearest."""
    world = World(team=4)
    shared_node(world, "n1", 60)
    template(world, "sixth", "10Gi")
    for at in range(7):
        world.pod(f"p{at}", "team", "sixth")
    assert counts(world, "p0") == (166, 167)
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 6, "": 1}
    assert {counts(world, it) for it, node in world.nodes.items() if node} == {(166, 167)}


def test_the_smallest_device_counts_until_one_is_chosen():
    world = World(team=1)
    shared_node(world, "n1", 40, 40)
    shared_node(world, "n2", 80)
    template(world, "big", "60Gi")
    template(world, "part", "20Gi")
    world.pod("a", "team", "big")
    world.pod("b", "team", "part")
    assert counts(world, "a") == (750, 750)  # the smaller ones cannot give so much
    assert counts(world, "b") == (250, 500)
    world.cycle()
    assert world.nodes["a"] == "n2"
    assert counts(world, "b") == ((500, 500) if world.nodes["b"] == "n1" else (250, 250))


def test_a_limit_counts_parts():
    world = World(others=0)
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 0, "limit": 1}}})
    shared_node(world, "n1", 80, 80)
    template(world, "part", "32Gi")
    for name in "abc":
        world.pod(name, "team", "part")
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 2, "": 1}
    [waiting] = [it for it, node in world.nodes.items() if not node]
    reason, message = world.reason(waiting)
    assert reason == "OverLimit"
    assert "0.8" in message


def test_a_whole_device_and_parts_do_not_meet():
    world = World(team=4)
    shared_node(world, "n1", 80, 80)
    world.template("whole")
    template(world, "half", "40Gi")
    world.pod("a", "team", "half")
    world.pod("b", "team", "whole")
    world.pod("c", "team", "whole")
    world.cycle()
    assert counts(world, "b") == (1000, 1000)
    assert world.nodes["a"] == "n1"
    assert sorted([world.nodes["b"], world.nodes["c"]]) == ["", "n1"]
    assert sorted(fullness(world).values()) == [Fraction(1, 2), 1]


def test_a_part_counts_as_before_while_its_driver_publishes_nothing():
    world = World(team=4)
    shared_node(world, "n1", 80)
    template(world, "half", "40Gi")
    world.pod("a", "team", "half")
    world.cycle()
    world.cluster.delete(world.slices["n1-gpus"])
    assert counts(world, "a") == (500, 500)


def test_devices_that_come_and_go_are_not_remembered_for_ever():
    shared = SharedDevices()
    classes = {DRIVER: DeviceClass(DRIVER, ())}
    first, other = (replace(device(memory=4), name=it) for it in ("first", "other"))
    half = {"memory": 2}
    assert shared.part(first.identity, half) == Gpus(1000, 1000)
    used = {first.identity}
    assert shared.count(classes, [[first]], lambda: used)  # its part counts from now on
    assert not shared.count(classes, [[first, other]], lambda: used)  # nobody has any of the other
    shared.count(classes, [], lambda: used)
    assert shared.part(first.identity, half) == Gpus(500, 500)
    assert shared.part(other.identity, half) == Gpus(1000, 1000)
    used.clear()
    shared.count(classes, [], lambda: used)
    assert shared.part(first.identity, half) == Gpus(1000, 1000)
