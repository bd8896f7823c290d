"""Victims of a gang that has lost or gained pods: it keeps what it needs, or nothing."""

from dataclasses import replace

from kaisched.core.axis import TaskState
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group


def test_elastic_pods_go_before_the_core_of_a_gang_that_lacks_pods_elsewhere():
    """Of subgroup g0 three pods run where two are needed, of g1 one where two are."""
    parts = (Group("g0", 2), Group("g1", 2))
    podsets = ("g0", "g0", "g0", "g1", "g1")
    builder = ClusterBuilder().queue("v").queue("a", deserved=4).node("n", gpu=4)
    builder.job(
        "j", queue="v", tasks=5, running={"n": 4}, groups=Group("", None, parts), podsets=podsets
    )
    builder.job("c", queue="a", tasks=3)
    ran = builder.run("reclaim")
    assert sorted(ran.evicted) == ["j-0", "j-1", "j-2", "j-3"]


def test_a_pod_that_the_cycle_has_bound_lets_no_other_go_of_those_that_are_needed():
    """Gang j needs the two pods that run; j-0 is before both in the order of its pods."""
    builder = ClusterBuilder().queue("v").queue("a").node("n", gpu=2).node("m", gpu=1)
    builder.job("j", queue="v", tasks=3, min_tasks=2)
    job = builder._jobs[-1]
    first, *others = job.tasks
    run = [
        replace(task, state=TaskState.RUNNING, node=node)
        for task, node in zip(others, "nm", strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=[first, *run])
    ran = builder.job("c", queue="a", on=["m"]).run()
    assert ran.placed == {"j-0": "n"}
    assert not ran.evicted
