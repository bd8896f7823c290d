"""What a store rests on can be written down, and a store made of it shows the same."""

import pytest

from kaisched.cluster.rowstore import JobPast
from kaisched.cluster.state import Assumed, Kept, restored
from kaisched.cluster.store import StateStore, update
from kaisched.core.axis import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.load import load_text
from kaisched.objects.pod import Pod
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import Gang, PartialObject
from kaisched.testing.builder import policy_of

OBJECTS = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "4", x.io/nic: "2", pods: "110"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  {name: %s, namespace: team, uid: %s, labels: {kai.scheduler/queue: a}}
spec:
  schedulerName: kaisched
  nodeName: "%s"
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
status: {phase: %s, startTime: "2026-07-01T12:00:00Z"}
---
"""


@pytest.fixture
def told():
    """A store and what is kept of all it was told: two pods run, two wait."""
    store, kept = StateStore(), Kept()
    text = OBJECTS
    for number, phase in enumerate(("Running", "Running", "Pending", "Pending")):
        text += POD % (f"p{number}", f"u{number}", "n0" if phase == "Running" else "", phase)
    for obj in load_text(text).objects:
        update(store, obj)
        kept.put(obj)
    return store, kept


def shown(store):
    """What a cycle decides on a store, and the states of its pods."""
    snapshot = store.snapshot()
    result, _ = run_cycle(snapshot, None, policy_of(), 1e9, Memory())
    states = dict(zip(snapshot.tasks.name, snapshot.tasks.state.tolist(), strict=True))
    return result.encode(), states


def again(store, kept):
    state = kept.state_of(store)
    objects = load_text(b"\n".join(state.objects), "kept.json").objects
    return restored(objects, state, ["kaisched"], "", ["nvidia.com/gpu"]), state


def test_objects_alone_make_the_same_store(told):
    store, kept = told
    other, state = again(store, kept)
    assert shown(other) == shown(store)
    assert len(state.objects) == 6
    assert (state.assumed, state.extended) == ((), ())
    assert state.past["team/pg-p0-u0"] == JobPast(1782907200.0, None)


def test_what_was_sent_and_not_confirmed_is_part_of_it(told):
    store, kept = told
    store.assume_evicted("team/p0", 1e9)
    store.assume_bound("team/p2", "n0")
    other, state = again(store, kept)
    assert state.assumed == (Assumed("team/p0", "n0", True), Assumed("team/p2", "n0", False))
    assert state.past["team/pg-p0-u0"].evicted_s == 1e9
    assert shown(other) == shown(store)
    _, states = shown(other)
    assert states["team/p0"] == TaskState.RELEASING
    assert states["team/p2"] == TaskState.BINDING


@pytest.mark.fault("I124")
def test_a_promise_that_no_status_shows_is_part_of_it(told):
    store, kept = told
    store.assume_evicted("team/p0", 1e9)
    store.promise("team/p3", "n0")
    other, state = again(store, kept)
    promise = Assumed("team/p3", "n0", is_leaving=False, is_promise=True)
    assert state.assumed == (Assumed("team/p0", "n0", True), promise)
    assert shown(other) == shown(store)
    row = other.rows.row_of_task("team/p3")
    assert other.snapshot().tasks.nominated_node[row] == other.rows.row_of_node("n0")


def test_a_resource_that_nobody_asks_for_any_more_still_counts(told):
    store, kept = told
    store.rows.widen_axis(["x.io/nic"])
    other, state = again(store, kept)
    assert state.extended == ("x.io/nic",)
    assert other.rows.axis == store.rows.axis
    assert shown(other) == shown(store)


def test_a_pod_that_came_in_the_place_of_another_is_kept():
    kept = Kept()
    old, new = (
        Pod(metadata=ObjectMeta(name="p", namespace="team", uid=uid), spec={}) for uid in "ab"
    )
    kept.put(new)
    kept.drop(old)
    assert len(kept.bare_state().objects) == 1
    kept.drop(new)
    assert kept.bare_state().objects == ()


def test_owners_of_which_only_metadata_are_known_are_kept(told):
    store, kept = told
    meta = ObjectMeta(name="j", namespace="team", uid="job", labels={"kai.scheduler/queue": "a"})
    job = PartialObject(metadata=meta, api_version="batch/v1", kind="Job", gang=Gang(minimum=2))
    kept.put(job)
    update(store, job)
    _, state = again(store, kept)
    assert [(it.kind, it.api_group, it.gang.minimum) for it in state.owners] == [
        ("Job", "batch", 2)
    ]
    kept.drop(job)
    update(store, job, is_gone=True)
    assert kept.bare_state().owners == ()
