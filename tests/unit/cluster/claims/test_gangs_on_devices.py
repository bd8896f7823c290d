"""Gangs with claims start whenever some choice of devices lets all of their pods start."""

import random
from itertools import combinations
from uuid import NAMESPACE_DNS, uuid5

import pytest

from tests.unit.cluster.claims.test_shared_devices import shared_node, template
from tests.unit.cluster.claims.worlds import World

SIZE = 12


def gang(world, name, *templates):
    """Add a gang with a pod for each template."""
    world.put("PodGroup", name, "team", spec={"minMember": len(templates), "queue": "team"})
    for number, each in enumerate(templates):
        world.pod(f"{name}-{number}", "team", each, group=name)


def bound(world, name="g"):
    return [pod for pod, node in world.nodes.items() if node and pod.startswith(f"{name}-")]


def test_three_pods_with_halves_of_two_devices_start_on_three():
    """They fit on the devices (A, B), (B, C) and (A, C)."""
    world = World(team=9)
    shared_node(world, "n1", SIZE, SIZE, SIZE)
    template(world, "halves", "6Gi", 2)
    gang(world, "g", "halves", "halves", "halves")
    world.cycle()
    assert len(bound(world)) == 3
    pairs = sorted(sorted(world.devices(f"g-{at}-halves")) for at in range(3))
    assert pairs == [[f"n1/gpu-{a}", f"n1/gpu-{b}"] for a, b in ((0, 1), (0, 2), (1, 2))]


def test_a_pod_that_takes_any_device_leaves_the_only_h100_to_another():
    world = World(team=9)
    world.node("n1", "H100", "L4")
    world.template("any")
    world.template("h100", model="H100")
    gang(world, "g", "any", "h100")
    world.cycle()
    assert world.devices("g-0-any") == ["n1/gpu-1"]
    assert world.devices("g-1-h100") == ["n1/gpu-0"]


def test_a_gang_waits_whole_for_devices_that_are_being_released():
    world = World(team=9, other=0)
    world.node("n1", "H100", "L4")
    world.template("any")
    world.template("h100", model="H100")
    world.pod("old", "other", "any")
    world.cycle()
    gang(world, "g", "any", "h100")
    world.cycle()
    world.cycle()
    assert len(bound(world)) == 2


def drawn(rng):
    """Return what is held of the devices of nodes, in GiB, and the pods of a gang."""
    nodes = [
        [rng.choice([0, 0, 3, 4, 6, 8, 9]) for _ in range(rng.randint(1, 3))]
        for _ in range(rng.randint(1, 2))
    ]
    kinds = [(rng.choice([3, 4, 6, 8]), rng.choice([1, 2, 2])) for _ in range(rng.randint(1, 2))]
    return nodes, [rng.choice(kinds) for _ in range(rng.randint(2, 4))]


def fits(nodes, pods):
    """Tell by trying everything whether pods fit; nodes are lists of what is held of devices."""
    if not pods:
        return True
    (part, count), rest = pods[0], pods[1:]
    for at, held in enumerate(nodes):
        tried = set()
        for some in combinations(range(len(held)), count):
            after = tuple(has + part * (it in some) for it, has in enumerate(held))
            if max(after[it] for it in some) > SIZE or tuple(sorted(after)) in tried:
                continue
            tried.add(tuple(sorted(after)))
            if fits([*nodes[:at], after, *nodes[at + 1 :]], rest):
                return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_starts_just_if_trying_everything_finds_a_way(seed):
    nodes, pods = drawn(random.Random(seed))
    world = World(team=99)
    for number, held in enumerate(nodes):
        shared_node(world, f"n{number}", *[SIZE] * len(held))
    hold(world, nodes)
    for part, count in set(pods):
        template(world, f"t-{part}-{count}", f"{part}Gi", count)
    gang(world, "g", *(f"t-{part}-{count}" for part, count in pods))
    world.cycle()
    assert len(bound(world)) == (len(pods) if fits(nodes, pods) else 0)


def hold(world, nodes):
    """Let claims have parts of devices."""
    for number, held in enumerate(nodes):
        for at, part in enumerate(held):
            if part:
                allocated(world, f"n{number}", f"gpu-{at}", part)


def allocated(world, node, device, part):
    """Add a claim that has a part of a device, and a running pod that uses it."""
    name = f"held-{node}-{device}"
    user = {"resource": "pods", "name": name, "uid": name}
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "capacity": {"requests": {"memory": f"{part}Gi"}},
    }
    has = {
        "request": "gpu",
        "driver": "gpu.nvidia.com",
        "pool": node,
        "device": device,
        "consumedCapacity": {"memory": f"{part}Gi"},
        "shareID": str(uuid5(NAMESPACE_DNS, name)),
    }
    world.put(
        "ResourceClaim",
        name,
        "team",
        spec={"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        status={"allocation": {"devices": {"results": [has]}}, "reservedFor": [user]},
    )


def test_reclaim_frees_what_a_gang_with_parts_of_several_devices_needs():
    """Queue team has a quota of 3: its gang gets the three devices of the other queue's pods."""
    world = World(team=3, other=0)
    shared_node(world, "n1", SIZE, SIZE, SIZE)
    world.template("whole")
    for name in ("x", "y", "z"):
        world.pod(name, "other", "whole")
    world.cycle()
    template(world, "halves", "6Gi", 2)
    gang(world, "g", "halves", "halves", "halves")
    result = world.cycle()
    assert sorted(it.pod for it in result.evictions) == ["team/x", "team/y", "team/z"]
    world.cycle()
    assert len(bound(world)) == 3
