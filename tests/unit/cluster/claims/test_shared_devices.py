"""Parts of devices: how many fit, and what they count in queues and on nodes."""

import random
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


def test_two_halves_share_a_device_and_the_third_waits():
    world = World(team=4)
    shared_node(world, "n1", 80)
    template(world, "half", "40Gi")
    for name in "abc":
        world.pod(name, "team", "half")
    assert counts(world, "a") == (500, 500)
    world.cycle()
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n1"]
    assert fullness(world) == {"n1/gpu-0": 1}
    [waiting] = [it for it, node in world.nodes.items() if not node]
    assert world.reason(waiting)[0] == "NoRoom"


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


def test_shares_of_two_devices_are_on_two():
    world = World(team=4)
    shared_node(world, "n1", 80)
    shared_node(world, "n2", 80, 80)
    template(world, "pair", "40Gi", 2)
    world.pod("a", "team", "pair")
    assert counts(world, "a") == (1000, 1000)
    # A device may be had twice by one claim: Kubernetes looks at each device once for a request.
    world.cycle()
    assert world.devices("a-pair") == ["n2/gpu-0", "n2/gpu-1"]


def test_parts_are_reclaimed_and_only_as_many_as_needed():
    world = World(a=1, b=1)
    shared_node(world, "n1", 80, 80)
    template(world, "half", "40Gi")
    for at in range(4):
        world.pod(f"a{at}", "a", "half")
    world.cycle()
    world.pod("b1", "b", "half")
    result = world.cycle()
    assert [it.action for it in result.evictions] == ["reclaim"]
    world.cycle()
    assert world.nodes["b1"] == "n1"
    assert sum(map(bool, world.nodes.values())) == 4


def test_a_gang_of_parts_starts_whole_or_not_at_all():
    world = World(team=9)
    shared_node(world, "n1", 80)
    template(world, "half", "40Gi")
    world.put("PodGroup", "pg", "team", spec={"minMember": 3, "queue": "team"})
    for name in "abc":
        world.pod(name, "team", "half", group="pg")
    world.cycle()
    assert set(world.nodes.values()) == {""}
    assert fullness(world) == {}
    shared_node(world, "n2", 80)
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 2, "n2": 1}


def test_a_part_counts_as_before_while_its_driver_publishes_nothing():
    world = World(team=4)
    shared_node(world, "n1", 80)
    template(world, "half", "40Gi")
    world.pod("a", "team", "half")
    world.cycle()
    world.cluster.delete(world.slices["n1-gpus"])
    assert counts(world, "a") == (500, 500)


@pytest.mark.parametrize("seed", range(6))
def test_in_any_history_no_device_is_overfull(seed):
    chance = random.Random(f"parts {seed}")
    world = World(a=2, b=2)
    for at in range(3):
        shared_node(world, f"n{at}", *chance.choices([40, 80], k=chance.randrange(1, 4)))
    world.template("whole")
    for size in (5, 20, 27, 40):
        template(world, f"of-{size}", f"{size}Gi")
    template(world, "pair", "13Gi", 2)
    for step in range(12):
        for _ in range(chance.randrange(4)):
            name = f"p{step}{chance.randrange(1000)}"
            kinds = ["whole", "of-5", "of-20", "of-27", "of-40", "pair"]
            world.pod(name, chance.choice("ab"), chance.choice(kinds))
        running = [it for it, node in world.nodes.items() if node]
        if running and chance.random() < 0.4:
            world.delete(chance.choice(running))
        world.cycle(for_s=chance.choice([0.5, 2.0]))
        assert all(it <= 1 for it in fullness(world).values())
    for name in list(world.nodes):
        world.delete(name)
    world.cluster.advance_to(world.cluster.clock.now_s() + 10)
    assert list(world.claims()) == []


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
