"""Pods whose owner is not seen yet wait for it, for a while, where owners are watched."""

import pytest

from kaisched.cluster.members import OWNER_WAIT_S, Unsettled
from kaisched.cluster.state import Kept, restored
from kaisched.cluster.store import update
from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.engine.policy import build_policy
from kaisched.objects.shard import GPU_RESOURCES, SchedulingShard
from tests.contract.clusters import make, node, pod, queue
from tests.faults.deciding import decide, placed
from tests.unit.cluster.test_grouping_table import job_set, owned, owner, spark
from tests.unit.cluster.test_groups import job, jobs, store_of

SPEC = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
WAITS = "waits for its owner"
PODS = [owned(name, ("PyTorchJob", "t")) for name in "pq"]


def states(store):
    """Pod to its state, or WAITS for one that is kept from every node until its owner is read."""
    s = store.snapshot()
    found = {}
    for at, name in enumerate(s.tasks.name):
        state = TaskState(int(s.tasks.state[at]))
        wait = s.shapes.constraints[s.tasks.shape_of_task[at]].wait
        is_kept = state == TaskState.PENDING and wait is not None
        assert not is_kept or wait[0] == Refusal.OWNER_NOT_READ
        found[name.removeprefix("ns/")] = WAITS if is_kept else state
    return {name: state for name, state in found.items() if state != TaskState.GONE}


def test_who_waits_and_for_how_long():
    waits = Unsettled(5.0)
    waits.note("p", is_unsettled=True)
    assert "p" not in waits  # nobody asked for the time yet
    assert waits.cycle(10.0) == ["p"]
    waits.note("q", is_unsettled=True)
    assert waits.cycle(12.0) == ["q"]
    assert ("p" in waits, "q" in waits) == (True, True)
    waits.note("p", is_unsettled=True)
    assert waits.cycle(15.0) == ["p"]
    assert ("p" in waits, "q" in waits) == (False, True)
    waits.note("p", is_unsettled=True)
    assert waits.cycle(100.0) == ["q"]  # p has waited
    waits.note("p", is_unsettled=False)
    waits.note("p", is_unsettled=True)
    assert waits.cycle(100.0) == ["p"]


@pytest.mark.fault("A14")
def test_a_pod_waits_for_its_owner_and_starts_with_its_gang():
    store = store_of(*PODS)
    store.let_go(100.0)
    assert states(store) == dict.fromkeys("pq", WAITS)
    (record,) = decide(store).records
    assert (record.pod_group, record.reason) == ("ns/pg-t-uid-t", "OwnerNotRead")
    assert (
        "its owner PyTorchJob t is not read yet; ownerWait of the shard bounds this"
        in record.message
    )
    update(store, owner("PyTorchJob", "t", spec=SPEC))
    assert [key for key, _ in store.pending_pods("ns/pg-t-uid-t")] == ["ns/p", "ns/q"]
    assert states(store) == dict.fromkeys("pq", TaskState.PENDING)
    assert job(store)["minimum"] == 2


@pytest.mark.fault("D67")
def test_a_pod_whose_owner_never_comes_goes_on_without_it():
    store = store_of(*PODS)
    store.let_go(100.0)
    update(store, owned("p", ("PyTorchJob", "t"), annotations={"some": "news"}))
    store.let_go(100.0 + OWNER_WAIT_S / 2)
    assert set(states(store).values()) == {WAITS}
    store.let_go(100.0 + OWNER_WAIT_S)
    assert set(states(store).values()) == {TaskState.PENDING}
    update(store, owned("p", ("PyTorchJob", "t"), annotations={"more": "news"}))
    store.let_go(200.0)
    assert set(states(store).values()) == {TaskState.PENDING}


@pytest.mark.parametrize("missing", ["s", "s-workers-0"])
def test_any_owner_of_the_chain_is_waited_for(missing):
    objects = job_set()
    store = store_of(*(obj for obj in objects if obj.metadata.name != missing))
    store.let_go(100.0)
    assert states(store)["s-workers-0-0"] == WAITS
    update(store, next(obj for obj in objects if obj.metadata.name == missing))
    assert set(states(store).values()) == {TaskState.PENDING}


def test_an_executor_waits_for_its_driver():
    store = store_of(spark("exec-1", "executor", "Pod", "driver"))
    store.let_go(100.0)
    assert states(store) == {"exec-1": WAITS}
    update(store, spark("driver", "driver"))
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
    update(store, PODS[0], is_gone=True)
    store.let_go(100.0 + OWNER_WAIT_S)
    assert states(store) == {"q": TaskState.PENDING}


def test_the_limit_is_the_shard_s_and_nobody_starts_before_it():
    policy, _ = build_policy(make(SchedulingShard, "s", spec={"ownerWait": "10m"}))
    assert policy.owner_wait_s == 600.0
    store = store_of(*PODS, owner_wait_s=policy.owner_wait_s)
    for at_s in (100.0, 699.0):
        store.let_go(at_s)
        assert placed(decide(store)) == {}
    assert set(store.members.unsettled.waited) == set()
    store.let_go(700.0)
    assert set(placed(decide(store))) == {"p", "q"}
    assert set(store.members.unsettled.waited) == {"ns/p", "ns/q"}


def test_a_pod_with_a_claim_waits_for_its_owner_too():
    """Each of the two is told in turn."""
    claimed = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    store = store_of(owned("p", ("PyTorchJob", "t"), spec=claimed))
    store.set_volumes_read(is_read=True)
    store.let_go(100.0)
    assert [it.reason for it in decide(store).records] == ["VolumeClaim"]
    store.set_volumes_read(is_read=False)
    assert [it.reason for it in decide(store).records] == ["OwnerNotRead"]
    update(store, owner("PyTorchJob", "t"))
    assert set(placed(decide(store))) == {"p"}


def test_who_waits_is_in_a_state_that_is_written_down():
    store, kept = store_of(PODS[0]), Kept()
    store.let_go(100.0)
    for obj in (node("n0"), queue("a"), PODS[0]):
        kept.put(obj)
    state = kept.state_of(store)
    assert state.without_owner == ("ns/p",)
    objects = [node("n0"), queue("a"), PODS[0]]
    again = restored(objects, state, ("kaisched",), "", GPU_RESOURCES)
    assert states(again) == {"p": WAITS}
