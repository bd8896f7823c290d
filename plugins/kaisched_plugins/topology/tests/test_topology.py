"""Which domain a job gets, and how it is filled (C1 to C5, P1 to P4)."""

from dataclasses import replace
from typing import Any

import pytest

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder, draw
from kaisched.testing.builder import Group
from kaisched_plugins.topology.choosing import most_tried
from kaisched_plugins.topology.tests.gangs import asking
from kaisched_plugins.topology.tests.gangs import racks as nodes_in_racks


def after(text: str) -> Any:
    """Run allocate on a drawing."""
    return draw(text).after("allocate").ran


def nodes_of(ran) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in ran.placed.values():
        found[node] = found.get(node, 0) + 1
    return found


def racks(free: dict[str, list[int]], zone: str = "") -> str:
    """Return the lines of nodes with so many idle GPUs, such as A1 and A2 in rack A."""
    where = f"zone={zone} " if zone else ""
    return "".join(
        f"node {rack}{number} {where}rack={rack} | {'. ' * gpus}\n"
        for rack, nodes in free.items()
        for number, gpus in enumerate(nodes, 1)
    )


@pytest.mark.parametrize(
    ("free", "job", "placed"),
    [
        ({"A": [4, 4], "B": [8, 4], "C": [8, 8]}, "tasks=2 gpu=4", {"A1": 1, "A2": 1}),
        ({"A": [2, 2, 2, 2], "B": [4, 4], "C": [8, 8]}, "tasks=2 gpu=4", {"B1": 1, "B2": 1}),
        ({"A": [3, 3, 3], "B": [4, 4]}, "tasks=3 gpu=2", {"A1": 1, "A2": 1, "A3": 1}),
    ],
    ids=["the fullest rack", "capacity in pods, not in GPUs", "an exact fit leaves pairs whole"],
)
def test_the_fullest_rack_that_holds_the_gang_is_taken(free, job, placed):
    ran = after(f"queue a\n{racks(free)}job a1 {job} required=rack")
    assert nodes_of(ran) == placed


def test_a_zone_is_filled_with_few_racks_and_the_last_by_best_fit():
    free = {"A1": [1, 1], "A2": [1], "A3": [1], "A4": [1]}
    other = {"B1": [1, 1], "B2": [1, 1], "B3": [1, 1]}
    nodes = racks(free, "A") + racks(other, "B")
    ran = after(f"queue a\n{nodes}job a1 tasks=3 required=zone preferred=rack")
    assert nodes_of(ran) == {"A11": 1, "A12": 1, "A41": 1}


def test_racks_of_one_name_in_two_zones_are_two_racks():
    nodes = racks({"r1": [1]}, "z1") + "node s1 zone=z2 rack=r1 | .\n"
    ran = after(f"queue a\n{nodes}job a1 tasks=2 required=rack")
    assert ran.placed == {}
    assert ran.reasons == {"a1": "NoDomainIsLargeEnough"}


def test_taints_and_other_filters_count():
    """A rack with enough GPUs, half of them on nodes that the job may not use, holds it not."""
    nodes = racks({"A": [2, 2], "B": [4, 4, 4]})
    ran = after(f"queue a\n{nodes}job a1 tasks=4 required=rack on=A1,B1,B2")
    assert nodes_of(ran) == {"B1": 4}


def test_the_scarcest_resource_counts():
    ran = (
        ClusterBuilder()
        .topology("t", "rack")
        .queue("a")
        .node("A1", gpu=8, cpu=40, labels={"rack": "A"})
        .node("B1", gpu=6, cpu=200, labels={"rack": "B"})
        .job("a1", queue="a", tasks=4, cpu=8, topology=TopologyConstraint("t", "rack"))
        .run("allocate")
    )
    assert nodes_of(ran) == {"A1": 4}


