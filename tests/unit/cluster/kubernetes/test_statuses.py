"""Statuses by themselves: what counts as said, since when, and which pod groups changed."""

import pytest

from kaisched.cluster.kubernetes.statuses import GroupAmounts, matches, queue_statuses, stamped
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.errors import ObjectError
from kaisched.framework.report.records import Problem, QueueShare

READY = {"type": "Ready", "status": "True", "reason": "Usable", "message": ""}


@pytest.fixture
def store():
    store = RowStore()
    store.put_queue(QueueRow("a", quota={"gpu": 2000}))
    return store


def add(store, name, gpus, pods, *, is_preemptible=True):
    shape = store.intern_shape({"gpu": gpus * 1000})
    tasks = [(f"{name}-{number}", shape) for number in range(pods)]
    store.add_job(name, "a", priority=50, is_preemptible=is_preemptible, created_s=0.0, tasks=tasks)


def told(amounts, snapshot, is_declared=lambda _: True, also=()):
    changed = amounts.changed(snapshot, is_declared, also)
    return {job: status["resourcesStatus"] for job, status in changed}


@pytest.mark.parametrize(
    ("said", "is_said"),
    [
        (None, False),
        ("nonsense", False),
        ({}, False),
        ({"childQueues": None, "conditions": [READY]}, True),
        ({"conditions": [{**READY, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}, True),
        ({"conditions": [READY], "theirs": 1}, True),
        ({"childQueues": ["b"], "conditions": [READY]}, False),
        ({"conditions": ["nonsense"]}, False),
    ],
)
def test_what_counts_as_said(said, is_said):
    assert matches(said, {"childQueues": [], "conditions": [READY]}) == is_said


@pytest.mark.parametrize(
    ("said", "time"),
    [
        (None, "now"),
        ({"conditions": None}, "now"),
        ({"conditions": ["nonsense"]}, "now"),
        ({"conditions": [{**READY, "lastTransitionTime": "then"}]}, "then"),
        ({"conditions": [{**READY, "status": "False", "lastTransitionTime": "then"}]}, "now"),
    ],
)
def test_a_condition_is_as_old_as_its_status(said, time):
    (condition,) = stamped({"conditions": [READY]}, said, "now")["conditions"]
    assert condition == {**READY, "lastTransitionTime": time}


def test_only_groups_that_changed_are_told(store):
    add(store, "team/one", 1, 2)
    add(store, "team/two", 2, 1, is_preemptible=False)
    amounts = GroupAmounts()
    gpus = {
        job: it["requested"]["nvidia.com/gpu"]
        for job, it in told(amounts, store.snapshot()).items()
    }
    assert gpus == {"team/one": "2", "team/two": "2"}
    assert told(amounts, store.snapshot()) == {}
    store.set_state(store.row_of_task("team/two-0"), TaskState.RUNNING, -1)
    ((job, status),) = told(amounts, store.snapshot()).items()
    assert job == "team/two"
    assert {key: it["nvidia.com/gpu"] for key, it in status.items()} == {
        "requested": "2",
        "allocated": "2",
        "allocatedNonPreemptible": "2",
    }
    add(store, "team/three", 1, 1)
    assert told(amounts, store.snapshot()).keys() == {"team/three"}
    store.set_state(store.row_of_task("team/two-0"), TaskState.GONE, -1)
    ((job, status),) = told(amounts, store.snapshot()).items()
    assert {it["nvidia.com/gpu"] for it in status.values()} == {"0"}


def test_memory_of_a_gpu_is_told_by_the_card_of_the_node(store):
    for name, mib in (("small", 40), ("large", 80)):
        amounts = {"cpu": 1000, "gpu": 1000, "pods": 9}
        store.put_node(NodeRow(name, amounts, card_mib=mib))
    store.settle()
    shape = store.intern_shape({}, Constraints(devices=DeviceDemand(0, 40)))
    tasks = [("team/j-0", shape)]
    store.add_job("team/j", "a", priority=50, is_preemptible=True, created_s=0.0, tasks=tasks)
    amounts, found = GroupAmounts(), []
    for node in (None, "small", "large"):
        if node is not None:
            store.set_state(
                store.row_of_task("team/j-0"), TaskState.RUNNING, store.row_of_node(node)
            )
        ((_, status),) = told(amounts, store.snapshot()).items()
        found.append([it["nvidia.com/gpu"] for it in status.values()])
    assert found == [["1", "0", "0"], ["1", "1", "0"], ["500m", "500m", "0"]]


def test_a_queue_that_is_not_used_holds_nothing_and_says_why(store):
    fault = ObjectError("no such queue", path="spec.parentQueue", value="nobody")
    problem = Problem("NoFairShare", "its jobs ask for gpu 5 and its fair share is 0")
    share = QueueShare("a", None, {"gpu": 0}, {"gpu": 3000}, {"gpu": 5000}, {"gpu": 2000}, problem)
    found = dict(queue_statuses(store.snapshot(), [share], {"lost": fault}))
    assert found["lost"]["allocated"] == {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}
    by_type = {it["type"]: it for it in found["lost"]["conditions"]}
    assert (by_type["Ready"]["status"], by_type["Orphan"]["status"]) == ("False", "True")
    assert "nobody" in by_type["Ready"]["message"]
    by_type = {it["type"]: it for it in found["a"]["conditions"]}
    assert by_type["Ready"]["reason"] == "NoFairShare"
    assert by_type["Ready"]["message"] == problem.message
    assert by_type["OverQuota"]["status"] == "True"


def test_a_pod_group_that_comes_after_its_pods_is_told(store):
    add(store, "team/one", 1, 2)
    amounts, snapshot = GroupAmounts(), store.snapshot()
    assert told(amounts, snapshot, lambda _: False) == {}
    assert told(amounts, snapshot) == {}
    row = store.row_of_job("team/one")
    assert told(amounts, snapshot, also=[row]).keys() == {"team/one"}
