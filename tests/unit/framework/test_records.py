"""Why a job waits: one reason, with the numbers, for every code that allocate can leave behind."""

import numpy as np
import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints, Taint
from kaisched.core.refusals import Refusal
from kaisched.engine.policy import default_policy
from kaisched.framework.policy import Policy
from kaisched.testing.builder import Group, Job, Task, add_job
from tests.unit.framework.fakes import cycle, job, placed, plugin, policy, store, with_default

TIGHT = (QueueRow("q", quota={"gpu": 2000}, limit={"gpu": 3000}),)


def record(made, rules=None, of="a"):
    """Return the record of one job."""
    result = cycle(made.snapshot(), rules)
    return {each.pod_group: each for each in result.records}[f"default/{of}"]


def shaped(constraints, gpu=1000):
    return Job("a", "q", (Task("a-0", {"gpu": gpu}, constraints),))


def test_no_room_counts_the_nodes_and_what_they_lack():
    found = record(store(job("b", gpu=3, priority=90), job("a", gpu=2), nodes=(4,)))
    assert found.reason == "NoRoom"
    assert found.message == "0/1 nodes have room: 1 gpu short by at least 1"
    assert found.numbers == {"pods": 1, "fit": 0, "nodes": 1}


def test_a_gang_says_how_much_of_it_would_fit():
    found = record(store(job("a", pods=5, minimum=5), nodes=(2, 1)))
    assert found.reason == "GangNoRoom"
    assert found.message == "3 of 5 pods fit now"
    assert found.numbers == {"pods": 5, "fit": 3, "nodes": 2}


@pytest.mark.fault("D59")
def test_a_pod_larger_than_any_node_says_so():
    found = record(store(job("a", gpu=8), nodes=(4, 2)))
    assert found.reason == "ExceedsAnyNode"
    assert found.message.startswith("a pod asks for more than any node has")


def test_nodes_that_may_not_be_used_are_counted_by_reason():
    tainted = NodeRow("t", {"gpu": 4000, "pods": 9}, taints=(Taint("x", "", "NoSchedule"),))
    away = NodeRow("u", {"gpu": 4000, "pods": 9}, is_ready=False)
    made = store(
        shaped(Constraints(node_selector=(("zone", "a"),))), nodes=(4,), extra_nodes=(tainted, away)
    )
    found = record(made)
    assert found.reason == "NoNodeAllowed"
    assert {(miss.reason, miss.nodes) for miss in found.node_misses} == {
        ("NodeSelector", 1),
        ("Taint", 1),
        ("NodeNotReady", 1),
    }
    assert found.message.startswith("0/3 nodes may take its pods: ")


def test_pod_slots_are_a_reason_of_their_own():
    full = NodeRow("n", {"gpu": 4000, "pods": 1})
    there = Job("b", "q", (Task("b-0", {}, state=TaskState.RUNNING, node="n"),))
    found = record(store(there, job("a"), nodes=(), extra_nodes=(full,)))
    assert [(miss.reason, miss.detail) for miss in found.node_misses] == [
        ("PodSlots", "pods short by at least 1")
    ]


def test_a_limit_is_named_with_its_queue_and_numbers():
    found = record(store(job("b", gpu=3, priority=90), job("a"), queues=TIGHT))
    assert found.reason == "OverLimit"
    assert found.message == "queue q: gpu 3 held + 1 asked is over its limit of 3"
    assert found.numbers == {
        "queue": "q",
        "resource": "gpu",
        "held": 3000,
        "asked": 1000,
        "limit": 3000,
    }


def test_the_queue_that_is_full_may_be_one_above():
    queues = (QueueRow("team", limit={"gpu": 1000}), QueueRow("q", "team"))
    found = record(store(job("a", gpu=2), queues=queues))
    assert found.message == "queue team: gpu 0 held + 2 asked is over its limit of 1"


@pytest.mark.proportion
def test_a_quota_binds_work_that_cannot_be_preempted():
    found = record(store(job("a", gpu=3, is_preemptible=False), queues=TIGHT))
    assert found.reason == "NonPreemptibleOverQuota"
    assert found.message == (
        "queue q: gpu 0 held + 3 asked is over its quota of 2 for non-preemptible work"
    )


def test_an_incomplete_gang_counts_its_pods():
    found = record(store(job("a", pods=2, minimum=3)))
    assert (found.reason, found.numbers) == ("GangIncomplete", {"pods": 2, "minimum": 3})
    assert found.message == "2 of the 3 pods it needs exist and are not gated"


def test_an_incomplete_subgroup_is_named():
    tree = Group("root", None, (Group("x", 1), Group("y", 2)))
    tasks = (Task("a-0", {}, podset="x"), Task("a-1", {}, podset="y"))
    found = record(store(Job("a", "q", tasks, root=tree)))
    assert found.message == "subgroup y: 1 of the 2 pods it needs exist and are not gated"


