"""A bind and an eviction of one pod, under way at once: what is taken back, and what is left."""

import pytest
from msgspec.structs import replace

from kaisched.cluster.state import Assumed, Kept, restored
from kaisched.cluster.store import StateStore, update
from kaisched.core.axis import GPU, TaskState
from tests.contract.clusters import group, node, pod, queue
from tests.oracles.accounts import assert_adds_up

OTHER_POOL = {"kai.scheduler/node-pool": "other"}


@pytest.fixture
def store():
    """A store with a bind under way: all eight GPUs of n0 for pod p."""
    store = StateStore()
    for obj in (node("n0"), node("n1"), queue("a"), waiting()):
        update(store, obj)
    store.assume_bound("ns/p", "n0")
    return store


def waiting(**rest):
    return pod("p", gpus=8, uid="1", **rest)


def stands(store):
    """(State, node, idle GPUs of n0) of the one pod; None for no pod."""
    s = store.snapshot()
    assert_adds_up(s)
    rows = [row for row in range(len(s.tasks.name)) if s.tasks.state[row] != TaskState.GONE]
    idle = int(s.nodes.idle[GPU, s.nodes.name.index("n0")]) if "n0" in s.nodes.name else None
    if not rows:
        return None, "", idle
    (row,) = rows
    at = int(s.tasks.node_of_task[row])
    return TaskState(int(s.tasks.state[row])).name, s.nodes.name[at] if at >= 0 else "", idle


@pytest.mark.fault("I121")
def test_an_old_state_of_a_victim_that_is_being_bound_frees_nothing(store):
    update(store, waiting(status={"nominatedNodeName": "n0"}))
    assert stands(store) == ("BINDING", "n0", 0)
    store.assume_evicted("ns/p", 1.0)
    update(store, waiting(status={"nominatedNodeName": "n0"}))
    assert stands(store) == ("RELEASING", "n0", 0)
    update(store, waiting(where="n0"))
    assert stands(store) == ("RELEASING", "n0", 0)
    update(store, waiting(), is_gone=True)
    assert stands(store) == (None, "", 8000)


def test_a_refuted_eviction_leaves_the_bind(store):
    store.assume_evicted("ns/p", 1.0)
    store.refute_eviction("ns/p", "1")
    assert stands(store) == ("BINDING", "n0", 0)


def test_a_refuted_bind_leaves_the_eviction(store):
    """The pod is about to go: it holds nothing, and is not decided again."""
    store.assume_evicted("ns/p", 1.0)
    store.refute_bind("ns/p", "1")
    assert stands(store) == ("GATED", "", 8000)
    store.refute_eviction("ns/p", "1")
    assert stands(store) == ("PENDING", "", 8000)


def test_what_was_said_of_a_former_pod_is_not_meant(store):
    store.assume_evicted("ns/p", 1.0)
    store.refute_bind("ns/p", "0")
    store.refute_eviction("ns/p", "0")
    store.hold_back("ns/p", 1.0, "0")
    assert stands(store) == ("RELEASING", "n0", 0)


def test_a_pod_of_the_same_name_has_not_been_bound(store):
    update(store, replace_uid(waiting(), "2"))
    assert stands(store) == ("PENDING", "", 8000)
    assert "ns/p" not in store.facts.sent


def replace_uid(obj, uid):
    return replace(obj, metadata=replace(obj.metadata, uid=uid))


def test_a_read_takes_back_only_what_was_sent_before_it(store):
    sent = store.facts.sent.of("ns/p")
    store.assume_evicted("ns/p", 1.0)
    store.refute("ns/p", sent)
    assert stands(store) == ("GATED", "", 8000)  # the bind came to nothing, the eviction may not


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"labels": {"x": "y"}}, id="labelled"),
        pytest.param({"labels": OTHER_POOL}, id="sent to another pool"),
        pytest.param({"annotations": {"pod-group-name": "g"}}, id="in another group"),
        pytest.param({"spec": {"schedulingGates": [{"name": "x"}]}}, id="as it was with gates"),
    ],
)
def test_a_pod_that_changes_while_it_is_bound_keeps_its_room(store, changed):
    update(store, group("g"))
    update(store, waiting(**changed))
    assert stands(store) == ("BINDING", "n0", 0)
    store.assume_evicted("ns/p", 1.0)
    update(store, waiting(**changed))
    assert stands(store) == ("RELEASING", "n0", 0)


def test_a_pod_that_left_the_pool_is_nobody_s_once_it_could_not_be_bound(store):
    store.hold_back("ns/p", 1.0)
    store.assume_bound("ns/p", "n0")
    update(store, waiting(labels=OTHER_POOL))
    store.hold_back("ns/p", 2.0)
    store.let_go(1000.0)
    assert stands(store) == (None, "", 8000)


@pytest.mark.parametrize("labels", [{}, OTHER_POOL])
def test_room_is_held_on_a_node_that_goes_and_comes_back(store, labels):
    update(store, waiting(labels=labels))
    store.remove_node("n0")
    assert stands(store)[1:] == ("", None)
    update(store, node("n0"))
    assert stands(store) == ("BINDING", "n0", 0)


def test_a_pod_that_is_deleted_without_a_node_can_never_be_bound(store):
    leaving = waiting(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"})
    update(store, leaving)
    assert stands(store) == (None, "", 8000)


def test_bind_and_eviction_are_both_written_down(store):
    kept = Kept()
    for obj in (node("n0"), node("n1"), queue("a"), waiting()):
        kept.put(obj)
    store.assume_evicted("ns/p", 1.0)
    state = kept.state_of(store)
    bind, eviction = Assumed("ns/p", "n0", is_leaving=False), Assumed("ns/p", "n0", is_leaving=True)
    assert state.assumed == (bind, eviction)
    objects = (node("n0"), node("n1"), queue("a"), waiting())
    again = restored(objects, state, {"kaisched"}, "", ("nvidia.com/gpu",))
    assert stands(again) == ("RELEASING", "n0", 0)
    again.refute_eviction("ns/p")
    assert stands(again) == ("BINDING", "n0", 0)
