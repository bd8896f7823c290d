"""Victims of a job that needs some of its subgroups: one of the others goes whole, or stays whole.

Units, by docs/explanation/the-cycle.md: elastic pods one by one, then subgroups beyond those
needed, then the core. What a subgroup has beyond its minimum is of no use without the subgroup.
"""

import pytest

from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

INNER = Group("in", None, (Group("g0", 2), Group("g1", 3)))
TREE = Group("all", 1, (INNER, Group("g2", 1)))
PODSETS = ("g0", "g0", "g1", "g1", "g1", "g1", "g2")
"""Of pods j-0 to j-6: j-5 is beyond the minimum of g1, ``in`` beyond what the job needs."""


def running(builder: ClusterBuilder, **nodes: int) -> ClusterBuilder:
    """Add job j, of whose subgroups g2 is the core: by name it comes before ``in``."""
    return builder.job("j", queue="v", tasks=7, running=nodes, groups=TREE, podsets=PODSETS)


def two_nodes(action: str) -> ClusterBuilder:
    claims = "a" if action == "reclaim" else "v"
    builder = ClusterBuilder().queue("v").queue("a", deserved=4)
    builder = running(builder.node("n2", gpu=4).node("n6", gpu=4), n2=4, n6=3)
    return builder.job("c", queue=claims, tasks=3, priority=75)


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_subgroup_that_goes_takes_its_elastic_pod_along(action: str) -> None:
    """One GPU of n6 is free, and j-5 makes two. So ``in`` goes, and n2 alone has room for all."""
    ran = two_nodes(action).run(action)
    assert sorted(ran.evicted) == ["j-0", "j-1", "j-2", "j-3", "j-4", "j-5"]


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_an_elastic_pod_of_a_subgroup_goes_alone_if_that_is_enough(action: str) -> None:
    builder = two_nodes(action)
    builder._jobs.pop()
    builder.job("c", queue="a" if action == "reclaim" else "v", tasks=2, priority=75)
    assert list(builder.run(action).evicted) == ["j-5"]


def test_an_elastic_pod_does_not_move_away_from_its_subgroup_that_goes() -> None:
    """There is a place for j-5 on m, and none for the five pods of ``in``."""
    builder = ClusterBuilder().queue("v").queue("a", deserved=5)
    builder = running(builder.node("n", gpu=6).node("m", gpu=2), n=6, m=1)
    ran = builder.job("c", queue="a", gpu=5).run("reclaim")
    assert sorted(ran.evicted) == ["j-0", "j-1", "j-2", "j-3", "j-4", "j-5"]
    assert not set(ran.promised) & set(ran.evicted)


def test_a_subgroup_does_not_go_for_another_that_the_cycle_has_just_completed() -> None:
    """By name x is the one that is needed, but until now only y had all its pods."""
    tree = Group("all", 1, (Group("x", 2), Group("y", 1)))
    builder = ClusterBuilder().queue("v").queue("a").node("n", gpu=2).node("m", gpu=1)
    builder.job("j", queue="v", tasks=3, groups=tree, podsets="xyx", running={"n": 1, "m": 1})
    ran = builder.job("c", queue="a", on=["m"]).run()
    assert ran.placed == {"j-2": "n"}
    assert not ran.evicted
