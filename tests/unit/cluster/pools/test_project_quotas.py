"""In quota: within the quota of the pool, and within the sum of a project's quotas over pools."""

import pytest
from msgspec.structs import replace

from kaisched.cluster.state import Kept, restored
from kaisched.engine.policy import build_policy, default_shard
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.shard import GPU_RESOURCES
from tests.contract.clusters import make, pod
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in

pytestmark = pytest.mark.proportion


def x18(*, held=10, quotas=(4, 4), is_project=True):
    """A100 with preemptible work of T beyond its quota, and room for it in H100."""
    world = World("h100", "a100")
    world.load(
        node_in("h100", "h0", 8),
        node_in("a100", "a0", 16),
        queue_in("h100", "t-h100", quotas[0], project="t" if is_project else ""),
        queue_in("a100", "t-a100", quotas[1], project="t" if is_project else "u"),
    )
    for number in range(held):
        world.load(pod(f"p{number}", "t-a100", labels={POOL: "a100"}, uid=f"p{number}"))
    world.cycle()
    assert {world.node_of(f"p{number}") for number in range(held)} <= {"a0"}
    return world


def strict(name, gpus, queue_name="t-h100", **rest):
    labels = {POOL: "h100", "priorityClassName": "build"}
    return pod(name, queue_name, gpus, labels=labels, uid=name, **rest)


def is_started(world, gpus):
    world.load(strict("x", gpus))
    world.cycle()
    return world.node_of("x") == "h0"


def test_what_a_project_holds_elsewhere_counts_in_its_sum():
    """Worked example X18: 2 are within the quota of H100, and 12 are more than 8 in all."""
    world = x18()
    assert not is_started(world, 2)
    reasons = {it for (_, pool), it in world.reasons.items() if pool == "h100"}
    assert reasons == {"NonPreemptibleOverQuota"}


def test_the_reason_names_what_is_left_of_the_quota():
    world = x18(held=6)
    assert not is_started(world, 3)
    (message,) = (it for (_, pool), it in world.messages.items() if pool == "h100")
    assert (
        "gpu 0 held + 3 asked is over its quota of 2 for non-preemptible work, which is what is"
        " left of 4: in other node pools its project holds gpu 2 more than its quotas there"
    ) in message


@pytest.mark.parametrize(
    ("held", "quotas", "gpus", "starts"),
    [
        (4, (4, 4), 4, True),  # the quota there is used up, and no more
        (5, (4, 4), 4, False),
        (5, (4, 4), 3, True),
        (0, (4, 4), 5, False),  # within the sum, but not within the pool
        (10, (4, -1), 4, True),  # a sum with an unlimited quota has no end
        (2, (4, 0), 2, True),
        (2, (4, 0), 3, False),
    ],
)
def test_both_bounds_hold(held, quotas, gpus, starts):
    assert is_started(x18(held=held, quotas=quotas), gpus) is starts


def test_a_shard_may_look_at_its_own_pool_only():
    """Worked example X18 under rule P19."""
    world = x18()
    shard = default_shard()
    world.policy, _ = build_policy(replace(shard, spec=replace(shard.spec, quota_scope="pool")))
    assert is_started(world, 2)


def test_other_projects_do_not_count():
    assert is_started(x18(is_project=False), 4)


def test_preemptible_work_is_not_bound_by_the_sum():
    world = x18()
    world.load(pod("x", "t-h100", 8, labels={POOL: "h100"}, uid="x"))
    world.cycle()
    assert world.node_of("x") == "h0"


def test_what_ends_elsewhere_counts_no_more():
    world = x18()
    assert not is_started(world, 2)
    for number in range(4):
        world.delete(world.cluster.pod(f"ns/p{number}"))
    world.cycle()
    assert world.node_of("x") == "h0"


def test_a_quota_raised_elsewhere_counts_at_once():
    world = x18()
    assert not is_started(world, 2)
    world.load(queue_in("a100", "t-a100", 8, project="t"))
    world.cycle()
    assert world.node_of("x") == "h0"


def test_jobs_with_lists_count_where_they_are():
    world = x18(held=0)
    for number in range(6):
        world.load(listed(f"l{number}", "a100,h100", queue_name="t-h100"))
    world.cycle()
    assert {world.node_of(f"l{number}") for number in range(6)} == {"a0"}
    assert not is_started(world, 3)


def test_a_group_that_names_another_queue_takes_its_pods_along():
    world = x18(held=0)
    world.load(queue_in("a100", "u-a100", 4, project="u"))

    def group(name):
        spec = {"queue": name, "minMember": 6}
        return make(PodGroup, "g", labels={POOL: "a100"}, spec=spec)

    world.load(group("u-a100"))
    for number in range(6):
        notes = {"pod-group-name": "g"}
        world.load(pod(f"g{number}", "", labels={POOL: "a100"}, annotations=notes))
    world.cycle()
    assert is_started(world, 3)
    world.load(group("t-a100"))
    world.load(strict("y", 1))
    world.cycle()
    assert world.node_of("y") == ""


def test_a_store_that_is_made_again_knows_it_too():
    world = x18()
    objects = [*world.cluster._objects.values(), *world.cluster.pods()]
    kept = Kept()
    for obj in objects:
        kept.put(obj)
    store = world.ports["h100"].store
    again = restored(objects, kept.state_of(store), ["kaisched"], "h100", GPU_RESOURCES)
    before, after = store.snapshot(), again.snapshot()
    assert before.overdrawn[before.axis.position["gpu"]].tolist() == [6000]
    assert after.overdrawn.tolist() == before.overdrawn.tolist()


def test_the_same_table_is_given_while_nothing_changes():
    world = x18()
    store = world.ports["h100"].store
    before = store.snapshot()
    world.load(strict("x", 1))
    after = store.snapshot()
    assert after is not before
    assert after.overdrawn is before.overdrawn