def test_mixed_pods_go_where_all_of_them_fit_next_to_each_other():
    """Rack A holds four workers or the launcher, but two workers a node leave it no cores."""
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    for rack, cpu in (("A", 10), ("B", 12)):
        for number in "12":
            builder.node(f"{rack}{number}", gpu=4, cpu=cpu, labels={"rack": rack})
    builder.job("a1", queue="a", tasks=5, gpu=2, cpu=4, topology=TopologyConstraint("t", "rack"))
    ran = asking(builder, {"gpu": 0}).run("allocate")
    assert set(nodes_of(ran)) == {"B1", "B2"}


def test_a_preferred_level_is_only_a_wish():
    ran = after(f"queue a\n{racks({'A': [1], 'B': [2]})}job a1 tasks=3 preferred=rack")
    assert nodes_of(ran) == {"A1": 1, "B1": 2}


def test_nobody_waits_for_a_wish_on_nodes_without_labels():
    ran = after("queue a\nnode n0 | .\nnode A1 rack=A | .\njob a1 tasks=2 preferred=rack")
    assert nodes_of(ran) == {"n0": 1, "A1": 1}


def test_a_required_level_leaves_nodes_without_labels_alone():
    ran = after("queue a\nnode n0 | . .\nnode A1 rack=A | .\njob a1 tasks=2 required=rack")
    assert ran.placed == {}


def test_pods_that_run_bind_the_others():
    nodes = "node A1 rack=A | a1 a1 a1\nnode B1 rack=B | . . . .\n"
    ran = after(f"queue a\n{nodes}job a1 tasks=4 min=3 required=rack")
    assert ran.placed == {}
    record = next(iter(ran.result.records))
    assert record.message == (
        "pods of it run in rack A, which has no room for its pod: short by 1 pod"
    )


def test_a_lost_pod_is_replaced_in_the_rack_of_the_others():
    nodes = "node A1 rack=A | a1 a1 a1\nnode A2 rack=A | .\nnode B1 rack=B | . . . .\n"
    ran = after(f"queue a\n{nodes}job a1 tasks=4 required=rack")
    assert nodes_of(ran) == {"A2": 1}


def test_pods_that_run_draw_the_others_near():
    nodes = "node A1 rack=A | a1 . .\nnode B1 rack=B | .\n"
    ran = after(f"queue a\n{nodes}job a1 tasks=2 min=1 preferred=rack")
    assert nodes_of(ran) == {"A1": 1}


def test_idle_room_in_another_rack_comes_before_room_being_released():
    nodes = "node A1 rack=A | b1> b1>\nnode B1 rack=B | . . .\n"
    ran = after(f"queue a\nqueue b\n{nodes}job a1 tasks=2 required=rack")
    assert nodes_of(ran) == {"B1": 2}


def test_room_being_released_is_promised_in_one_rack():
    nodes = "node A1 rack=A | b1> .\nnode B1 rack=B | b2> b2>\n"
    ran = after(f"queue a\nqueue b\n{nodes}job a1 tasks=2 required=rack")
    assert len(set(ran.promised.values())) == 1


@pytest.mark.parametrize(
    ("constraint", "reason", "message"),
    [
        (
            TopologyConstraint("q", "rack"),
            "NoSuchTopology",
            "there is no topology q",
        ),
        (
            TopologyConstraint("", "rack"),
            "NoSuchTopology",
            "it requires the level rack, but names no topology",
        ),
        (
            TopologyConstraint("t", "racks"),
            "NoSuchTopologyLevel",
            "topology t has no level racks; did you mean rack?",
        ),
        (
            TopologyConstraint("t", "rack"),
            "NoDomainHasRoom",
            "no rack has room for its 4 pods together: best is rack B, short by 1 pod",
        ),
    ],
)
def test_the_reason_says_what_is_missing(constraint, reason, message):
    ran = (
        ClusterBuilder()
        .topology("t", rack="example.com/rack")
        .queue("a")
        .node("A1", gpu=2, labels={"example.com/rack": "A"})
        .node("B1", gpu=4, labels={"example.com/rack": "B"})
        .job("v1", queue="a", running={"B1": 1})
        .job("a1", queue="a", tasks=4, topology=constraint)
        .run("allocate")
    )
    (record,) = ran.result.records
    assert (record.reason, record.message) == (reason, message)


