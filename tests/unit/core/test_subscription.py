"""Quotas that promise more than there is: which queues, and with which words."""

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.statuses import queue_statuses
from kaisched.core.shares import over_subscribed
from kaisched.core.tree import roll_up
from kaisched.engine.planning import open_cluster
from kaisched.engine.policy import default_policy
from kaisched.framework.report.records import QueueShare
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", resources: %s}
---"""
BUSY = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "99"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team, labels: {kai.scheduler/queue: a, priorityClassName: build}}
status: {phase: Running}
spec:
  schedulerName: kaisched
  nodeName: n0
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "3"}}}]
---"""


def snapshot_of(*queues, more="", pool=""):
    spec = ShardSpec(partition_label_value=pool)
    shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=spec)
    cluster = open_cluster(shard, default_policy(), ManualClock(1000.0))
    loaded = load_text("".join(QUEUE % each for each in queues) + more)
    assert loaded.problems == []
    cluster.load(loaded.objects)
    return cluster.snapshot()


def found(*queues, more=""):
    return told_of(snapshot_of(*queues, more=more))


def told_of(snapshot):
    firm = roll_up(snapshot.allocated_non_preemptible, snapshot.queues.tree)
    told = over_subscribed(snapshot.queues, snapshot.queues.deserved, firm, snapshot.axis.names)
    return {snapshot.queues.name[row]: tuple(it) for row, it in told.items()}


ROOT = ("root", "", "{gpu: {quota: 10}}")


def test_children_may_have_all_of_the_quota_and_no_more():
    four = ("a", "root", "{gpu: {quota: 4}}")
    assert found(ROOT, four, ("b", "root", "{gpu: {quota: 6}}")) == {}
    assert found(ROOT, four, ("b", "root", "{gpu: {quota: 6.5}}")) == {
        "root": (
            "ChildrenAboveQuota",
            "the quotas of the queues below add up to 10.5 gpu, more than its own of 10",
        )
    }


def test_an_unlimited_parent_allows_all():
    assert found(("root", "", "{gpu: {quota: -1}}"), ("a", "root", "{gpu: {quota: 99}}")) == {}


IN_POOL = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s, labels: %s}
spec: {parentQueue: "%s", resources: {%s: {quota: %d}}}
---"""


@pytest.mark.parametrize("resource", ["gpu", "cpu", "memory"])
@pytest.mark.parametrize("pool", ["", "h100"])
@pytest.mark.parametrize(("second", "is_told"), [(60, False), (61, True)])
def test_it_is_told_of_each_resource_in_each_node_pool(resource, pool, second, is_told):
    """A queue of another pool does not count, whatever its quota."""
    label = "{kai.scheduler/node-pool: %s}"
    own = label % pool if pool else "{}"
    queues = [
        ("root", own, "", resource, 100),
        ("a", own, "root", resource, 40),
        ("b", own, "root", resource, second),
        ("c", label % "a100", "root", resource, 900),
    ]
    told = told_of(snapshot_of(more="".join(IN_POOL % each for each in queues), pool=pool))
    assert {name: it[0] for name, it in told.items()} == (
        {"root": "ChildrenAboveQuota"} if is_told else {}
    )


BOUNDLESS = (
    "the quotas of the queues below add up to an unlimited amount of gpu, more than its own of 10"
)


def test_an_unlimited_child_is_more_than_any_quota_of_gpus():
    told = found(ROOT, ("a", "root", "{gpu: {quota: -1}}"))
    assert told == {"root": ("ChildrenAboveQuota", BOUNDLESS)}


def test_a_child_that_does_not_name_a_resource_claims_none_of_it():
    root = ("root", "", "{gpu: {quota: 10}, cpu: {quota: 1000}}")
    assert found(root, ("a", "root", "{gpu: {quota: 1}}")) == {}


@pytest.mark.parametrize(("quota", "is_short"), [(3, False), (2, True)])
def test_work_that_must_not_be_evicted_needs_its_quota_at_every_level(quota, is_short):
    told = found(
        ("root", "", "{gpu: {quota: %d}}" % quota),  # noqa: UP031
        ("a", "root", "{gpu: {quota: %d}}" % quota),  # noqa: UP031
        more=BUSY,
    )
    text = "work that must not be evicted holds 3 gpu, more than the quota of 2"
    wanted = ("BelowNonPreemptible", text)
    assert told == ({"root": wanted, "a": wanted} if is_short else {})


def test_the_condition_of_a_queue_says_it():
    snapshot = snapshot_of(ROOT, ("a", "root", "{gpu: {quota: 11}}"))
    shares = share_rows(snapshot)
    told = {
        name: next(it for it in status["conditions"] if it["type"] == "OverSubscribed")
        for name, status in queue_statuses(snapshot, shares, {})
    }
    assert told["a"] == {
        "type": "OverSubscribed",
        "status": "False",
        "reason": "WithinQuota",
        "message": "",
    }
    assert (told["root"]["status"], told["root"]["reason"]) == ("True", "ChildrenAboveQuota")


def share_rows(snapshot):

    none = dict.fromkeys(snapshot.axis.names, 0)
    return [QueueShare(name, None, none, none, none, none) for name in snapshot.queues.name]


@pytest.mark.parametrize(
    ("department", "first", "second", "told"),
    [
        (10, 7, 4, {"dept": "ChildrenAboveQuota"}),
        (7, 4, 4, {"dept": "ChildrenAboveQuota"}),
        (10, 4, 2, {"a": "BelowNonPreemptible"}),
        (10, 6, 4, {}),
        (10, 4, 3, {}),
    ],
)
def test_changes_of_quotas_in_a_department_of_ten(department, first, second, told):
    """Projects of 4 each; 3 GPUs of the second, ``a``, are held by work that stays."""
    queues = [
        ("dept", "", "{gpu: {quota: %d}}" % department),  # noqa: UP031
        ("p1", "dept", "{gpu: {quota: %d}}" % first),  # noqa: UP031
        ("a", "dept", "{gpu: {quota: %d}}" % second),  # noqa: UP031
    ]
    assert {name: it[0] for name, it in found(*queues, more=BUSY).items()} == told
