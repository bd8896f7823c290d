"""Evictions for claims on devices: only what really frees devices goes, and it goes whole."""

import pytest

from tests.unit.cluster.claims.worlds import DRIVER, World, asking, of_model


def evicted(world, cycles):
    """Return the pods that each of the next cycles evicts."""
    return [sorted(it.pod for it in world.cycle().evictions) for _ in range(cycles)]


def sharing(*, at_once):
    """Return a cluster whose only device two pods of one queue share, and another queue wants."""
    world = World(a=0, b=1)
    world.node("n1", "H100")
    world.claim("shared")
    world.template("one")
    world.pod("p1", "a", claim="shared")
    world.cycle()
    world.pod("p2", "a", claim="shared")
    if at_once:
        world.cycle()
    world.pod("b1", "b", "one")
    return world


@pytest.mark.parametrize("at_once", [True, False])
def test_the_users_of_a_claim_go_together_or_not_at_all(at_once):
    """Else each would come back to the claim of the other, and be evicted again, for ever."""
    world = sharing(at_once=at_once)
    both = ["team/p1", "team/p2"]
    assert evicted(world, 4) == ([both, [], [], []] if at_once else [[], both, [], []])
    assert world.nodes == {"b1": "n1", "p1": "", "p2": ""}


def test_nobody_joins_a_claim_whose_devices_are_promised():
    world = sharing(at_once=True)
    world.cycle(for_s=0.5)  # both are leaving
    world.pod("p3", "a", claim="shared")
    assert not world.cycle().binds
    assert [it.pod for it in world.cycle().binds] == ["team/b1"]


def test_a_claim_that_others_use_frees_nothing():
    """What no pod is known of uses it too: the claim says how many it is reserved for."""
    world = World(a=0, b=1)
    world.node("n1", "H100")
    world.claim("shared")
    world.template("one")
    world.pod("p1", "a", claim="shared")
    world.cycle()
    [claim] = [it for it in world.claims() if it.name == "shared"]
    claim.status.reserved_for.append(claim.status.reserved_for[0].__class__(name="x", uid="other"))
    world.cluster.load([claim])
    world.pod("b1", "b", "one")
    assert evicted(world, 2) == [[], []]
    assert world.reason("b1")[0] == "NoRoom"


def test_devices_of_a_claim_without_users_are_promised_to_nobody():
    """Whoever has given them has not taken them back, so they do not become free."""
    world = World(b=2)
    world.node("n1", "H100", "H100")
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    given = {"allocation": {"devices": {"results": [result]}}}
    world.put("ResourceClaim", "kept", "team", spec=asking(), status=given)
    world.template("one")
    world.template("two", 2)
    world.pod("b1", "b", "one")
    world.cycle()
    assert world.devices("b1-one") == ["n1/gpu-1"]
    world.cluster.delete(world.cluster.pod("team/b1"))
    world.pod("b2", "b", "two")
    done = world.cycle(for_s=0.5)
    assert (list(done.binds), list(done.nominations)) == ([], [])


def test_devices_of_a_victim_that_stays_are_promised_to_nobody():
    """A choice counts as its smallest way in sums; its devices may need a victim all the same."""
    world = World(a=0, b=2)
    world.node("n1", "H100", "L4", "L4")
    world.template("h", model="H100")
    world.template("l", model="L4")
    ways = [
        {"name": "big", "deviceClassName": DRIVER, "count": 1, **of_model("H100")},
        {"name": "small", "deviceClassName": DRIVER, "count": 2, **of_model("L4")},
    ]
    asked = {"devices": {"requests": [{"name": "gpu", "firstAvailable": ways}]}}
    world.put("ResourceClaimTemplate", "choice", "team", spec={"spec": asked})
    world.pod("p1", "a", "h")
    world.pod("p2", "a", "l")
    world.cycle()
    world.pod("b1", "b", "choice")
    assert [len(it) for it in evicted(world, 3)] == [1, 0, 0]
    assert world.nodes["b1"] == "n1"


def choosing(world, name, *counts):
    """Add a template for the first of several numbers of devices that can be had."""
    ways = [{"name": f"of-{it}", "deviceClassName": DRIVER, "count": it} for it in counts]
    asked = {"devices": {"requests": [{"name": "gpu", "firstAvailable": ways}]}}
    world.put("ResourceClaimTemplate", name, "team", spec={"spec": asked})


