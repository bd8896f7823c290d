"""Allocate, case by case: whose turn it is, what goes together, what waits."""

import numpy as np
import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.refusals import Refusal
from kaisched.engine.policy import default_policy
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.reasons import MOST_SHAPES
from kaisched.framework.session.placement import Placement
from kaisched.testing.builder import Group, Job, Task, add_job
from tests.unit.framework.fakes import cycle, job, placed, plugin, policy, store, with_default

TWO = (QueueRow("q"), QueueRow("r"))
LEAVING = TaskState.RELEASING


def reasons(result):
    return {each.pod_group.partition("/")[2]: each.reason for each in result.records}


def leaving(name, node, gpu=1):
    return Job(name, "q", (Task(f"{name}-0", {"gpu": 1000 * gpu}, state=LEAVING, node=node),))


def order_of(*jobs, queues=TWO, nodes=(64,), rules=None):
    """Return the pods in the order in which they were placed."""
    return list(placed(cycle(store(*jobs, queues=queues, nodes=nodes).snapshot(), rules)))


def by_held():
    """Serve the queue that holds least, as it would stand without the candidate."""
    return plugin(queue_order=lambda held, **_: (held[2],))


def test_queues_take_turns_as_their_shares_move():
    jobs = [job(f"{queue}{at}", queue, created_s=at) for queue in "qr" for at in range(3)]
    assert order_of(*jobs) == ["q0-0", "r0-0", "q1-0", "r1-0", "q2-0", "r2-0"]


def test_turns_are_taken_at_every_level_of_the_tree():
    """A team's turn goes to the best of its queues, and counts for the team."""
    queues = (QueueRow("s"), QueueRow("t"), *(QueueRow(name, "t") for name in "uv"))
    jobs = [job(f"{queue}{at}", queue, created_s=at) for queue in "suv" for at in range(2)]
    order = order_of(*jobs, queues=queues, rules=policy(by_held()))
    assert order == ["s0-0", "u0-0", "s1-0", "v0-0", "u1-0", "v1-0"]


def test_a_queue_that_is_not_served_keeps_its_turn():
    """Its job finds no room, so its share does not move and it is asked again at once."""
    jobs = [job("q0", "q", gpu=3, created_s=0.0), job("q1", "q", created_s=1.0)]
    jobs += [job(f"r{at}", "r", created_s=at) for at in range(2)]

    def shut(shape, rows, **_):
        return np.full(len(rows), int(Refusal.TAINT) if shape == 0 else 0, np.int16)

    rules = policy(by_held(), plugin("shut", node_filter=shut))
    assert order_of(*jobs, rules=rules) == ["q1-0", "r0-0", "r1-0"]


def test_jobs_without_a_difference_go_by_age_then_by_name():
    jobs = [job("b", created_s=1.0), job("c", created_s=0.0), job("a", created_s=1.0)]
    assert order_of(*jobs) == ["c-0", "a-0", "b-0"]


def test_a_job_that_does_not_fit_blocks_nobody():
    result = cycle(
        store(job("big", gpu=5, pods=2, minimum=2, priority=90), job("a"), nodes=(5,)).snapshot()
    )
    assert placed(result) == {"a-0": "n0"}
    assert reasons(result) == {"big": "GangNoRoom"}


def test_a_limit_stops_a_queue_in_the_middle_of_a_run():
    queues = (QueueRow("q", limit={"gpu": 2000}), QueueRow("r"))
    jobs = [job(f"{queue}{at}", queue, created_s=at) for queue in "qr" for at in range(4)]
    result = cycle(store(*jobs, queues=queues, nodes=(64,)).snapshot())
    assert len(placed(result)) == 6
    assert reasons(result) == {"q2": "OverLimit", "q3": "OverLimit"}


def test_a_limit_above_lets_smaller_jobs_of_a_sibling_pass():
    """The team refuses the big one; its queues go on with what still fits under the limit."""
    queues = (QueueRow("t", limit={"gpu": 3000}), QueueRow("u", "t"), QueueRow("v", "t"))
    jobs = [
        job("u0", "u", gpu=2),
        job("u1", "u", gpu=2, created_s=1.0),
        job("v0", "v", created_s=1.0),
    ]
    result = cycle(store(*jobs, queues=queues).snapshot())
    assert set(placed(result)) == {"u0-0", "v0-0"}
    assert reasons(result) == {"u1": "OverLimit"}


def test_an_elastic_job_comes_back_for_each_further_pod():
    """Its minimum goes together; then it takes turns with others, behind those below theirs."""
    order = order_of(job("a", pods=4, minimum=2), job("b", created_s=1.0), queues=TWO)
    assert order == ["a-0", "a-1", "b-0", "a-2", "a-3"]


def test_pods_of_several_shapes_are_a_gang_too():
    tasks = (Task("m-0", {"gpu": 4000}), Task("m-1", {"gpu": 1000}), Task("m-2", {"gpu": 1000}))
    mixed = Job("m", "q", tasks, root=Group("default", 3))
    assert len(placed(cycle(store(mixed, nodes=(4, 2)).snapshot()))) == 3
    assert placed(cycle(store(mixed, nodes=(4, 1)).snapshot())) == {}


def test_a_gang_on_room_that_is_released_waits_whole():
    """One pod could start now; both are promised, none is bound."""
    made = store(leaving("x", "n0"), job("a", pods=2, minimum=2), nodes=(1, 1))
    result = cycle(made.snapshot())
    assert placed(result) == {}
    assert {each.node for each in result.nominations} == {"n0", "n1"}
    assert reasons(result)["a"] == "WaitingForRelease"


