"""Gangs of unequal pods that fit, although the best node for each pod leaves too little."""

from dataclasses import replace

import pytest

from kaisched import TopologyConstraint
from kaisched.actions.room import placing
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

IN_A_RACK = TopologyConstraint("t", "rack")
SIZES = (2, 2, 1, 1, 1)
"""GPUs of each pod, which has one core."""
FITS = {"a1-0": "x", "a1-1": "y", "a1-2": "y", "a1-3": "z", "a1-4": "z"}


def gang(*, levels=("rack",), y=2, of_pair=None, of_rest=None, **options):
    """Build three nodes and a gang of a pair, a single pod and twins.

    =====  ====  ====  =====
    node   rack  GPUs  cores
    =====  ====  ====  =====
    x      A     2     2
    y      A     3     2
    z      B     2     6
    =====  ====  ====  =====

    All 7 GPUs are needed. Node y has cores for two pods: they have to hold 2 GPUs and 1. So one of
    the pair has to be on y, although both fit on x and z exactly, which a pod by itself prefers.
    """
    builder = ClusterBuilder().queue("a").queue("v")
    if levels:
        builder.topology("t", *levels)
    builder.node("x", gpu=2, cpu=2, labels={"rack": "A"})
    builder.node("y", gpu=3, cpu=y, labels={"rack": "A"})
    builder.node("z", gpu=2, cpu=6, labels={"rack": "B"})
    parts = (
        Group("pair", 2, topology=of_pair),
        Group("single", 1, topology=of_rest),
        Group("twins", 2, topology=of_rest),
    )
    podsets = ["pair", "pair", "single", "twins", "twins"]
    builder.job("a1", queue="a", tasks=5, podsets=podsets, groups=Group("", None, parts), **options)
    return sized(builder)


def sized(builder):
    """Let the pods of the last job ask for GPUs by :data:`SIZES`."""
    job = builder._jobs[-1]
    tasks = [
        replace(task, request={**task.request, "gpu": gpus * 1000})
        for task, gpus in zip(job.tasks, SIZES, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return builder


def test_it_starts_with_a_constraint_that_rules_the_wrong_choice_out():
    """The pair has to be in rack A, where there are two nodes for it."""
    assert gang(of_pair=IN_A_RACK, of_rest=IN_A_RACK).run("allocate").placed == FITS


def test_it_starts_without_it_too():
    assert gang().run("allocate").placed == FITS


@pytest.mark.parametrize("wish", ["job", "subgroups"])
def test_it_does_not_wait_for_a_wish(wish):
    """No rack holds all of it; of subgroups the pair alone would do so, but takes the wrong one."""
    rack = TopologyConstraint("t", "", "rack")
    asked = {"topology": rack} if wish == "job" else {"of_pair": rack, "of_rest": rack}
    assert gang(**asked).run("allocate").placed == FITS


def test_it_does_not_leave_a_level_that_it_requires():
    assert gang(topology=IN_A_RACK).run("allocate").placed == {}


def test_nothing_else_is_tried_where_there_is_no_topology(monkeypatch):
    """Then there are no constraints, and gangs are placed as ever."""
    monkeypatch.setattr(placing, "pack", lambda *_: 1 / 0)
    assert gang(levels=()).run("allocate").placed == {}


def test_nothing_else_is_tried_where_a_kind_of_pods_has_too_little_room(monkeypatch):
    """Only node y has room for a pod of 3 GPUs, and the pair are two of them."""
    monkeypatch.setattr(placing, "pack", lambda *_: 1 / 0)
    monkeypatch.setattr("tests.unit.actions.test_packing.SIZES", (3, 3, 1, 1, 1))
    assert gang().run("allocate").placed == {}


def test_nothing_else_is_tried_for_equal_pods(monkeypatch):
    """Counting has told: there is room for 3 pods of 2 GPUs."""
    monkeypatch.setattr(placing, "pack", lambda *_: 1 / 0)
    monkeypatch.setattr("tests.unit.actions.test_packing.SIZES", (2,) * 5)
    assert gang().run("allocate").placed == {}


def test_nothing_else_is_tried_for_pods_that_fit_as_they_come(monkeypatch):
    monkeypatch.setattr(placing, "place_packed", lambda *_, **__: 1 / 0)
    assert len(gang(y=3).run("allocate").placed) == 5


def test_room_that_is_being_released_is_promised_in_the_same_way():
    """Both GPUs of node z are still held: the gang waits for them as a whole."""
    builder = gang().job("v1", queue="v", gpu=2, leaving={"z": 1})
    ran = builder.run("allocate")
    assert (ran.placed, ran.promised) == ({}, FITS)


def test_where_a_pod_is_refused_after_all_nothing_is_placed(monkeypatch):
    """Plugins have the last word: they may bound pods by others that were placed before."""
    monkeypatch.setattr(placing, "pack", lambda *_: [[0, 0], [0, 0, 0]])
    assert gang().run("allocate").placed == {}