def test_an_unknown_name_in_a_wish_has_no_effect():
    ran = (
        ClusterBuilder()
        .queue("a")
        .node("A1", gpu=2)
        .job("a1", queue="a", tasks=2, topology=TopologyConstraint("t", "", "rack"))
        .run("allocate")
    )
    assert nodes_of(ran) == {"A1": 2}


def test_without_the_plugin_a_required_level_is_refused_not_ignored():
    world = draw(
        "queue a\nnode A1 rack=A | . .\njob a1 tasks=2 required=rack\njob a2 preferred=rack"
    )
    off = {"plugins": {"topology": {"enabled": False}}}
    ran: Any = world.after("allocate", shard=off).ran
    assert ran.reasons == {"a1": "Unsupported"}
    assert list(ran.placed) == ["a2-0"]


def grouped(free: dict[str, int], sizes: list[int], required: str = "rack"):
    """Run a gang of subgroups of these sizes, each in one rack; a rack is one node."""
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    for rack, gpus in free.items():
        builder.node(rack, gpu=gpus, labels={"rack": rack})
    wish = TopologyConstraint("t", required)
    leaves = tuple(Group(f"g{at}", size, topology=wish) for at, size in enumerate(sizes))
    podsets = [leaf.name for leaf in leaves for _ in range(leaf.minimum or 0)]
    groups = Group("", None, leaves)
    builder.job("a1", queue="a", tasks=sum(sizes), groups=groups, podsets=podsets)
    return builder.run("allocate")


def test_each_subgroup_has_a_rack_of_its_own():
    ran = grouped({"A": 3, "B": 2}, [2, 3])
    assert {ran.placed["a1-0"], ran.placed["a1-1"]} == {"B"}
    assert {ran.placed[f"a1-{at}"] for at in (2, 3, 4)} == {"A"}


def test_a_gang_waits_whole_if_one_subgroup_finds_no_rack():
    assert grouped({"A": 3, "B": 3}, [2, 2, 2]).placed == {}


def test_subgroups_that_block_each_other_are_placed_in_another_order():
    """Largest first and tightest first, 4 + 4 leave one place in each rack: 4 + 3 + 2 twice fit."""
    assert len(grouped({"A": 9, "B": 9}, [4, 4, 3, 3, 2, 2]).placed) == 18


def test_the_search_ends():
    assert grouped(dict.fromkeys("ABCDEF", 5), [3] * 11).placed == {}


def test_a_gang_of_subgroups_without_constraints_waits_beside_one_with_them():
    """There is no set of nodes to choose for its subgroups: the search must not call that done."""
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    builder.node("A", gpu=2, labels={"rack": "A"}).job("a0", queue="a")
    for name, wish in (("a1", TopologyConstraint("t", "rack")), ("a2", None)):
        leaves = tuple(Group(part, 1, topology=wish) for part in ("g0", "g1"))
        groups = Group("", None, leaves)
        builder.job(name, queue="a", tasks=2, groups=groups, podsets=("g0", "g1"))
    ran = builder.run("allocate")
    assert list(ran.placed) == ["a0-0"]
    assert sorted(ran.reasons) == ["a1", "a2"]


@pytest.mark.parametrize(("pods", "tries"), [(2, 16), (128, 16), (512, 4), (5000, 0)])
def test_large_gangs_are_tried_on_fewer_choices_of_few_racks(pods, tries):
    assert most_tried(pods) == tries


def test_subgroups_in_written_order():
    assert len(grouped({"A": 9, "B": 9}, [4, 3, 2, 4, 3, 2]).placed) == 18


def segments(minimum: list[int], racks: dict[str, int]):
    """Run a gang of ten pods in segments of 4, 4 and 2, each in one rack; a rack is one node."""
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    for rack, gpus in racks.items():
        builder.node(rack, gpu=gpus, labels={"rack": rack})
    wish = TopologyConstraint("t", "rack")
    leaves = tuple(Group(f"s{at}", pods, topology=wish) for at, pods in enumerate(minimum))
    podsets = [f"s{at // 4}" for at in range(10)]
    builder.job("a1", queue="a", tasks=10, groups=Group("", None, leaves), podsets=podsets)
    return builder.run("allocate")


