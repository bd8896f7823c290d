"""The sixth promise: what statuses say, beside what the API holds."""

import pytest

from tests.chaos.statuses import untrue

WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}


def pod(name, node="n", gpus=2, conditions=(), **meta):
    return {
        "metadata": {
            "namespace": "t",
            "name": name,
            "uid": name,
            "labels": {"kai.scheduler/queue": "q"},
            **meta,
        },
        "spec": {
            "schedulerName": "kaisched",
            **({"nodeName": node} if node else {}),
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": list(conditions)},
    }


def queue(name, gpus=None, parent=""):
    status = {} if gpus is None else {"allocated": {"nvidia.com/gpu": gpus, "cpu": "0"}}
    spec = {"parentQueue": parent} if parent else {}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def wrong(pods=(), groups=(), queues=()):
    return [who for who, _ in untrue(pods, groups, queues)]


def test_p6_a_pod_on_a_node_is_not_said_to_wait():
    assert wrong([pod("a", conditions=[WAITS])]) == ["pod t/a"]
    assert wrong([pod("a", node="", conditions=[WAITS])]) == []
    assert wrong([pod("a", conditions=[{**WAITS, "status": "True"}])]) == []


@pytest.mark.parametrize(("said", "expected"), [("4", []), ("2", ["queue q"]), (None, ["queue q"])])
def test_p6_a_queue_says_what_its_pods_hold(said, expected):
    assert wrong([pod("a"), pod("b"), pod("w", node="")], queues=[queue("q", said)]) == expected


def test_p6_a_queue_holds_what_those_below_it_hold():
    queues = [queue("q", "2", parent="top"), queue("top", "0")]
    assert wrong([pod("a")], queues=queues) == ["queue top"]


def test_p6_a_pod_belongs_to_the_queue_of_its_group():
    group = {"metadata": {"namespace": "t", "name": "g", "uid": "g"}, "spec": {"queue": "other"}}
    member = pod("a", annotations={"pod-group-name": "g"})
    assert wrong([member], [group], [queue("q", "0"), queue("other", "2")]) == []


def test_p6_amounts_are_not_compared_while_a_pod_leaves():
    leaving = pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert wrong([leaving], queues=[queue("q", "0")]) == []
