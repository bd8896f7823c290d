"""A gang that needs some of its subgroups starts others where its first ones find no room."""

from dataclasses import replace

import pytest

from kaisched.core.axis import TaskState
from kaisched.core.tables import TopologyConstraint
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group


def gang(builder: ClusterBuilder, needed: int, queue: str = "q", **parts: object) -> ClusterBuilder:
    """Add job g, which needs so many of its subgroups: each has pods of so many GPUs.

    A text among the amounts names the only node where the pod may go.
    """
    sets = {name: [*pods] for name, pods in parts.items()}  # type: ignore[misc]
    root = Group("", needed, tuple(Group(name, len(pods)) for name, pods in sets.items()))
    podsets = [name for name, pods in sets.items() for _ in pods]
    gpus = [number for pods in sets.values() for number in pods]
    builder.job("g", queue=queue, tasks=len(podsets), groups=root, podsets=podsets)
    job = builder._jobs[-1]
    tasks = [
        replace(task, name=f"{name}-{at}", request={**task.request, "gpu": number * 1000})
        for at, (task, name, number) in enumerate(zip(job.tasks, podsets, gpus, strict=True))
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return builder


def cluster(**nodes: int) -> ClusterBuilder:
    builder = ClusterBuilder().queue("q", deserved=100)
    for name, gpus in nodes.items():
        builder.node(name, gpu=gpus)
    return builder


def test_the_first_subgroups_start_where_they_fit() -> None:
    ran = gang(cluster(n=4), 2, a=[1], b=[1], c=[1]).run("allocate")
    assert set(ran.placed) == {"a-0", "b-1", "c-2"}  # c follows as one that is not needed


def test_a_subgroup_larger_than_every_node_is_left_behind() -> None:
    ran = gang(cluster(n=4), 2, a=[8], b=[1], c=[1]).run("allocate")
    assert set(ran.placed) == {"b-1", "c-2"}


def test_a_subgroup_that_finds_no_room_now_is_left_behind() -> None:
    builder = cluster(n=8).job("other", queue="q", tasks=1, gpu=4, running={"n": 1})
    ran = gang(builder, 2, a=[1], b=[6], c=[1]).run("allocate")
    assert set(ran.placed) == {"a-0", "c-2"}


def test_what_room_there_is_may_be_in_pieces_too_small() -> None:
    """By amounts the first two fit; only placing them shows that they do not."""
    ran = gang(cluster(n=3, m=3), 2, a=[2, 2, 2], b=[1], c=[3]).run("allocate")
    assert set(ran.placed) == {"b-3", "c-4"}


def test_the_first_subgroup_is_left_behind_if_the_others_do_not_fit_beside_it() -> None:
    ran = gang(cluster(n=8), 2, a=[8], b=[2], c=[2]).run("allocate")
    assert set(ran.placed) == {"b-1", "c-2"}


def test_of_equal_subgroups_those_that_fit_stay() -> None:
    ran = gang(cluster(n=4), 2, a=[3], b=[3], c=[1]).run("allocate")
    assert set(ran.placed) == {"a-0", "c-2"}


def test_none_starts_where_too_few_fit() -> None:
    ran = gang(cluster(n=4), 2, a=[8], b=[1], c=[8]).run("allocate")
    assert ran.placed == {}


def test_all_that_are_needed_are_never_replaced() -> None:
    ran = gang(cluster(n=4), 3, a=[8], b=[1], c=[1]).run("allocate")
    assert ran.placed == {}


def test_a_subgroup_that_finds_no_room_does_not_keep_others_from_growing() -> None:
    ran = gang(cluster(n=4), 1, a=[1], b=[8], c=[1]).run("allocate")
    assert set(ran.placed) == {"a-0", "c-2"}


def test_of_subgroups_with_equal_pods_the_one_that_needs_fewer_may_fit() -> None:
    builder = gang(cluster(n=5), 1, a=[3, 3], b=[3, 3])
    root = Group("", 1, (Group("a", 2), Group("b", 1)))
    builder._jobs[-1] = replace(builder._jobs[-1], root=root)
    assert {name[0] for name in builder.run("allocate").placed} == {"b"}


def test_a_group_below_that_needs_some_of_its_subgroups_starts_others() -> None:
    builder = gang(cluster(n=4), 2, a=[8], b=[1], c=[1])
    some = Group("some", 1, (Group("a", 1), Group("b", 1)))
    root = Group("", 2, (some, Group("c", 1)))
    builder._jobs[-1] = replace(builder._jobs[-1], root=root)
    assert set(builder.run("allocate").placed) == {"b-1", "c-2"}


def test_another_subgroup_grows_where_all_are_needed_and_the_first_finds_no_room() -> None:
    builder = gang(cluster(n=4), 2, a=[1, 8], b=[1, 1])
    job = builder._jobs[-1]
    running = {"state": TaskState.RUNNING, "node": "n"}
    tasks = [
        replace(task, **running) if at in (0, 2) else task for at, task in enumerate(job.tasks)
    ]
    root = Group("", 2, (Group("a", 1), Group("b", 1)))
    builder._jobs[-1] = replace(job, root=root, tasks=tasks)
    assert set(builder.run("allocate").placed) == {"b-3"}


@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidate"])
def test_room_is_made_for_others_where_no_node_could_hold_the_first(action: str) -> None:
    builder = ClusterBuilder().queue("q", deserved=4).queue("r")
    builder.node("n", gpu=4).node("m", gpu=4)
    if action == "consolidate":
        builder.job("x", queue="q", gpu=1, running={"n": 1})
        builder.job("y", queue="q", gpu=1, running={"m": 1})
        builder = gang(builder, 1, a=[8], b=[4], c=[1])
    else:
        other = "r" if action == "reclaim" else "q"
        builder.job("x", queue=other, gpu=4, running={"n": 1}, priority=10)
        builder.job("y", queue=other, gpu=4, running={"m": 1}, priority=10)
        builder = gang(builder, 2, a=[8], b=[2], c=[2])
    ran = builder.run(action)
    assert {name[0] for name in ran.promised if name[0] in "abc"} >= {"b"}
    assert "a-0" not in ran.promised


def test_the_record_tells_what_those_lack_that_could_start() -> None:
    """Nobody can make room for a; b and c wait for what runs."""
    builder = cluster(n=4).job("other", queue="q", gpu=4, running={"n": 1})
    reason = gang(builder, 2, a=[8], b=[1], c=[1]).run("allocate").reasons["g"]
    assert "larger than" not in reason
    assert "no node" not in reason


@pytest.mark.parametrize(("level", "started"), [("hall", "bc"), ("rack", "abc")])
def test_a_subgroup_whose_level_does_not_exist_is_left_behind(level: str, started: str) -> None:
    builder = cluster().topology("t", "rack")
    for name in "nm":
        builder.node(name, gpu=2, labels={"rack": name})
    parts = [
        Group("a", 1, topology=TopologyConstraint("t", level)),
        Group("b", 1, topology=TopologyConstraint("t", "rack")),
        Group("c", 1),
    ]
    builder.job("g", queue="q", tasks=3, groups=Group("", 2, tuple(parts)), podsets="abc")
    ran = builder.run("allocate")
    assert {"abc"[int(name[-1])] for name in ran.placed} == set(started)


@pytest.mark.parametrize("is_gone", [False, True])
def test_others_wait_for_room_together_and_keep_it(is_gone: bool) -> None:
    builder = cluster(n=4).job("x", queue="q", gpu=4, leaving={"n": 1})
    ran = gang(builder, 2, a=[8], b=[2], c=[2]).run("allocate")
    assert (ran.placed, ran.promised) == ({}, {"b-1": "n", "c-2": "n"})
    later = cluster(n=4)
    if not is_gone:
        later.job("x", queue="q", gpu=4, leaving={"n": 1})
    later.job("y", queue="q", gpu=4)  # older than the gang, and without a promise
    gang(later, 2, a=[8], b=[2], c=[2])
    job = later._jobs[-1]
    tasks = [replace(it, nominated=ran.promised.get(it.name, "")) for it in job.tasks]
    later._jobs[-1] = replace(job, tasks=tasks)
    ran = later.run("allocate")
    assert (ran.placed if is_gone else ran.promised) == {"b-1": "n", "c-2": "n"}