@pytest.mark.parametrize(
    ("racks", "placed"),
    [
        ({"A": 4, "B": 6}, {"A": 4, "B": 6}),
        ({"A": 4, "B": 4, "C": 1}, {"A": 4, "B": 4, "C": 1}),
        ({"A": 4, "B": 3, "C": 9}, {"A": 4, "C": 4, "B": 2}),
        ({"A": 4, "B": 3, "C": 3}, {}),
    ],
    ids=["all", "a part of the last", "the last in a third rack", "a segment in two racks"],
)
def test_segments_that_the_minimum_needs_are_whole_and_the_last_grows(racks, placed):
    """Of ten pods eight are needed: two segments of four are, and pods of the last may follow."""
    assert nodes_of(segments([4, 4, 0], racks)) == placed


INDEX = "batch.kubernetes.io/job-completion-index"


def ranked(builder: ClusterBuilder, indexes: list[str]) -> list[str]:
    """Run the last job with these indexes of its pods; return the node of each index."""
    job = builder._jobs[-1]
    tasks = [
        replace(task, labels={**task.labels, INDEX: index} if index else task.labels)
        for task, index in zip(job.tasks, indexes, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    ran = builder.run("allocate")
    return [ran.placed[f"a1-{indexes.index(str(at))}"] for at in range(len(indexes))]


def test_neighbours_in_index_are_neighbours_in_the_network():
    """Path sum 4 and ring sum 6 are the least of all orders: 8 pods on 4 nodes in 2 racks."""
    builder = ClusterBuilder().topology("t", "zone", "rack", "host").queue("a")
    for name, gpus in (("A1", 2), ("B1", 3), ("A2", 2), ("B2", 1)):
        place = {"zone": "z", "rack": name[0], "host": name}
        builder.node(name, gpu=gpus, labels=place)
    builder.job("a1", queue="a", tasks=8, topology=TopologyConstraint("t", "zone", "rack"))
    nodes = ranked(builder, ["3", "0", "7", "5", "1", "2", "6", "4"])
    assert nodes == ["A1", "A1", "A2", "A2", "B1", "B1", "B1", "B2"]


def test_ten_comes_after_two():
    builder = ClusterBuilder().topology("t", "rack", "host").queue("a")
    for name in ("n0", "n1"):
        builder.node(name, gpu=6, labels={"rack": "r", "host": name})
    builder.job("a1", queue="a", tasks=12, topology=TopologyConstraint("t", "rack"))
    assert ranked(builder, [str(at) for at in range(12)]) == ["n0"] * 6 + ["n1"] * 6


@pytest.mark.parametrize("second", ["0", "", "x"], ids=["doubled", "missing", "no number"])
def test_without_an_index_each_pods_go_as_nodes_are_chosen(second):
    builder = ClusterBuilder().topology("t", "rack", "host").queue("a")
    for name in ("n0", "n1"):
        builder.node(name, gpu=1, labels={"rack": "r", "host": name})
    builder.job("a1", queue="a", tasks=2, topology=TopologyConstraint("t", "rack"))
    job = builder._jobs[-1]
    first, other = job.tasks
    tasks = [replace(first, labels={INDEX: "0"}), replace(other, labels={INDEX: second})]
    builder._jobs[-1] = replace(job, tasks=tasks[::-1])
    assert builder.run("allocate").placed == {"a1-0": "n0", "a1-1": "n1"}


def test_the_only_subgroup_of_a_job_has_its_own_constraint():
    builder = nodes_in_racks(("A1", 1), ("B1", 2), ("C1", 3))
    leaf = Group("default", 3, topology=TopologyConstraint("t", "rack"))
    ran = builder.job("a1", queue="a", tasks=3, groups=Group("all", 1, (leaf,))).run("allocate")
    assert nodes_of(ran) == {"C1": 3}
