"""Gangs that no domain of their required level could ever hold (C7)."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched import TopologyConstraint
from kaisched.actions.consolidate import _Consolidation
from kaisched.actions.eviction.evicting import Evicting
from kaisched.testing import ClusterBuilder, draw
from kaisched.testing.builder import Group
from kaisched_plugins.topology.tests.gangs import asking, racks

RACK = TopologyConstraint("t", "rack")
NONE = "no rack could hold its 4 pods together even if nothing else ran:"
TOO_LARGE, FULL = "NoDomainIsLargeEnough", "NoDomainHasRoom"


def told(builder: ClusterBuilder, *actions: str) -> tuple[str, str]:
    """Return the reason of the only job that waits, and the sentence."""
    (record,) = builder.run("allocate", *actions).result.records
    return record.reason, record.message


def test_a_gang_that_is_larger_than_every_rack_is_told_the_bound_and_no_victim_is_searched():
    world: Any = draw("""
        queue a  deserved=9
        queue v
        node A1 rack=A | v1 v1 .
        node B1 rack=B | v2 v2
        job v1 tasks=2
        job v2 tasks=2
        job a1 tasks=5 required=rack
    """)
    done = world.after("allocate", "reclaim", "preempt", "consolidate").ran
    (record,) = done.result.records
    assert done.evicted == {}
    assert record.reason == TOO_LARGE
    assert record.message == (
        "no rack could hold its 5 pods together even if nothing else ran:"
        " best is rack A, short by 2 pods"
    )
    assert record.numbers == {"pods": 5, "fit": 3, "domains": 2, "best": "rack A"}


def test_what_other_work_holds_is_no_bound():
    """Whoever could start once all others have ended is told of the room that there is now."""
    builder = racks(("A1", 4), ("B1", 2)).job("v1", queue="v", tasks=4, running={"A1": 4})
    builder.job("a1", queue="a", tasks=4, topology=RACK)
    assert told(builder)[0] == FULL


@pytest.mark.parametrize(("pods", "tried"), [(5, 0), (4, 1)])
@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize(
    ("action", "where"),
    [("reclaim", Evicting), ("preempt", Evicting), ("consolidate", _Consolidation)],
)
def test_no_victims_are_searched_for_a_gang_that_is_too_large(
    action, where, is_part, pods, tried, monkeypatch
):
    searched = []
    real = where._plan

    def plan(*asked: Any) -> Any:
        searched.append(asked)
        return real(*asked)

    monkeypatch.setattr(where, "_plan", plan)
    builder = racks(("A1", 4), ("B1", 2), ("C1", 2))
    builder.job("v1", queue="v", tasks=2, min_tasks=1, running={"A1": 2}, priority=40)
    builder.job("v2", queue="a", tasks=1, running={"A1": 1}, priority=40)
    constraint: dict[str, Any] = {"topology": RACK}
    if is_part:
        constraint = {"groups": Group("all", 1, (Group("default", pods, topology=RACK),))}
    builder.job("a1", queue="a", tasks=pods, priority=60, **constraint)
    builder.run("allocate", action)
    assert len(searched) == tried


def test_a_node_that_joins_or_gets_its_label_cures_it():
    def world(*sizes: tuple[str, int]) -> ClusterBuilder:
        return racks(*sizes).job("a1", queue="a", tasks=5, topology=RACK)

    first = world(("A1", 4), ("B1", 2)).run("allocate")
    assert first.reasons == {"a1": TOO_LARGE}
    after = world(("A1", 4), ("A2", 1), ("B1", 2)).run("allocate", memory=first.memory)
    assert len(after.placed) == 5


def test_a_cordoned_node_does_not_count_until_it_is_back_and_the_sentence_says_so():
    builder = racks(("A1", 2), ("B1", 1))
    builder.node("A2", gpu=2, labels={"rack": "A"}, is_unschedulable=True)
    builder.job("a1", queue="a", tasks=4, topology=RACK)
    assert told(builder) == (
        TOO_LARGE,
        f"{NONE} best is rack A, short by 2 pods; 1 node of it is down or cordoned",
    )


def test_the_cordoned_node_may_be_in_a_rack_that_has_less_now():
    builder = racks(("A1", 2), ("B1", 3))
    builder.node("A2", gpu=2, labels={"rack": "A"}, is_unschedulable=True)
    builder.job("a1", queue="a", tasks=4, topology=RACK)
    assert told(builder) == (
        TOO_LARGE,
        f"{NONE} best is rack B, short by 1 pod; 1 node of others is down or cordoned",
    )


def test_pods_of_several_kinds_are_counted_kind_by_kind():
    """Rack A holds the pod without a GPU and two of the three others."""
    builder = racks(("A1", 2), ("B1", 1))
    asking(builder.job("a1", queue="a", tasks=4, topology=RACK), {"gpu": 0})
    assert told(builder) == (TOO_LARGE, f"{NONE} best is rack A, short by at least 1 pod")


def test_a_rack_has_to_hold_all_kinds():
    """Rack A holds the two pods with GPUs, rack B the two that ask for much CPU."""
    builder = racks(("A1", 2), cpu=8).node("B1", gpu=0, cpu=64, labels={"rack": "B"})
    wide = {"gpu": 0, "cpu": 30_000}
    asking(builder.job("a1", queue="a", tasks=4, topology=RACK), wide, wide)
    assert told(builder)[0] == TOO_LARGE


def test_pods_that_share_gpus_are_counted_by_amounts_and_the_sentence_says_so():
    """Rack A has one GPU, and each pod asks for a half of two: none fits, by amounts one."""
    builder = racks(("A1", 1), ("B1", 1))
    builder.job("a1", queue="a", tasks=2, gpu=0.5, cards=2, topology=RACK)
    assert told(builder)[1].endswith("best is rack A, short by at least 1 pod")


def test_labels_that_a_job_selects_count_and_pods_of_others_do_not():
    builder = racks(("A1", 4), ("A2", 4))
    builder.job("a1", queue="a", tasks=5, on=["A1"], topology=RACK)
    assert told(builder)[0] == TOO_LARGE


@pytest.mark.parametrize(("gpu", "pods", "reason"), [(0.5, 5, TOO_LARGE), (0.6, 3, FULL)])
def test_parts_of_gpus_are_bounded_by_amounts(gpu, pods, reason):
    """Two GPUs hold two shares of 0.6; by amounts there would be three: an upper bound."""
    builder = racks(("A1", 2)).job("a1", queue="a", tasks=pods, gpu=gpu, topology=RACK)
    assert told(builder)[0] == reason


def test_parts_of_gpus_that_wait_for_room_are_counted_on_cards():
    builder = racks(("A1", 2)).job("v1", queue="v", running={"A1": 1})
    builder.job("a1", queue="a", tasks=3, gpu=0.5, topology=RACK)
    assert told(builder) == (
        FULL,
        "no rack has room for its 3 pods together: best is rack A, short by 1 pod",
    )


def test_what_runs_already_binds_the_rest_and_is_told_as_ever():
    builder = racks(("A1", 2), ("B1", 8))
    builder.job("a1", queue="a", tasks=4, min_tasks=1, running={"A1": 2}, topology=RACK)
    assert told(builder) == (
        FULL,
        "pods of it run in rack A, which has no room for its pod: short by 1 pod",
    )


def test_the_rest_of_a_gang_that_runs_in_part_is_told_as_ever_though_no_rack_could_hold_it():
    builder = racks(("A1", 1), ("B1", 2))
    builder.job("a1", queue="a", tasks=4, running={"A1": 1}, topology=RACK)
    assert told(builder)[0] == FULL


@pytest.mark.parametrize("needed", [2, 1])
def test_a_subgroup_that_has_to_start_counts_too(needed):
    """Rack A holds three: the workers are four, and the job needs them or may do without."""
    builder = racks(("A1", 3))
    parts = (Group("head", 1), Group("workers", 4, topology=RACK))
    builder.job(
        "a1",
        queue="a",
        tasks=5,
        groups=Group("all", needed, parts),
        podsets=["head", *["workers"] * 4],
        running={"A1": 1} if needed == 1 else None,
    )
    said, message = told(builder)
    assert (said == TOO_LARGE) == (needed == 2)
    if needed == 2:
        assert message == f"subgroup workers: {NONE} best is rack A, short by 1 pod"


def test_subgroups_inside_of_one_count_together():
    """Each of two fits in a rack of three; the group around them, with four pods, does not."""
    inner = Group("both", None, (Group("x", 2), Group("y", 2)), topology=RACK)
    builder = racks(("A1", 3), ("B1", 3)).job(
        "a1",
        queue="a",
        tasks=5,
        groups=Group("all", None, (Group("head", 1), inner)),
        podsets=["head", "x", "x", "y", "y"],
    )
    assert told(builder) == (TOO_LARGE, f"subgroup both: {NONE} best is rack A, short by 1 pod")


def test_subgroups_of_which_some_are_enough_are_not_counted_together():
    inner = Group("both", 1, (Group("x", 2), Group("y", 2)), topology=RACK)
    builder = racks(("A1", 3)).job(
        "a1",
        queue="a",
        tasks=5,
        groups=Group("all", None, (Group("head", 1), inner)),
        podsets=["head", "x", "x", "y", "y"],
    )
    assert {"a1-0", "a1-1", "a1-2"} <= builder.run("allocate").placed.keys()


def test_a_subgroup_inside_of_another_counts_too():
    inner = Group("both", None, (Group("x", 4, topology=RACK), Group("y", 1)))
    builder = racks(("A1", 3), ("B1", 3)).job(
        "a1",
        queue="a",
        tasks=6,
        groups=Group("all", None, (Group("head", 1), inner)),
        podsets=["head", "x", "x", "x", "x", "y"],
    )
    assert told(builder) == (TOO_LARGE, f"subgroup x: {NONE} best is rack A, short by 1 pod")


def test_one_more_pod_of_a_subgroup_whose_rack_is_full_hears_so():
    builder = racks(("A1", 2), ("B1", 2)).job(
        "a1",
        queue="a",
        tasks=4,
        podsets=["x", "x", "x", "y"],
        groups=Group("all", None, (Group("x", 2, topology=RACK), Group("y", 1))),
    )
    assert told(builder) == (
        FULL,
        "subgroup x: pods of it run in rack A, which has no room for its pod: short by 1 pod",
    )


def test_a_subgroup_of_which_pods_run_is_told_as_ever_though_no_rack_could_hold_all_of_it():
    builder = racks(("A1", 2), ("B1", 3)).job(
        "a1",
        queue="a",
        tasks=5,
        podsets=["x", "x", "x", "x", "y"],
        running={"A1": 2},
        groups=Group("all", None, (Group("x", 4, topology=RACK), Group("y", 1))),
    )
    assert told(builder)[0] == FULL


def test_of_pods_of_several_kinds_any_may_be_those_that_a_subgroup_needs():
    """Rack A has no room for both that ask for two GPUs; it has for the two others."""
    parts = (Group("head", 1), Group("workers", 2, topology=RACK))
    builder = racks(("A1", 3)).job(
        "a1",
        queue="a",
        tasks=5,
        groups=Group("all", None, parts),
        podsets=["head", *["workers"] * 4],
    )
    asking(builder, {}, {}, {}, {"gpu": 2000}, {"gpu": 2000})
    assert {"a1-0", "a1-1", "a1-2"} <= builder.run("allocate").placed.keys()


@pytest.mark.parametrize("of_head", [None, RACK])
def test_a_subgroup_for_which_every_rack_is_too_full_now_is_named(of_head):
    """Each of its two pods has room, in two racks, and the other subgroup has room as well."""
    builder = racks(("A1", 2), ("B1", 2), ("C1", 1))
    for node in ("A1", "B1"):
        builder.job(f"v{node}", queue="v", running={node: 1})
    parts = (Group("head", 1, topology=of_head), Group("workers", 2, topology=RACK))
    builder.job(
        "a1",
        queue="a",
        tasks=3,
        groups=Group("all", None, parts),
        podsets=["head", "workers", "workers"],
    )
    reason, sentence = told(builder)
    assert reason == FULL
    assert sentence == (
        "subgroup workers: no rack has room for its 2 pods together: best is rack A, short by 1 pod"
    )


def test_the_cordoned_node_is_not_said_to_be_in_the_domain_with_most_slices_if_it_is_in_another():
    """Rack A could hold nine pods, but not one slice of four on a host; rack B holds two."""
    wish = TopologyConstraint("", "rack", slices=(("host", 4),), is_pod_set=True)
    builder = ClusterBuilder().topology("t", "rack", "host").queue("a", deserved=12)
    for name, gpus, is_down in (
        ("A1", 3, False),
        ("A2", 3, False),
        ("A3", 3, False),
        ("A4", 8, True),
        ("B1", 4, False),
        ("B2", 4, False),
    ):
        place = {"rack": name[0], "host": name}
        builder.node(name, gpu=gpus, labels=place, is_unschedulable=is_down)
    builder.job("a1", queue="a", tasks=12, topology=wish)
    assert told(builder)[1] == (
        "no rack could hold its 3 slices of 4 pods together even if nothing else ran:"
        " best is rack B, short by 1 slice; 1 node of others is down or cordoned"
    )


@pytest.mark.parametrize("needed", [2, 1])
@pytest.mark.parametrize(
    ("wish", "reason", "sentence"),
    [
        (TopologyConstraint("s", "rack"), "NoSuchTopology", "there is no topology s"),
        (
            TopologyConstraint("t", "rak"),
            "NoSuchTopologyLevel",
            "topology t has no level rak; did you mean rack?",
        ),
    ],
)
def test_a_subgroup_that_names_what_does_not_exist_says_so(wish, reason, sentence, needed):
    """If the job may do without the subgroup nothing is refused for it."""
    parts = (Group("head", 1), Group("workers", 2, topology=wish))
    builder = racks(("A1", 3)).job(
        "a1",
        queue="a",
        tasks=3,
        groups=Group("all", needed, parts),
        podsets=["head", "workers", "workers"],
    )
    if needed == 2:
        assert told(builder) == (reason, f"subgroup workers: {sentence}")
    else:
        assert builder.run("allocate").placed == {"a1-0": "A1"}


@pytest.mark.parametrize("wish", [TopologyConstraint("s", "rack"), RACK])
def test_a_subgroup_that_needs_no_pod_keeps_no_job_from_starting(wish):
    """Neither one that names what does not exist, nor one that no rack could hold."""
    parts = (Group("head", 1), Group("workers", 0, topology=wish))
    builder = racks(("A1", 3)).job(
        "a1",
        queue="a",
        tasks=6,
        groups=Group("all", None, parts),
        podsets=["head", *["workers"] * 5],
    )
    assert builder.run("allocate").placed["a1-0"] == "A1"


def crowded(seed: int, only: str = "") -> ClusterBuilder:
    """Build nodes with running pods, and gangs, some with parts, that wait; or one gang alone."""
    rng = Random(seed)
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("v").queue("a", deserved=8)
    nodes = [f"n{at}" for at in range(rng.randint(2, 5))]
    for name in nodes:
        place = {"zone": f"z{rng.randint(1, 2)}", "rack": f"r{rng.randint(1, 2)}"}
        builder.node(name, gpu=rng.randint(1, 4), labels=place if rng.random() < 0.9 else {})
        cpu = rng.choice([1, 900])
        if not only:
            builder.job(f"v-{name}", queue="v", gpu=0, cpu=cpu, running={name: 1})
    for number in range(rng.randint(2, 5)):
        pods, wish = rng.randint(1, 9), TopologyConstraint("t", rng.choice(["zone", "rack"]))
        size: dict[str, Any] = {"gpu": rng.choice([0.3, 0.5, 1, 2]), "cpu": rng.choice([1, 300])}
        on = rng.choice([(), (), rng.sample(nodes, 2)])
        parts: dict[str, Any] = {"topology": wish}
        if rng.random() < 0.4:
            few = rng.randint(0, 1)
            leaves = (Group("x", few), Group("y", rng.randint(1, pods), topology=wish))
            names = ["x"] * few + ["y"] * pods
            parts = {"groups": Group("", rng.choice([None, 1]), leaves), "podsets": names}
            pods = len(names)
        if only in ("", f"j{number}"):
            builder.job(f"j{number}", queue="a", tasks=pods, on=on, **size, **parts)
    return builder


@given(st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
def test_who_is_told_so_would_not_start_in_the_empty_cluster(seed):
    """The bound is never too low, whatever runs, for shares of GPUs and subgroups too."""
    refused = crowded(seed).run().reasons
    for job, reason in refused.items():
        if reason == TOO_LARGE:
            assert crowded(seed, job).run("allocate").placed == {}
