"""Demand that nothing could meet entitles to nothing; what waits for anything else counts."""

from dataclasses import replace

import pytest

from kaisched.core.constraints import Constraints, PodTerm, Requirement, Taint, Toleration
from kaisched.core.refusals import Refusal
from kaisched.testing.builder import ClusterBuilder, Group

SELECTS = Constraints(node_selector=(("gpu", "h100"),))
WAITS = Constraints(wait=(int(Refusal.VOLUME_CLAIM), "claim c is missing"))
NEAR = Constraints(pod_affinity=(PodTerm("zone", ("x",), False, (Requirement("app", "Exists"),)),))
TAINT = Taint("dedicated", "", "NoSchedule")


def cluster():
    """Two nodes of 4 GPUs; a runs on both."""
    made = ClusterBuilder().node("n0", gpu=4).node("n1", gpu=4, labels={"zone": "z"})
    made.queue("a").queue("b")
    return made.job("r", queue="a", tasks=8, min_tasks=1, running={"n0": 4, "n1": 4})


def counted(made, queue="b"):
    """Return the GPUs that a queue asks for in the division, and those that do not count."""
    share = made.run().result.shares
    entry = next(it for it in share if it.name == queue)
    left_out = entry.unschedulable
    return entry.requested["gpu"] // 1000, left_out and left_out.amounts["gpu"] // 1000


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"constraints": SELECTS}, id="selector"),
        pytest.param({"on": ["n7"]}, id="affinity"),
        pytest.param({"gpu": 5}, id="too-large"),
        pytest.param({"gpu": 1, "cpu": 5000}, id="too-large-in-another-resource"),
        pytest.param({"extended": {"x.io/y": 1}}, id="a-resource-of-no-node"),
        pytest.param({"tasks": 2, "min_tasks": 3}, id="pods-are-missing"),
        pytest.param({"tasks": 9}, id="gang-larger-than-the-shard"),
        pytest.param({"gpu": 3, "tasks": 3}, id="gang-in-too-large-pieces"),
    ],
)
def test_what_could_never_run_does_not_count(job):
    made = cluster().job("x", queue="b", **job)
    amount = job.get("tasks", 1) * job.get("gpu", 1)
    assert counted(made) == (0, amount)
    assert counted(made.job("y", queue="b", tasks=2)) == (2, amount)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"constraints": WAITS}, id="claim"),
        pytest.param({"constraints": NEAR}, id="pod-affinity"),
        pytest.param({"gpu": 4}, id="a-whole-node"),
        pytest.param({"tasks": 8}, id="gang-of-the-whole-shard"),
        pytest.param({"tasks": 20, "min_tasks": 1}, id="more-pods-than-fit"),
        pytest.param({"on": ["n1"]}, id="affinity"),
    ],
)
def test_what_waits_for_room_or_anything_that_may_come_counts(job):
    amount = job.get("tasks", 1) * job.get("gpu", 1)
    assert counted(cluster().job("x", queue="b", **job)) == (amount, None)


def test_nodes_that_take_no_new_pods_meet_no_demand_until_they_do():
    for shut in ({"is_unschedulable": True}, {"taints": (TAINT,)}):
        made = cluster().node("n2", gpu=8, **shut)
        assert counted(made.job("x", queue="b", gpu=8)) == (0, 8)
        tolerant = Constraints(tolerations=(Toleration("", "Exists", "", ""),))
        assert counted(made.job("y", queue="b", gpu=8, constraints=tolerant)) == (8, 8)


@pytest.mark.parametrize(("needed", "expected"), [(1, (2, 9)), (2, (0, 11))])
def test_a_subgroup_that_can_never_run_stops_only_a_job_that_needs_it(needed, expected):
    groups = Group("root", needed, (Group("good", 2), Group("bad", 9)))
    podsets = ["good"] * 2 + ["bad"] * 9
    made = cluster().job("x", queue="b", tasks=11, podsets=podsets, groups=groups)
    assert counted(made) == expected


