"""Proportion: what quotas cover, at every queue of a path and pod by pod (R32)."""

import numpy as np
import pytest

from kaisched import GPU, UNLIMITED, TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group, Job, Task, add_job
from kaisched_plugins.proportion.reclaim import Bounds, in_quota
from kaisched_plugins.proportion.standing import Standing
from kaisched_plugins.proportion.tests.reclaim_world import NOT_OVER, UNDER, World, amounts


def covered(world, top):
    """Return the GPUs that are covered, by queue."""
    bounds = Bounds(world.session, Standing.of(world.session), 1.0)
    found = in_quota(world.session, bounds, world.row[top])
    return {world.tree.names[queue]: amounts[GPU] / 1000 for queue, amounts in found.items()}


def branch(quota, **leaves):
    """Return a world of a branch ``y``, its leaves as (quota, jobs that run), and a claimant."""
    queues = {
        name: {
            "parent": "y",
            "deserved": of_leaf,
            "share": of_leaf,
            "held": sum(gpus * pods for gpus, pods, _ in runs),
            "runs": runs,
        }
        for name, (of_leaf, runs) in leaves.items()
    }
    held = sum(leaf["held"] for leaf in queues.values())
    y = {"deserved": quota, "share": quota, "held": held}
    return World({"x": {"share": 9}, "y": y, **queues})


def test_a_leaf_keeps_what_its_own_quota_covers_though_its_branch_holds_too_much():
    world = branch(4, y1=(3, [(1, 3, 3)]), y2=(0, [(4, 1, 1)]))
    claim = world.claim("x", 3, last=True)
    assert world.take(claim, ("y1", 3)) == [UNDER]
    assert world.take(claim, ("y2", 4)) == [0]
    assert covered(world, "y") == {"y": 3, "y1": 3, "y2": 0}


def test_a_leaf_is_covered_no_further_than_its_branch():
    """Else nobody could claim what a branch of 4 has too much, by leaves promised 3 each.

    Each leaf's quota is worth 2 there, which covers no gang of 3: one of them goes, whichever.
    """
    world = branch(4, y1=(3, [(1, 3, 3)]), y2=(3, [(3, 1, 1)]))
    assert covered(world, "y") == {"y": 3, "y1": 0, "y2": 0}
    claim = world.claim("x", 3, last=True)
    assert world.take(claim, ("y2", 3), ("y1", 3)) == [0, NOT_OVER]
    assert world.take(claim, ("y1", 3), ("y2", 3)) == [0, NOT_OVER]


def test_what_a_branch_has_covers_its_leaves_as_it_is_divided_and_not_by_age():
    world = branch(4, y1=(4, [(1, 1, 1)] * 4), y2=(4, [(1, 1, 1)] * 4))
    assert covered(world, "y") == {"y": 4, "y1": 2, "y2": 2}
    claim = world.claim("x", 4)
    assert world.take(claim, *[("y1", 1)] * 3) == [0, 0, UNDER]
    assert world.take(claim, *[("y2", 1), ("y1", 1)] * 2) == [0] * 4


def test_a_leaf_of_higher_priority_is_covered_first():
    world = branch(4, y1=(4, [(1, 1, 1)] * 4), y2=(4, [(1, 1, 1)] * 4))
    world.session.queues.priority[world.row["y2"]] = 200
    assert covered(world, "y") == {"y": 4, "y1": 0, "y2": 4}


def test_what_leaves_were_not_promised_the_quota_of_their_branch_covers():
    world = branch(4, y1=(1, [(1, 4, 1)]), y2=(0, [(2, 1, 1)]))
    assert covered(world, "y") == {"y": 4, "y1": 1, "y2": 0}


def test_what_leaves_were_promised_comes_before_what_is_more_important():
    world = branch(3, y1=(0, [(3, 1, 1)]), y2=(2, [(2, 1, 1)]))
    assert covered(world, "y") == {"y": 2, "y1": 0, "y2": 2}


@pytest.mark.parametrize(("quota", "evicted"), [(2, set()), (1, {"u-1", "v-0"})])
def test_of_a_job_of_unlike_pods_those_are_covered_that_fit(quota, evicted):
    """``u`` holds 1 GPU that it needs and 2 more; a quota of 2 covers the one, and ``v``."""
    builder = ClusterBuilder().queue("e", deserved=quota, weight=0).queue("f", deserved=3)
    for at, gpus in enumerate((2, 2, 1, 1)):
        builder.node(f"n{at}", gpu=gpus)
    store = builder.job("w", queue="f", tasks=2, gpu=2).store()

    def pod(name, gpus, node):
        return Task(name, {"gpu": 1000 * gpus}, state=TaskState.RUNNING, node=node)

    u = (pod("u-0", 1, "n2"), pod("u-1", 2, "n0"))
    add_job(store, Job("u", "e", u, priority=75, root=Group("default", 1)))
    add_job(store, Job("v", "e", (pod("v-0", 1, "n1"),), root=Group("default", 1)))
    result, _ = run_cycle(store.snapshot(), None, default_policy(), 1.0, Memory())
    assert {move.pod for move in result.evictions} == {f"default/{name}" for name in evicted}


@pytest.mark.parametrize(
    ("gpus", "cpu", "held", "is_guaranteed"),
    [(2, 0, 0, True), (2, 0, 1, False), (0, 500, 0, False), (1, 500, 1, True)],
)
def test_a_request_is_guaranteed_within_a_quota_of_its_resources(gpus, cpu, held, is_guaranteed):
    """The quota is 2 GPUs; CPUs have none, so that a request for CPUs alone has no guarantee."""
    world = World({"a": {"deserved": 2, "cpu_deserved": UNLIMITED, "held": held}})
    job = np.array([world.job("a")])
    said = world.plugin.is_guaranteed(world.session, job, amounts(gpus, cpu)[:, None])
    assert said.tolist() == [is_guaranteed]
