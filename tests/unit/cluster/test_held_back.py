"""Pods whose bind failed wait, longer each time, and begin anew once they are bound or gone."""

import pytest

from kaisched.cluster.facts import LEAST_S, MOST_S, HeldBack
from kaisched.cluster.store import update
from kaisched.core.axis import TaskState
from tests.contract.clusters import pod
from tests.faults.deciding import decide, placed, store_of


def state_of(store):
    return TaskState(int(store.snapshot().tasks.state[store.rows.row_of_task("ns/p")]))


@pytest.mark.fault("A10")
def test_each_failure_makes_the_pause_twice_as_long():
    held, now_s, pauses = HeldBack(), 0.0, []
    for _ in range(12):
        held.add("p", now_s)
        begin_s = now_s
        while not held.pop_due(now_s):
            assert "p" in held
            now_s += 0.5
        pauses.append(now_s - begin_s)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == MOST_S
    held.forget("p")
    held.add("p", now_s)
    assert held.pop_due(now_s + LEAST_S) == ["p"]


def test_those_who_are_due_come_by_name():
    held = HeldBack()
    for key in ("b", "a", "c"):
        held.add(key, 0.0)
    held.add("c", 0.0)
    assert held.pop_due(1.0) == ["a", "b"]
    assert held.pop_due(1.0) == []


@pytest.mark.fault("A10")
def test_a_pod_that_could_not_be_bound_is_not_decided_meanwhile():
    store = store_of(pod("p", uid="1"), pod("q"))
    store.assume_bound("ns/p", "n0")
    store.hold_back("ns/p", 100.0)
    assert state_of(store) == TaskState.GATED
    assert placed(decide(store)) == {"q": "n0"}
    update(store, pod("p", uid="1", annotations={"some": "news"}))
    store.let_go(100.9)
    assert state_of(store) == TaskState.GATED
    store.let_go(101.0)
    assert placed(decide(store)) == {"p": "n0", "q": "n0"}


def test_a_pod_that_is_bound_or_gone_is_held_back_no_more():
    store = store_of(pod("p", uid="1"))
    store.assume_bound("ns/p", "n0")
    store.hold_back("ns/p", 100.0)
    update(store, pod("p", uid="1", where="n0"))
    assert state_of(store) == TaskState.BOUND
    store.assume_bound("ns/p", "n0")
    store.hold_back("ns/p", 100.0)
    update(store, pod("p", uid="1"), is_gone=True)
    update(store, pod("p", uid="2"))
    assert state_of(store) == TaskState.PENDING
    store.hold_back("ns/nobody", 100.0)
    store.let_go(1e9)


def test_one_that_changes_as_it_ends_is_forgotten():
    store = store_of(pod("p", uid="1"))
    store.hold_back("ns/p", 0.0)
    update(store, pod("p", uid="1", labels={"other": "x"}, phase="Succeeded"))
    update(store, pod("p", uid="1"), is_gone=True)
    assert "ns/p" not in store.facts.held_back
    assert not store.facts.held_back._pause_s