@pytest.mark.parametrize(("needed", "expected"), [(1, (2, None)), (2, (0, 2))])
def test_a_subgroup_without_any_pod_stops_only_a_job_that_needs_it(needed, expected):
    groups = Group("root", needed, (Group("workers", 2), Group("head", 1)))
    made = cluster().job("x", queue="b", tasks=2, podsets=["workers"] * 2, groups=groups)
    assert counted(made) == expected


def test_a_running_gang_counts_and_its_next_pods_too():
    made = ClusterBuilder().node("n0", gpu=4).queue("b")
    made.job("g", queue="b", tasks=4, min_tasks=2, running={"n0": 2})
    assert counted(made) == (4, None)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"gpu": 3}, id="pod"),
        pytest.param({"tasks": 3}, id="gang"),
        pytest.param({"tasks": 4, "min_tasks": 3}, id="core"),
        pytest.param({"tasks": 3, "podsets": ["x", "y", "y"]}, id="subgroups"),
    ],
)
@pytest.mark.parametrize("level", ["leaf", "department"])
@pytest.mark.parametrize("bound", ["limit", "quota"])
def test_what_is_larger_than_its_queues_may_hold_does_not_count(bound, level, job):
    bounds = {"limit": {"limit": 2}, "quota": {"deserved": 2}}[bound]
    made = ClusterBuilder().node("n0", gpu=8)
    made.queue("d", **(bounds if level == "department" else {"deserved": None}))
    made.queue("b", parent="d", **(bounds if level == "leaf" else {"deserved": None}))
    if "podsets" in job:
        job = job | {"groups": Group("root", 2, (Group("x", 1), Group("y", 2)))}
    made.job("x", queue="b", is_preemptible=bound == "limit", **job)
    amount = job.get("tasks", 1) * job.get("gpu", 1)
    assert counted(made) == (0, amount)
    why = {"limit": "OverLimit", "quota": "NonPreemptibleOverQuota"}[bound]
    share = next(it for it in made.run().result.shares if it.name == "b")
    assert share.unschedulable.reason == why
    made.job("y", queue="b", tasks=2, min_tasks=1, is_preemptible=bound == "limit")
    assert counted(made) == (2, amount)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"tasks": 4, "min_tasks": 2}, id="elastic"),
        pytest.param({"tasks": 3, "podsets": ["x", "y", "y"]}, id="other-subgroup"),
        pytest.param({"gpu": 3}, id="preemptible-over-quota"),
    ],
)
def test_what_fits_its_queues_bounds_in_part_counts_and_so_does_what_waits_for_their_work(job):
    made = ClusterBuilder().node("n0", gpu=8)
    made.queue("b", deserved=2, limit=3 if "gpu" in job else 2)
    made.job("r", queue="b", tasks=2, running={"n0": 2})
    if "podsets" in job:
        job = job | {"groups": Group("root", 1, (Group("x", 1), Group("y", 2)))}
    made.job("x", queue="b", **job)
    assert counted(made) == (2 + job.get("tasks", 1) * job.get("gpu", 1), None)


@pytest.mark.parametrize(("second", "expected"), [(4, (0, 12)), (0, (8, None))])
@pytest.mark.parametrize("podsets", [(), ("x", "y")])
def test_a_gang_of_two_shapes_that_all_nodes_cannot_hold_does_not_count(podsets, second, expected):
    made = ClusterBuilder().node("n0", gpu=8).queue("b")
    groups = Group("root", 2, (Group("x", 1), Group("y", 1))) if podsets else None
    made.job("x", queue="b", gpu=8, tasks=2, podsets=podsets, groups=groups)
    (job,) = made._jobs
    small = replace(job.tasks[1], request={**job.tasks[1].request, "gpu": second * 1000})
    made._jobs[:] = [replace(job, tasks=(job.tasks[0], small))]
    assert counted(made) == expected