def test_nobody_is_evicted_for_a_claim_that_then_has_more_than_its_share():
    """Each would get both devices, and lose them to the other again, for ever."""
    world = World(a=1, b=1)
    world.node("n1", "H100", "H100")
    choosing(world, "choice", 2, 1)
    world.pod("a1", "a", "choice")
    world.cycle()
    assert len(world.devices("a1-choice")) == 2
    world.pod("b1", "b", "choice")
    assert evicted(world, 6) == [[]] * 6
    assert world.reason("b1")[0] == "NoRoom"
    assert "its claims would get more GPUs than they count for" in world.reason("b1")[1]
    world.template("one")
    world.pod("b2", "b", "one")
    assert evicted(world, 2) == [["team/a1"], []]
    world.cycle()
    # a1 comes back with what is left for it
    assert (world.nodes["a1"], world.nodes["b2"]) == ("n1", "n1")
    assert len(world.devices("a1-choice")) == 1


@pytest.mark.proportion
def test_so_it_is_where_the_policy_orders_the_victims():
    world = World()
    world.put("Queue", "root", spec={"resources": {"gpu": {"quota": 0}}})
    for name in "ab":
        spec = {"parentQueue": "root", "resources": {"gpu": {"quota": 1}}}
        world.put("Queue", name, spec=spec)
    world.policy(proportion={"enabled": False}, **{"fair-sharing": {"enabled": True}})
    world.node("n1", "H100", "H100")
    choosing(world, "choice", 2, 1)
    world.pod("a1", "a", "choice")
    world.cycle()
    world.pod("b1", "b", "choice")
    assert evicted(world, 6) == [[]] * 6
    assert "its claims would get more GPUs than they count for" in world.reason("b1")[1]


def test_a_claim_on_more_than_it_counts_for_may_be_cleared_within_the_share():
    world = World(a=0, b=2)
    world.node("n1", "H100", "H100")
    world.template("one")
    choosing(world, "choice", 2, 1)
    world.pod("a1", "a", "one")
    world.pod("a2", "a", "one")
    world.cycle()
    world.pod("b1", "b", "choice")
    for _ in range(4):
        world.cycle()
    assert world.nodes["b1"] == "n1"


def test_devices_that_a_claim_only_looks_at_are_none_that_it_gets():
    """Access for administrators counts for nothing, also where others are evicted for the pod."""
    world = World(a=0, b=1)
    world.node("n1", "H100", "H100")
    world.template("one")
    world.pod("a1", "a", "one")
    world.pod("a2", "a", "one")
    world.cycle()
    asked = asking()
    exactly = {"deviceClassName": DRIVER, "count": 1, "adminAccess": True}
    asked["devices"]["requests"].append({"name": "seen", "exactly": exactly})
    world.put("ResourceClaimTemplate", "watch", "team", spec={"spec": asked})
    world.pod("b1", "b", "watch")
    assert [len(it) for it in evicted(world, 3)] == [1, 0, 0]
    assert world.nodes["b1"] == "n1"
    assert len(world.devices("b1-watch")) == 2


def test_reclaim_takes_devices_that_go_together():
    """Of four single devices the two of one half of the node, not the two youngest."""
    world = World(a=0, b=2)
    world.node("n1", "x", "y", "x", "y")
    world.template("one")
    for at in range(4):
        world.pod(f"a{at}", "a", "one")
        world.cycle()
    world.template("two", 2, constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    world.pod("b1", "b", "two")
    assert evicted(world, 3) == [["team/a1", "team/a3"], [], []]
    assert world.devices("b1-two") == ["n1/gpu-1", "n1/gpu-3"]


def full(quota_a, quota_b):
    """Return a cluster full of one queue, whose younger pods have the devices that nobody wants."""
    world = World(a=quota_a, b=quota_b)
    for node in range(2):
        world.node(f"n{node}", *["H100"] * 4, *["L4"] * 4)
    for model in ("H100", "L4"):
        world.template(model.lower(), model=model)
        for at in range(8):
            world.pod(f"{model.lower()}-{at}", "a", model.lower())
            world.cluster.advance_to(world.cluster.clock.now_s() + 1)
    while not all(world.nodes.values()):
        world.cycle()
    return world


@pytest.mark.parametrize(("quota_b", "pods", "count"), [(8, 3, 1), (2, 2, 1), (2, 1, 2)])
def test_pods_whose_devices_do_not_do_for_a_claim_stay(quota_b, pods, count):
    """They free GPUs by amounts, and would use up what their queue may lose."""
    world = full(16 - quota_b, quota_b)
    world.template("wanted", count, model="H100")
    world.put("PodGroup", "pg", "team", spec={"minMember": pods, "queue": "b"})
    for at in range(pods):
        world.pod(f"b{at}", "b", "wanted", group="pg")
    [gone, *later] = evicted(world, 3)
    assert len(gone) == pods * count
    assert all(name.startswith("team/h100") for name in gone)
    assert later == [[], []]
    assert all(world.nodes[f"b{at}"] for at in range(pods))
