"""Turns through node pools: which jobs may be passed on, and which could start here after all."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kaisched.cluster.pools.handover import is_hopeless, refused
from kaisched.core.axis import TaskState
from kaisched.core.refusals import FIRST_OF_PLUGINS, Refusal
from tests.contract.clusters import pod
from tests.unit.cluster.pools.test_lists import job_of, two
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in

NO_ROOM, BY_POLICY = int(Refusal.NO_ROOM), FIRST_OF_PLUGINS


def blocked(second=1):
    """A world in which the first pool is full."""
    world = two(first=1, second=second)
    world.load(pod("block", "a", 1, labels={POOL: "h100"}, uid="block"))
    world.cycle()
    return world


def test_a_job_with_a_pod_on_a_node_is_not_refused():
    records = SimpleNamespace(rows=np.arange(2), codes=np.array([NO_ROOM, NO_ROOM]))
    snapshot = SimpleNamespace(jobs=SimpleNamespace(active=np.array([1, 0])))
    found = refused(snapshot, SimpleNamespace(records=records))
    assert list(found) == [(1, NO_ROOM)]


@pytest.mark.parametrize(
    ("state", "has_succeeded", "is_sent", "is_free"),
    [
        (TaskState.PENDING, False, False, True),
        (TaskState.RUNNING, False, False, False),
        (TaskState.GONE, True, False, False),
        (TaskState.PENDING, False, True, False),
    ],
)
def test_a_job_is_free_while_no_pod_of_it_is_anywhere(state, has_succeeded, is_sent, is_free):
    world = blocked(second=8)
    world.load(listed("x", "h100,a100"))
    world.cycle()
    store = world.ports["h100"].store
    assert world.pool_of(job_of(world, "x")) == "h100"
    row = replace(store.pods.pod("ns/x"), state=state, has_succeeded=has_succeeded)
    if is_sent:
        store.assume_bound("ns/x", "h0")
    job = SimpleNamespace(pods={"ns/x": (row, None)})
    assert world.turns["h100"].is_free(job) is is_free


def hopeless(gpus, code, quota, *, is_preemptible=False, total=8):
    world = World("h100")
    labels = {
        "kai.scheduler/preemptibility": "preemptible" if is_preemptible else "non-preemptible"
    }
    world.load(node_in("h100", "h0", total), queue_in("h100", "above", -1))
    world.load(queue_in("h100", "a", quota, parent="above"))
    world.load(pod("x", "a", gpus, labels={POOL: "h100", **labels}, uid="x"))
    snapshot = world.cluster.snapshot_of(world.ports["h100"].store)
    return is_hopeless(snapshot, 0, code)


@pytest.mark.parametrize(
    ("gpus", "code", "quota", "is_preemptible", "answer"),
    [
        (5, BY_POLICY, 4, False, True),
        (4, BY_POLICY, 4, False, False),
        (5, BY_POLICY, -1, False, False),
        (5, BY_POLICY, 4, True, False),
        (5, NO_ROOM, 4, False, False),
        (9, NO_ROOM, -1, True, True),
        (8, NO_ROOM, -1, True, False),
    ],
)
def test_what_no_end_of_other_work_could_cure_is_hopeless(
    gpus, code, quota, is_preemptible, answer
):
    assert hopeless(gpus, code, quota, is_preemptible=is_preemptible) is answer


def test_a_stay_that_has_ended_is_not_the_next_to_end():
    world = blocked()
    world.load(listed("x", "h100,a100"))
    world.cycle()
    turns = world.turns["h100"]
    assert turns.next_end_s(9.0, lambda _: True) == 10.0
    assert turns.next_end_s(10.0, lambda _: True) is None
    assert turns.next_end_s(9.0, lambda _: False) is None


def test_a_job_that_comes_again_under_its_name_has_a_first_stay_again():
    world = blocked()
    world.load(pod("there", "a-there", 1, labels={POOL: "a100"}, uid="there"))
    world.cycle()
    world.load(listed("x", "h100,a100"))
    world.run_to(25)
    assert [at for at, _, _ in world.moves] == [10, 20]
    world.delete(world.cluster.pod("ns/x"))
    world.cycle()
    world.load(listed("x", "h100,a100", uid="again"))
    world.run_to(36)
    assert [at for at, _, _ in world.moves] == [10, 20, 35]


@pytest.mark.parametrize(
    ("created_s", "evicted_s", "now_s", "is_soon"),
    [
        (0.0, np.nan, 95.0, True),
        (0.0, np.nan, 94.0, False),
        (0.0, np.nan, 100.0, False),
        (0.0, np.nan, 101.0, False),
        (0.0, 50.0, 95.0, False),
        (0.0, 50.0, 145.0, True),
    ],
)
def test_a_job_waits_for_its_time_to_evict_if_that_is_near(created_s, evicted_s, now_s, is_soon):
    turns = two(patience_s=5.0).turns["h100"]
    jobs = SimpleNamespace(
        created_s=np.array([created_s]),
        last_evicted_s=np.array([evicted_s]),
        preemption_delay_s=np.array([100.0]),
    )
    assert turns._may_evict_soon(SimpleNamespace(jobs=jobs), 0, now_s) is is_soon
