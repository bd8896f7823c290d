"""A request for all devices of a node counts for the fewest it can get, then for what it got."""

import pytest

from kaisched.cluster.kubernetes.statuses import QueueStatuses
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.units import CLAIMED_GPU
from tests.unit.cluster.claims.worlds import DRIVER, World, of_model


def world_with(*nodes, limit=-1):
    world = World(others=0)
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 0, "limit": limit}}})
    for at, models in enumerate(nodes):
        world.node(f"n{at}", *models)
    return world


def ask_for_all(world, *names, model="", **more):
    exactly = {"deviceClassName": DRIVER, "allocationMode": "All"} | more
    if model:
        exactly |= of_model(model)
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    world.put("ResourceClaimTemplate", "all", "team", spec={"spec": spec})
    for name in names:
        world.pod(name, "team", "all")


def counted(world, name):
    """Return the GPUs by claim with which a pod counts."""
    world.cluster.snapshot()
    return world.cluster.store.pods.pod(f"team/{name}").request.get(CLAIMED_GPU, 0) // 1000


def test_on_equal_nodes_the_number_is_known_beforehand():
    world = world_with(["H100"] * 4, ["H100"] * 4, limit=7)
    ask_for_all(world, "a", "b")
    assert [counted(world, it) for it in "ab"] == [4, 4]
    world.cycle()  # 4 + 4 are more than 7
    assert sorted(map(bool, world.nodes.values())) == [False, True]
    [waiting] = [it for it, node in world.nodes.items() if not node]
    reason, message = world.reason(waiting)
    assert reason == "OverLimit"
    assert "4" in message
    assert "7" in message


def test_on_other_nodes_the_fewest_count_until_a_node_is_chosen():
    world = world_with(["H100"] * 2, ["H100"] * 5, limit=6)
    ask_for_all(world, "a", "b")
    assert [counted(world, it) for it in "ab"] == [2, 2]
    world.cycle()  # 2 + 2 are within 6; they get 2 + 5
    assert all(world.nodes.values())
    assert sorted(counted(world, it) for it in "ab") == [2, 5]
    assert {counted(world, it) for it, node in world.nodes.items() if node == "n1"} == {5}
    world.node("n9", "H100", "H100")
    world.pod("c", "team", "all")
    world.cycle()  # 7 are held of 6: the third waits
    assert world.nodes["c"] == ""
    assert world.reason("c")[0] == "OverLimit"


def test_only_devices_that_match_count():
    world = world_with(["L4", "H100", "H100"], ["L4"] * 8, ["H100"] * 3)
    ask_for_all(world, "a", model="H100")
    assert counted(world, "a") == 2  # n1 has none of them, n0 has two, n2 three


def test_nodes_with_more_devices_than_a_claim_may_have_do_not_count():
    world = world_with(["H100"] * 33, ["H100"] * 33)
    ask_for_all(world, "a")
    assert counted(world, "a") == 1
    world.node("n2", *["H100"] * 32)
    assert counted(world, "a") == 32


def test_what_nodes_offer_later_counts_too():
    world = world_with(["H100"] * 4)
    ask_for_all(world, "a")
    assert counted(world, "a") == 4
    world.node("n7", *["H100"] * 3)
    assert counted(world, "a") == 3


@pytest.mark.parametrize(("tolerations", "number"), [([], 6), ([{"operator": "Exists"}], 2)])
def test_tainted_devices_count_where_they_are_tolerated(tolerations, number):
    world = world_with(["H100"] * 6)
    taints = [{"key": "sick", "effect": "NoSchedule"}]
    devices = [{"name": f"gpu-{at}", "taints": taints} for at in range(2)]
    world.node("n3", "H100", "H100", devices=devices)
    ask_for_all(world, "a", tolerations=tolerations)
    assert counted(world, "a") == number


def test_access_by_an_administrator_counts_nothing():
    world = world_with(["H100"] * 4)
    ask_for_all(world, "a", adminAccess=True)
    assert counted(world, "a") == 0


def test_a_node_with_more_devices_than_a_claim_may_have_does_not_count():
    world = world_with(["H100"] * 33, ["H100"] * 32)
    ask_for_all(world, "a")
    assert counted(world, "a") == 32


def test_a_reclaim_for_all_devices_asks_for_what_they_are():
    world = world_with(["H100"] * 4)
    world.put("Queue", "team", spec={"resources": {"gpu": {"quota": 4}}})
    world.template("one")
    for at in range(4):
        world.pod(f"o{at}", "others", "one")
    world.cycle()
    ask_for_all(world, "a")
    result = world.cycle()
    assert len(result.evictions) == 4  # not one, which would free too little
    world.cycle()
    assert world.nodes["a"] == "n0"
    assert counted(world, "a") == 4


def test_what_it_got_counts_from_the_decision_on():
    world = world_with(["H100"] * 2, ["H100"] * 5)
    world.put("Node", "n0", spec={"unschedulable": True}, status={"allocatable": {"cpu": 1}})
    ask_for_all(world, "a")
    store = world.cluster.store
    decided, _ = run_cycle(world.cluster.snapshot(), None, world._policy, 0.0, Memory())
    [bind] = decided.binds
    assert bind.node == "n1"
    assert counted(world, "a") == 2
    claims = store.device_claims
    claims.assume(store.pods.pod(bind.pod), dict(bind.claims), lambda: "share")
    store.look_again(sorted(claims.generated.changed))
    assert counted(world, "a") == 5  # the claim does not show its devices yet


def test_devices_that_were_given_count_anew_if_their_class_no_longer_counts():
    world = world_with(["H100"] * 2)
    world.template("one")
    world.pod("a", "team", "one")
    world.cycle()
    assert counted(world, "a") == 1
    world.node("n5", "H100", nodeName="", allNodes=True)
    # Devices that any node can use: nobody can say how many GPUs of the class a node has.
    assert counted(world, "a") == 0


def test_the_status_of_a_queue_counts_them_by_the_name_of_their_class_too():
    """As KAI does; what has counted once counts 0 when no pod has a claim any more."""
    world, statuses = world_with(["H100"] * 4), QueueStatuses()

    def allocated():
        snapshot = world.cluster.snapshot()
        policy = default_policy()
        result, _ = run_cycle(snapshot, None, policy, 0.0, Memory())
        (status,) = [
            it for name, it in statuses.changed(snapshot, result.shares, {}) if name == "team"
        ]
        return {name: status["allocated"].get(name) for name in (CLAIMED_GPU, DRIVER)}

    ask_for_all(world, "a")
    world.cycle()
    assert allocated() == {CLAIMED_GPU: "4", DRIVER: "4"}
    world.delete("a")
    assert allocated() == {CLAIMED_GPU: "0", DRIVER: "0"}
