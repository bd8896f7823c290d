"""What jobs hear whose subgroups find no domain inside of the one that the whole job requires."""

from typing import Any

import pytest

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

ZONE, RACK = TopologyConstraint("t", "zone"), TopologyConstraint("t", "rack")
FULL = "zone z: subgroup x: no rack has room for its {} pods together: best is rack {}, short by {}"
NOT_TOGETHER = (
    "zone z: each of its {} pods has room, but its subgroups do not fit together, each on one set"
    " of nodes"
)


def sentence(nodes: dict[str, int], parts: dict[str, int], **root: Any) -> str:
    """Return what a gang with parts that are each in one rack hears; names begin with zone, rack.

    A pod of another job runs on each node with a name that ends with a star.
    """
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("v").queue("a", deserved=9)
    for name, gpus in nodes.items():
        builder.node(name, gpu=gpus, labels={"zone": name[0], "rack": name[1]})
        if name.endswith("*"):
            builder.job(f"v-{name[:2]}", queue="v", running={name: 1}, is_preemptible=False)
    podsets = [name for name, pods in parts.items() for _ in range(pods)]
    groups = tuple(Group(name, pods, topology=RACK) for name, pods in parts.items())
    builder.job(
        "a1",
        queue="a",
        tasks=len(podsets),
        podsets=podsets,
        groups=Group("all", None, groups, **root),
    )
    (record,) = builder.run("allocate").result.records
    assert record.reason == "GangNoRoom"
    return record.message


def test_it_hears_which_subgroup_has_no_rack_in_its_zone():
    """Zone z has three idle GPUs in two racks; one of them could hold it if nothing ran there."""
    said = sentence({"zA*": 3, "zB": 1, "yA": 1}, {"x": 3}, topology=ZONE)
    assert said == FULL.format(3, "z/A", "1 pod")


def test_a_rack_in_another_zone_does_not_help():
    said = sentence({"zA": 2, "zB": 2, "yA": 3}, {"x": 3, "y": 1}, topology=ZONE)
    assert said == FULL.format(3, "z/A", "1 pod")


def test_subgroups_that_fit_alone_and_not_next_to_each_other_hear_so():
    """Each of three has a rack, of which there are two, and a rack holds one of them."""
    said = sentence({"zA": 3, "zB": 3}, {"x": 2, "y": 2, "w": 2}, topology=ZONE)
    assert said == NOT_TOGETHER.format(6)


def test_so_do_they_if_the_whole_job_asks_for_nothing():
    said = sentence({"zA": 3, "zB": 3}, {"x": 2, "y": 2, "w": 2})
    assert said == NOT_TOGETHER.format(6).removeprefix("zone z: ")


def test_subgroups_of_subgroups_are_named_too():
    """The group of x and y has to be in one rack, with four pods."""
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("v").queue("a", deserved=9)
    for name, gpus in (("A", 4), ("B", 2)):
        builder.node(name, gpu=gpus, labels={"zone": "z", "rack": name})
    builder.job("v", queue="v", running={"A": 1})
    both = Group("both", None, (Group("x", 2), Group("y", 2)), topology=RACK)
    builder.job(
        "a1",
        queue="a",
        tasks=5,
        podsets=["x", "x", "y", "y", "head"],
        groups=Group("all", None, (both, Group("head", 1)), topology=ZONE),
    )
    (record,) = builder.run("allocate").result.records
    assert record.message == (
        "zone z: subgroup both: no rack has room for its 4 pods together: best is rack A,"
        " short by 1 pod"
    )


def waiting(builder: ClusterBuilder) -> tuple[str, str]:
    (record,) = builder.run("allocate").result.records
    return record.reason, record.message


@pytest.mark.parametrize("root", [None, TopologyConstraint("t", "", "zone"), ZONE])
def test_one_more_pod_of_a_subgroup_that_names_a_wrong_level_hears_so(root):
    """Its other pod runs, so the job is not refused at once."""
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("a", deserved=9)
    builder.node("A", gpu=4, labels={"zone": "z", "rack": "A"})
    wrong = TopologyConstraint("t", "rak")
    groups = (Group("x", 1, topology=wrong), Group("y", 1))
    builder.job(
        "a1",
        queue="a",
        tasks=3,
        podsets=["x", "y", "x"],
        running={"A": 2},
        groups=Group("all", None, groups, topology=root),
    )
    assert waiting(builder)[1].endswith(
        "subgroup x: topology t has no level rak; did you mean rack?"
    )


def test_a_subgroup_in_slices_hears_how_many_have_room():
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("a", deserved=9)
    for name, gpus in (("A", 2), ("B", 4), ("C", 2)):
        builder.node(name, gpu=gpus, labels={"zone": "z", "rack": name})
        builder.job(f"v{name}", queue="a", running={name: 1})
    sliced = TopologyConstraint("", "", "zone", (("rack", 2),), is_pod_set=True)
    groups = (Group("x", 4, topology=sliced), Group("y", 1))
    builder.job(
        "a1",
        queue="a",
        tasks=5,
        podsets=["x"] * 4 + ["y"],
        groups=Group("all", None, groups, topology=ZONE),
    )
    said = "zone z: subgroup x: there is no room for its 2 slices of 2 pods: short by 1 slice"
    assert waiting(builder) == ("GangNoRoom", said)


def test_one_more_pod_of_a_group_of_subgroups_hears_where_the_others_run():
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("a", deserved=9)
    for name, gpus in (("A", 2), ("B", 2)):
        builder.node(name, gpu=gpus, labels={"zone": "z", "rack": name})
    both = Group("both", None, (Group("x", 1), Group("y", 1)), topology=RACK)
    builder.job(
        "a1",
        queue="a",
        tasks=4,
        podsets=["x", "y", "head", "x"],
        running={"A": 2, "B": 1},
        groups=Group("all", None, (both, Group("head", 1))),
    )
    said = "subgroup both: pods of it run in rack A, which has no room for its pod: short by 1 pod"
    assert waiting(builder) == ("NoDomainHasRoom", said)
