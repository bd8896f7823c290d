"""Victims of a gang that has lost pods: its elastic pods never stay without its core."""

from kaisched.testing import ClusterBuilder
from kaisched.testing.rows import Group


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
