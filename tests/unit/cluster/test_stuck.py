"""Pods that do not end hold their room, and nobody is made to wait for it."""

import math

import numpy as np
import pytest

from kaisched.cluster.facts import Stuck
from kaisched.cluster.pods import Leaving
from kaisched.cluster.state import Kept, restored
from kaisched.cluster.store import update
from kaisched.core.axis import GPU, TaskState
from kaisched.objects.shard import GPU_RESOURCES
from tests.contract.clusters import node, pod, queue
from tests.faults.deciding import NOW_S, decide, placed, store_of, told
from tests.oracles.accounts import assert_adds_up

NEW_YEAR_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""


def leaving(name="p", grace_s=30, **rest):
    meta = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": grace_s}
    return pod(name, "b", 8, where=rest.pop("where", "n0"), phase="Running", metadata=meta, **rest)


def state(store, name="p"):
    return store.rows.state_of(f"ns/{name}")


def gpus(store, what):
    s = store.snapshot()
    return int(getattr(s.nodes, what)[GPU, 0]) // 1000


# -- the clock -------------------------------------------------------------------------------------


def stuck_at(stuck, age_s, *, was_alive, skew_s=0.0, grace_s=30.0):
    """Return after how many seconds a pod is stuck that was asked to go so long ago."""
    now_s = 5000.0
    asked_s = NOW_S - age_s - skew_s
    stuck.note("p", Leaving(asked_s, grace_s), was_alive=was_alive)
    for later_s in range(5000):
        if stuck.cycle(now_s + later_s, NOW_S + later_s):
            return later_s
    return math.inf


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_pod_that_was_seen_alive_is_clocked_from_when_it_was_seen_to_leave(skew_s):
    assert stuck_at(Stuck(120.0), 1.0, was_alive=True, skew_s=skew_s) == 120


def test_of_a_pod_that_was_leaving_before_the_timestamps_are_taken():
    assert stuck_at(Stuck(120.0), 100.0, was_alive=False) == 20
    assert stuck_at(Stuck(120.0), 3600.0, was_alive=False) == 0


@pytest.mark.parametrize("asked_s", [math.nan, NOW_S + 1e6])
def test_a_time_that_makes_no_sense_counts_from_now(asked_s):
    assert stuck_at(Stuck(120.0), NOW_S - asked_s, was_alive=False) == 120


def test_a_pod_has_its_grace_and_a_tenth_of_it():
    assert stuck_at(Stuck(120.0), 0.0, was_alive=True, grace_s=600.0) == 660
    assert stuck_at(Stuck(0.0), 0.0, was_alive=True, grace_s=0.0) == 0


def test_a_negative_threshold_is_for_ever():
    assert stuck_at(Stuck(-1.0), 1e6, was_alive=False) == math.inf


def test_who_deletes_again_may_give_less_time():
    stuck = Stuck(120.0)
    stuck.note("p", Leaving(NOW_S, 600.0), was_alive=True)
    assert stuck.cycle(0.0, NOW_S) == []
    stuck.note("p", Leaving(NOW_S, 0.0), was_alive=True)
    assert (stuck.cycle(119.0, NOW_S), stuck.cycle(120.0, NOW_S)) == ([], ["p"])
    stuck.note("p", None, was_alive=True)
    assert "p" not in stuck


# -- the store -------------------------------------------------------------------------------------


def test_a_stuck_pod_holds_its_room_which_is_promised_to_nobody():
    store = store_of(leaving(), pod("waits", gpus=8))
    assert (state(store), gpus(store, "idle"), gpus(store, "releasing")) == (
        TaskState.RELEASING,
        0,
        8,
    )
    assert [it.pod for it in decide(store).nominations] == ["ns/waits"]
    store.find_stuck(0.0, NEW_YEAR_S + 119.0)
    assert state(store) == TaskState.RELEASING
    store.find_stuck(1.0, NEW_YEAR_S + 120.0)
    assert (state(store), gpus(store, "idle"), gpus(store, "releasing")) == (
        TaskState.STUCK,
        0,
        0,
    )
    assert_adds_up(store.snapshot())
    result = decide(store)
    assert (placed(result), result.nominations, result.evictions) == ({}, [], [])
    update(store, leaving(uid="another"))  # a pod of its name that was never seen alive
    assert state(store) == TaskState.RELEASING
    update(store, leaving(uid="another"), is_gone=True)
    assert placed(decide(store)) == {"waits": "n0"}


def test_a_promise_on_the_room_of_a_stuck_pod_is_void_and_room_is_sought_elsewhere():
    waits = pod("waits", gpus=8, status={"nominatedNodeName": "n0"})
    other = pod("other", "b", 8, where="n1", phase="Running")
    store = store_of(leaving(), other, waits, node("n1"))
    told(store, queue("a", gpu=8), queue("b", gpu=0))
    assert [it.node for it in decide(store).nominations] == ["n0"]
    store.find_stuck(0.0, NOW_S)
    result = decide(store)
    assert [it.pod for it in result.evictions] == ["ns/other"]
    assert [(it.pod, it.node) for it in result.nominations] == [("ns/waits", "n1")]


def test_a_pod_of_others_that_does_not_end_is_counted_on_no_more_either():
    store = store_of(leaving(scheduler="default-scheduler"), pod("waits", gpus=8))
    assert gpus(store, "releasing") == 8
    store.find_stuck(0.0, NOW_S)
    assert gpus(store, "releasing") == 0
    assert_adds_up(store.snapshot())


def test_a_stuck_pod_whose_node_comes_later_is_still_one():
    store = store_of(leaving(where="n1"))
    store.find_stuck(0.0, NOW_S)
    update(store, node("n1"))
    s = store.snapshot()
    assert np.flatnonzero(s.tasks.state == TaskState.STUCK).size == 1
    assert_adds_up(s)


def test_who_is_stuck_is_in_a_state_that_is_written_down():
    objects = [node("n0"), queue("b"), leaving()]
    store, kept = told(store_of(), leaving()), Kept()
    for obj in objects:
        kept.put(obj)
    store.find_stuck(0.0, NOW_S)
    state_of = kept.state_of(store)
    assert state_of.stuck == ("ns/p",)
    again = restored(objects, state_of, ("kaisched",), "", GPU_RESOURCES)
    assert again.rows.state_of("ns/p") == TaskState.STUCK
    update(again, leaving(), is_gone=True)
    assert list(again.facts.stuck) == []
