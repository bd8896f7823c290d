"""How many gangs fit in one domain each, of those for which there is room in all."""

from kaisched import TopologyConstraint
from kaisched.framework.report.reach import reaches
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

RACK = TopologyConstraint("t", "rack")


def cluster(*free: int) -> ClusterBuilder:
    """Build racks A, B and so on, with so many idle GPUs on one node each."""
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("a")
    for at, gpus in enumerate(free):
        builder.node(f"n{at}", gpu=gpus, labels={"zone": "z", "rack": "ABCDEF"[at]})
    return builder


def told(builder: ClusterBuilder):
    """Return the reach of jobs that no action has tried."""
    records = builder.run("stalegang").result.records
    return list(reaches(records.session, records.rows))


def test_rooms_of_racks_are_rounded_down_to_whole_gangs():
    """Racks with 5, 7, 3 and 9 free: gangs of 4 lose 8 places, gangs of 8 all but one rack."""
    builder = cluster(5, 7, 3, 9)
    for pods in (4, 8):
        builder.job(f"a{pods}", queue="a", tasks=pods, topology=RACK)
    four, eight = sorted(told(builder), key=lambda it: it.pods)
    assert (four.fits, four.in_all) == (4, 6)
    assert four.best == (("D", 2), ("A", 1), ("B", 1))
    assert (eight.fits, eight.in_all, eight.best) == (1, 3, (("D", 1),))
    assert (four.level, four.jobs, four.asks) == ("rack", ("default/a4",), "1 gpu")


def test_the_nearest_domain_is_named_with_what_it_lacks():
    builder = cluster(2, 3).job("a1", queue="a", tasks=5, topology=RACK)
    (reach,) = told(builder)
    assert (reach.fits, reach.in_all, reach.nearest, reach.short) == (0, 1, "B", 2)


def test_jobs_that_ask_for_the_same_are_told_together():
    builder = cluster(1)
    for name in ("a2", "a1"):
        builder.job(name, queue="a", tasks=2, topology=RACK)
    assert [reach.jobs for reach in told(builder)] == [("default/a1", "default/a2")]


def test_subgroups_are_told_by_their_own_level():
    parts = (Group("p", 1, topology=RACK), Group("q", 3, topology=RACK))
    zone = TopologyConstraint("t", "zone")
    builder = cluster(2, 1).job(
        "a1", queue="a", tasks=4, groups=Group("", None, parts), podsets="pqqq", topology=zone
    )
    assert [(it.level, it.pods, it.fits) for it in told(builder)] == [
        ("zone", 4, 0),
        ("rack", 1, 3),
        ("rack", 3, 0),
    ]


def test_wishes_and_unknown_names_are_left_out():
    builder = cluster(1)
    for at, wish in enumerate((TopologyConstraint("t", "", "rack"), TopologyConstraint("u", "x"))):
        builder.job(f"a{at}", queue="a", tasks=2, topology=wish)
    assert told(builder) == []


def test_a_label_that_no_topology_has_is_told_by_its_name():
    wish = TopologyConstraint("", "block", is_label=True)
    builder = ClusterBuilder().queue("a").node("n0", gpu=3, labels={"block": "b1"})
    builder.node("n1", gpu=9).job("a1", queue="a", tasks=2, topology=wish)
    (reach,) = told(builder)
    assert (reach.topology, reach.level, reach.best) == ("block", "block", (("b1", 1),))