def test_a_promise_is_told():
    leaving = Job("b", "q", (Task("b-0", {"gpu": 4000}, state=TaskState.RELEASING, node="n0"),))
    made = store(leaving, job("a", gpu=4), nodes=(4,))
    assert record(made).reason == "WaitingForRelease"
    assert len(cycle(made.snapshot()).nominations) == 1


@pytest.mark.fault("E84")
@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ((QueueRow("other"),), "QueueDoesNotExist"),
        ((QueueRow("q", "nowhere"),), "QueueOrphan"),
        ((QueueRow("q"), QueueRow("below", "q")), "QueueNotLeaf"),
    ],
)
def test_a_queue_that_takes_no_jobs(queues, reason):
    found = record(store(job("a"), queues=queues))
    assert (found.reason, found.queue) == (reason, "q")


@pytest.mark.parametrize(
    "refusal",
    [Refusal.INVALID_GROUP, Refusal.SCHEDULING_GATED, Refusal.UNSUPPORTED, Refusal.BACKOFF],
)
def test_a_job_refused_as_such_keeps_its_reason(refusal):
    made = store(job("a"))
    made.refuse(0, refusal)
    assert (
        record(made).reason
        == {
            Refusal.INVALID_GROUP: "InvalidPodGroup",
            Refusal.SCHEDULING_GATED: "SchedulingGated",
            Refusal.UNSUPPORTED: "Unsupported",
            Refusal.BACKOFF: "Backoff",
        }[refusal]
    )


def test_beyond_the_depth_of_a_queue():
    base = default_policy()
    rules = Policy(base.plugins, base.actions, {"allocate": 1})
    assert record(store(job("b", priority=90), job("a")), rules).reason == "QueueDepth"


def test_without_an_action_nobody_is_tried():
    found = record(store(job("a")), policy(actions=()))
    assert (found.reason, found.message) == ("NotTried", "no action of this cycle tried it")


def refuses(job, **_):
    return np.full(len(job), int(Refusal.PLUGIN), np.int16)


@pytest.mark.parametrize("question", ["job_gate", "queue_gate"])
def test_a_plugin_that_refuses_is_named(question):
    found = record(store(job("a")), with_default(plugin("acme", **{question: refuses})))
    assert (found.reason, found.plugin) == ("Plugin", "acme")
    assert found.message == "a plugin refused it: acme"


@pytest.mark.parametrize("question", ["job_gate", "queue_gate"])
def test_a_plugin_that_failed_is_named(question):
    def fails(**_):
        raise RuntimeError

    found = record(store(job("a")), with_default(plugin("acme", **{question: fails})))
    assert (found.reason, found.plugin) == ("PluginFailed", "acme")


def test_records_speak_of_the_first_shape_that_lacks_room_whatever_its_number():
    """Shapes are numbered as they come in, which says nothing about the job."""
    large, small = Task("a-0", {"gpu": 4000}), Task("a-1", {"gpu": 3000})
    mixed = Job("a", "q", (large, small), root=Group("default", 2))
    first = record(store(mixed, nodes=(2, 2)))
    other = store(nodes=(2, 2))
    other.intern_shape({"gpu": 3000})
    other.intern_shape({"gpu": 4000})
    add_job(other, mixed)
    assert record(other) == first
    assert "gpu short by at least 2" in first.message


def test_every_waiting_job_has_one_record_by_name():
    made = store(job("c", gpu=9), job("b", gpu=9), job("a"), nodes=(4,))
    result = cycle(made.snapshot())
    assert [each.pod_group for each in result.records] == ["default/b", "default/c"]
    assert placed(result) == {"a-0": "n0"}


def test_shares_say_what_each_queue_gets_and_holds():
    queues = (QueueRow("team", limit={"gpu": 4000}), QueueRow("q", "team"))
    shares = cycle(store(job("a", gpu=2), queues=queues).snapshot()).shares
    assert [(each.name, each.parent) for each in shares] == [("team", None), ("q", "team")]
    assert [each.allocated["gpu"] for each in shares] == [2000, 2000]
    assert [each.requested["gpu"] for each in shares] == [2000, 2000]
    assert shares[1].deserved["gpu"] == -1


def test_intents_and_columns_say_the_same():
    result = cycle(store(job("a", pods=2, minimum=2)).snapshot())
    assert [bind.task for bind in result.binds] == result.bind_tasks.tolist()
    assert [bind.node_row for bind in result.binds] == result.bind_nodes.tolist()
    assert (result.stats.tasks_bound, result.stats.jobs_placed, result.stats.jobs_pending) == (
        2,
        1,
        1,
    )
    assert list(result.binds) == result.binds[:]
    assert "a-0" in repr(result.binds)


def test_the_encoding_is_compact_sorted_and_free_of_row_numbers():
    text = cycle(store(job("a"), job("b", gpu=9)).snapshot()).encode().decode()
    assert text.startswith('{"binds":[{"node":"n0","pod":"default/a-0","pod_group":"default/a",')
    assert '"task":' not in text
    assert '"node_row":' not in text
