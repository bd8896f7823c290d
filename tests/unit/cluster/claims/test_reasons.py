"""Why a pod with claims waits: the class, the request and the claim are named, with numbers."""

import pytest

from tests.unit.cluster.claims.worlds import DRIVER, World

GENERAL = "too few devices are free for its claims"


@pytest.fixture
def world():
    """Two nodes with two and three devices."""
    world = World(a=10)
    world.node("n0", "h100", "h100")
    world.node("n1", "a100", "a100", "a100")
    return world


def refusals(world, name):
    return [(it.nodes, it.reason, it.detail) for it in record(world, name).node_misses]


def record(world, name):
    (found,) = [it for it in world.result.records if f"-{name}-" in it.pod_group]
    return found


def test_what_is_free_is_told_where_enough_would_do(world):
    world.template("two", 2)
    for name in "abc":
        world.pod(name, "a", "two")
    world.cycle()
    waits = next(name for name in "abc" if not world.nodes[name])
    text = f"{GENERAL}: at most 1 of class {DRIVER} for request gpu, 2 asked"
    assert refusals(world, waits) == [(2, "Devices", text)]
    assert f"2 {text}" in record(world, waits).message


def test_a_node_that_is_alone_is_named(world):
    world.template("three", 3)
    world.pod("a", "a", "three")
    world.cycle()
    world.pod("b", "a", "three")
    world.cycle()
    few = f"too few devices suit its claims: node n0 has 2 of class {DRIVER}"
    none = f"{GENERAL}: node n1 has none of class {DRIVER}"
    assert refusals(world, "b") == [
        (1, "Devices", f"{none} for request gpu, 3 asked"),
        (1, "Devices", f"{few} for request gpu, 3 asked"),
    ]


def test_a_selector_that_no_device_meets_is_told_apart_from_devices_that_are_taken(world):
    world.template("b200", 1, "b200")
    world.pod("a", "a", "b200")
    world.cycle()
    text = f"no device of class {DRIVER} suits request gpu"
    assert refusals(world, "a") == [(2, "Devices", text)]


def test_a_claim_that_several_pods_use_is_named(world):
    world.claim("shared", 4)
    for name in "ab":
        world.pod(name, "a", claim="shared")
    world.cycle()
    text = "too few devices suit its claims: at most 3"
    assert refusals(world, "a") == [
        (2, "Devices", f"{text} of class {DRIVER} for request gpu of claim shared, 4 asked")
    ]


def test_what_is_more_than_a_plain_request_is_told_as_a_whole(world):
    same = {"requests": ["gpu"], "matchAttribute": f"{DRIVER}/index"}
    world.template("alike", 2, "h100", constraints=[same])
    world.pod("a", "a", "alike")
    world.cycle()
    text = f"{GENERAL}: 2 of {DRIVER} that match, the same {DRIVER}/index"
    assert refusals(world, "a") == [(2, "Devices", text)]


def test_alternatives_are_told_with_or(world):
    choice = [
        {"name": name, "deviceClassName": DRIVER, **how}
        for name, how in (
            ("x", {"count": 9}),
            ("y", {"allocationMode": "All", "selectors": [{"cel": {"expression": "false"}}]}),
        )
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": choice}]}}
    world.put("ResourceClaim", "c", "team", spec=spec)
    world.pod("a", "a", claim="c")
    world.cycle()
    text = f"{GENERAL}: 9 of {DRIVER} or all of {DRIVER} that match"
    assert refusals(world, "a") == [(2, "Devices", text)]


def test_nodes_that_are_left_to_the_pods_of_a_shared_claim_are_not_said_to_lack_devices(world):
    """Where one node is left for all its users, the others are not out of devices."""
    world.claim("shared", 1)
    for name in "ab":
        world.pod(name, "a", claim="shared")
    for number in range(2):
        world.put(
            "Pod",
            f"full-{number}",
            "team",
            spec={
                "nodeName": f"n{number}",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 64}}}],
            },
            status={"phase": "Running"},
        )
    world.cycle()
    found = refusals(world, "a")
    assert sum(nodes for nodes, *_ in found) == 2
    assert all(text == GENERAL or text.startswith("cpu short") for _, _, text in found)
