"""Searches whose pods are jobs of their own, and the quota that a project has in its pools."""

import pytest

from tests.contract.clusters import pod
from tests.unit.cluster.pools.test_lists import search
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in


def placed(world, *names):
    return sum(world.node_of(name) != "" for name in names)


def trials(size):
    return [f"t-{number}" for number in range(size)]


def evicted(world):
    return [it.pod for it in world.cluster.history if it.what == "evicted"]


def one_pool(gpus, quota=0):
    world = World("default")
    world.load(node_in("default", "n0", gpus), queue_in("default", "a", quota))
    return world


def test_pods_of_a_search_start_one_by_one_as_room_comes_free():
    world = one_pool(3)
    search(world, 5, "default")
    world.cycle()
    assert placed(world, *trials(5)) == 3
    world.delete(world.cluster.pod("ns/t-0"))
    world.run_to(10)
    assert placed(world, *trials(5)[1:]) == 3


def test_a_pod_of_a_search_goes_and_the_others_are_unaffected():
    world = one_pool(4)
    search(world, 4, "default")
    world.cycle()
    assert placed(world, *trials(4)) == 4
    world.load(queue_in("default", "b", 1), pod("x", "b", uid="x"))
    world.run_to(40)
    (gone,) = evicted(world)
    others = {f"ns/{name}" for name in trials(4)} - {gone}
    assert {it.key for it in world.cluster.pods()} == others | {"ns/x"}
    assert world.node_of("x") == "n0"


def test_pods_of_a_search_may_have_parts_of_gpus():
    world = one_pool(2)
    half = {"gpu-fraction": "0.5"}
    search(world, 5, "default", annotations=half, spec={"containers": [{}]})
    world.cycle()
    assert placed(world, *trials(5)) == 4


POOLS = ("h100", "a100")


def quotas_in_pools():
    """The project ``a`` has 4 in both pools, in a department; another holds all beyond quota."""
    world = World(*POOLS)
    for name, at in zip(POOLS, ("h0", "a0"), strict=True):
        world.load(
            node_in(name, at, 4),
            queue_in(name, f"dept-{name}", 4, project="dept"),
            queue_in(name, f"a-{name}", 4, parent=f"dept-{name}", project="a"),
            queue_in(name, f"b-{name}", 0, project="b"),
        )
        for number in range(4):
            guest = f"{name}-{number}"
            world.load(pod(guest, f"b-{name}", labels={POOL: name}, uid=guest))
    world.cycle()
    assert placed(world, *(f"{name}-{number}" for name in POOLS for number in range(4))) == 8
    return world


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("pools", "goes"), [("h100", "h100"), ("a100", "a100"), ("a100, h100", "a100")]
)
def test_a_project_gets_its_quota_in_the_first_pool_that_it_names(pools, goes):
    world = quotas_in_pools()
    world.load(listed("x", pools, 4, "a-h100"))
    world.run_to(40)
    assert world.node_of("x") == {"h100": "h0", "a100": "a0"}[goes]
    assert sorted(evicted(world)) == [f"ns/{goes}-{number}" for number in range(4)]


@pytest.mark.proportion
def test_where_its_quota_is_used_it_gets_that_of_the_next_pool_of_the_list():
    world = quotas_in_pools()
    world.load(listed("x", "h100,a100", 4, "a-h100"), listed("y", "h100,a100", 4, "a-h100"))
    world.run_to(60)
    assert {world.node_of("x"), world.node_of("y")} == {"h0", "a0"}
    assert len(evicted(world)) == 8