def test_an_elastic_pod_does_not_start_before_its_gang():
    """The gang waits for a release; its third pod would fit now, and is promised room as well."""
    pods = [Task(f"a-{at}", {"gpu": 2000}, order_priority=1) for at in range(2)]
    pods.append(Task("a-2", {"gpu": 1000}))
    gang = Job("a", "q", tuple(pods), root=Group("default", 2))
    result = cycle(store(leaving("x", "n0", gpu=2), gang, nodes=(2, 2, 1)).snapshot())
    assert placed(result) == {}
    assert len(result.nominations) == 3


def test_promises_count_for_the_limit_of_their_queue():
    """What is promised now is bound by the next cycle: both together must keep to the limit."""
    queues = (QueueRow("q", limit={"gpu": 1000}),)
    made = store(leaving("x", "n0"), job("a"), job("b"), queues=queues, nodes=(1, 0))
    made.put_node(NodeRow("n2", {"gpu": 1000, "pods": 110}, is_unschedulable=True))
    result = cycle(made.snapshot())
    assert len(result.nominations) == 1
    assert reasons(result) == {"a": "WaitingForRelease", "b": "OverLimit"}


@pytest.mark.fault("H115")
@pytest.mark.parametrize(("depth", "tried"), [(1, 1), (2, 2), (None, 3)])
def test_no_more_jobs_of_a_queue_are_tried_than_its_depth(depth, tried):
    base = default_policy()
    depths = {} if depth is None else {"allocate": depth}
    jobs = [job(name) for name in "abc"]
    result = cycle(store(*jobs).snapshot(), Policy(base.plugins, base.actions, depths))
    assert len(placed(result)) == tried


def test_a_structured_job_takes_what_its_tree_needs_then_grows():
    tree = Group("root", 1, (Group("x", 2), Group("y", 1)))
    pods = [Task(f"s-{name}{at}", {"gpu": 1000}, podset=name) for name in "xy" for at in range(2)]
    made = store(Job("s", "q", tuple(pods), root=tree), nodes=(3,))
    assert list(placed(cycle(made.snapshot()))) == ["s-x0", "s-x1", "s-y0"]


def test_a_host_port_is_taken_once_a_node():
    port = Constraints(host_ports=(("TCP", "", 80),))
    tasks = tuple(Task(f"p-{at}", {"gpu": 1000}, port) for at in range(3))
    result = cycle(store(Job("p", "q", tasks), nodes=(4, 4)).snapshot())
    assert sorted(placed(result).values()) == ["n0", "n1"]


def test_five_hundred_equal_jobs_are_placed_as_one_by_one():
    """Longer than any block or run of the prediction."""
    jobs = [job(f"{queue}{at:03}", queue, created_s=at) for queue in "qr" for at in range(600)]
    order = order_of(*jobs, nodes=(100,) * 10 + (9,))
    assert order[:4] == ["q000-0", "r000-0", "q001-0", "r001-0"]
    assert len(order) == 1009
    assert sum(name.startswith("q") for name in order) == 505


def test_a_full_cluster_is_seen_at_a_glance_and_each_job_is_told_the_same():
    queues = (QueueRow("q", limit={"gpu": 2000}), QueueRow("r"))
    made = store(job("held", "q", pods=2, minimum=2), queues=queues, nodes=(2,))
    asked = []
    rules = with_default(plugin(job_gate=lambda job, **_: asked.extend(job.tolist())))
    memory = Memory()
    first = cycle(made.snapshot(), rules, memory)
    made.place(first.bind_tasks, first.bind_nodes, TaskState.RUNNING)
    for waiting in (job("next", "r"), job("short", "r", minimum=2), job("limited", "q")):
        add_job(made, waiting)
    asked.clear()
    result = cycle(made.snapshot(), rules, memory)
    assert asked == [2]  # a gang of which a pod is missing: whether it counts in the shares
    told = {"next": "NoRoom", "short": "GangIncomplete", "limited": "OverLimit"}
    assert reasons(result) == told
    assert list(result.records) == list(cycle(made.snapshot(), rules).records)


@pytest.mark.fault("I123")
def test_pods_that_differ_are_not_tried_one_by_one_where_all_room_is_too_little(monkeypatch):
    """Each of them would fit; thousands would be placed and taken back in every cycle."""
    tasks = tuple(Task(f"g-{at}", {"gpu": 1000, "cpu": at}) for at in range(9))
    gang = Job("g", "q", tasks, root=Group("default", 9))
    snapshot = store(gang, job("one", "q"), queues=TWO, nodes=(4, 4)).snapshot()
    monkeypatch.setattr("kaisched.actions.allocate.place_mixed", lambda *_: 1 / 0)
    result = cycle(snapshot)
    assert (list(placed(result)), result.failures) == (["one-0"], ())


@pytest.mark.fault("I123")
def test_why_many_different_pods_wait_is_asked_of_a_few_of_their_shapes(monkeypatch):
    tasks = tuple(Task(f"g-{at}", {"gpu": 1000, "cpu": at}) for at in range(200))
    gang = Job("g", "q", tasks, root=Group("default", 200))
    result = cycle(store(gang, queues=TWO, nodes=(4, 4)).snapshot())
    asked, real = [], Placement.free_capacity
    monkeypatch.setattr(
        Placement, "free_capacity", lambda self, shape: asked.append(shape) or real(self, shape)
    )
    assert result.records.counts() == {"GangNoRoom": 1}
    assert len(asked) <= MOST_SHAPES
    assert [record.reason for record in result.records] == ["GangNoRoom"]
