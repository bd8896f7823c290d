"""Pods whose owner is not seen yet wait for it, for a while, where owners are watched."""

import pytest

from kaisched.cluster.events import remove, upsert
from kaisched.cluster.unsettled import PATIENCE_S, Unsettled
from kaisched.core.states import TaskState
from tests.contract.clusters import pod
from tests.unit.cluster.test_grouping_table import job_set, owned, owner, spark
from tests.unit.cluster.test_groups import job, jobs, store_of

SPEC = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
PODS = [owned(name, ("PyTorchJob", "t")) for name in "pq"]


def states(store):
    s = store.snapshot()
    found = {name.removeprefix("ns/"): TaskState(int(s.tasks.state[at]))
             for at, name in enumerate(s.tasks.name)}  # fmt: skip
    return {name: state for name, state in found.items() if state != TaskState.GONE}


def test_who_waits_and_for_how_long():
    waits = Unsettled()
    waits.note("p", is_unsettled=True)
    assert "p" not in waits  # nobody asked for the time yet
    assert waits.turn(10.0) == ["p"]
    waits.note("q", is_unsettled=True)
    assert waits.turn(12.0) == ["q"]
    assert ("p" in waits, "q" in waits) == (True, True)
    waits.note("p", is_unsettled=True)
    assert waits.turn(10.0 + PATIENCE_S) == ["p"]
    assert ("p" in waits, "q" in waits) == (False, True)
    waits.note("p", is_unsettled=True)
    assert waits.turn(100.0) == ["q"]  # p has waited
    waits.note("p", is_unsettled=False)
    waits.note("p", is_unsettled=True)
    assert waits.turn(100.0) == ["p"]


@pytest.mark.fault("A14")
def test_a_pod_waits_for_its_owner_and_starts_with_its_gang():
    store = store_of(*PODS)
    store.let_go(100.0)
    assert states(store) == dict.fromkeys("pq", TaskState.GATED)
    assert store.pending_pods("ns/pg-t-uid-t") == []  # nothing to be told yet
    upsert(store, owner("PyTorchJob", "t", spec=SPEC))
    assert [key for key, _ in store.pending_pods("ns/pg-t-uid-t")] == ["ns/p", "ns/q"]
    assert states(store) == dict.fromkeys("pq", TaskState.PENDING)
    assert job(store)["minimum"] == 2


@pytest.mark.fault("D67")
def test_a_pod_whose_owner_never_comes_goes_on_without_it():
    store = store_of(*PODS)
    store.let_go(100.0)
    upsert(store, owned("p", ("PyTorchJob", "t"), annotations={"some": "news"}))
    store.let_go(100.0 + PATIENCE_S / 2)
    assert set(states(store).values()) == {TaskState.GATED}
    store.let_go(100.0 + PATIENCE_S)
    assert set(states(store).values()) == {TaskState.PENDING}
    upsert(store, owned("p", ("PyTorchJob", "t"), annotations={"more": "news"}))
    store.let_go(200.0)
    assert set(states(store).values()) == {TaskState.PENDING}


@pytest.mark.parametrize("missing", ["s", "s-workers-0"])
def test_any_owner_of_the_chain_is_waited_for(missing):
    objects = job_set()
    store = store_of(*(obj for obj in objects if obj.metadata.name != missing))
    store.let_go(100.0)
    assert states(store)["s-workers-0-0"] == TaskState.GATED
    upsert(store, next(obj for obj in objects if obj.metadata.name == missing))
    assert set(states(store).values()) == {TaskState.PENDING}


def test_an_executor_waits_for_its_driver():
    store = store_of(spark("exec-1", "executor", "Pod", "driver"))
    store.let_go(100.0)
    assert states(store) == {"exec-1": TaskState.GATED}
    upsert(store, spark("driver", "driver"))
    assert set(states(store).values()) == {TaskState.PENDING}


def test_pods_of_unknown_kinds_and_bare_pods_do_not_wait():
    store = store_of(owned("p", ("Widget", "w")), pod("q"))
    store.let_go(100.0)
    assert set(states(store).values()) == {TaskState.PENDING}


def test_pods_that_run_do_not_wait():
    store = store_of(owned("p", ("PyTorchJob", "t"), where="n0", phase="Running"))
    store.let_go(100.0)
    assert states(store) == {"p": TaskState.RUNNING}


def test_where_no_owners_are_watched_nobody_waits():
    """Manifests and recordings hold what they hold."""
    store = store_of(*PODS)
    assert set(states(store).values()) == {TaskState.PENDING}
    assert list(jobs(store).values()) == [["p", "q"]]


def test_a_pod_that_is_gone_is_forgotten():
    store = store_of(*PODS)
    store.let_go(100.0)
    remove(store, PODS[0])
    store.let_go(200.0)
    assert states(store) == {"q": TaskState.PENDING}
