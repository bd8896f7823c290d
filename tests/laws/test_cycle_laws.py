"""Laws of one cycle, whatever the cluster: what it never breaks, and what must not matter to it."""

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.constraints import Constraints
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.testing.builder import Group, Job, Task
from kaisched.units import MEBIBYTE
from tests.laws.clusters import NOW_S, clusters, policies, told

_FREE = Constraints()


def decide(cluster, policy, shuffle=None):
    note(told(cluster))
    snapshot = cluster.store(shuffle).snapshot()
    return snapshot, run_cycle(snapshot, None, policy, NOW_S, Memory())[0]


def moves(result, without=""):
    """Return who goes where and who waits why, less one job."""
    binds = [(bind.pod, bind.node) for bind in result.binds if bind.pod_group != without]
    promises = [(each.pod, each.node) for each in result.nominations if each.pod_group != without]
    reasons = {each.pod_group: each.reason for each in result.records if each.pod_group != without}
    return binds, promises, reasons


def in_one_queue(cluster):
    """Return the same cluster with all jobs in one queue without a limit."""
    queue = replace(cluster.queues[0], parent="", limit={})
    jobs = tuple(replace(job, queue=queue.name) for job in cluster.jobs)
    return replace(cluster, queues=(queue,), jobs=jobs)


@given(clusters, policies)
def test_the_invariants_hold(cluster, policy):
    snapshot, result = decide(cluster, policy)
    assert violations(snapshot, result, policy, with_records=True) == []


@given(clusters, policies)
def test_no_node_holds_more_than_it_has(cluster, policy):
    snapshot, result = decide(cluster, policy)
    for node in range(len(snapshot.nodes)):
        left = snapshot.nodes.idle[:, node].copy()
        for task in result.bind_tasks[result.bind_nodes == node].tolist():
            left -= snapshot.shapes.request[:, snapshot.tasks.shape_of_task[task]]
        assert (left >= 0).all()


@given(clusters, policies)
def test_a_gang_is_bound_whole_or_not_at_all(cluster, policy):
    snapshot, result = decide(cluster, policy)
    podset_of_bound = snapshot.tasks.podset_of_task[result.bind_tasks]
    for podset in set(podset_of_bound.tolist()):
        run = int(snapshot.podsets.active[podset]) + podset_of_bound.tolist().count(podset)
        assert run >= snapshot.podsets.minimum[podset]


@given(clusters, policies)
def test_equal_input_gives_equal_bytes(cluster, policy):
    snapshot, result = decide(cluster, policy)
    again = run_cycle(snapshot, None, policy, NOW_S, Memory())[0]
    assert again.encode() == result.encode()


@pytest.mark.fault("F102")
@given(clusters, policies, st.builds(random.Random, st.integers(0, 1 << 16)))
def test_the_order_of_loading_does_not_matter(cluster, policy, shuffle):
    _, result = decide(cluster, policy)
    _, shuffled = decide(cluster, policy, random.Random(shuffle.random()))
    assert shuffled.encode() == result.encode()


@dataclass(frozen=True)
class Hopeless:
    """A job that nothing could ever place."""

    request: dict
    constraints: Constraints = _FREE
    tasks: int = 1
    minimum: int = 1


@pytest.mark.fault("H115")
@pytest.mark.parametrize(
    "hopeless",
    [
        pytest.param(Hopeless({"gpu": 1_000_000}), id="too large"),
        pytest.param(
            Hopeless({"cpu": 1}, Constraints(node_selector=(("zone", "nowhere"),))), id="no node"
        ),
        pytest.param(Hopeless({"cpu": 1000, "gpu": 1000}, tasks=50, minimum=50), id="too many"),
        pytest.param(Hopeless({"cpu": 1}, tasks=5, minimum=6), id="incomplete"),
    ],
)
@given(cluster=clusters, policy=policies, priority=st.integers(0, 100))
def test_a_job_that_never_fits_changes_nothing_for_others(hopeless, cluster, policy, priority):
    """With one queue, since what is asked for counts in the division; and without a depth."""
    alone = in_one_queue(cluster)
    policy = Policy(policy.plugins, policy.actions)
    tasks = tuple(
        Task(f"x-{at}", hopeless.request, hopeless.constraints) for at in range(hopeless.tasks)
    )
    job = Job(
        "x", alone.queues[0].name, tasks, priority=priority, root=Group("default", hopeless.minimum)
    )
    _, result = decide(alone, policy)
    _, more = decide(replace(alone, jobs=(*alone.jobs, job)), policy)
    assert moves(more, "default/x") == moves(result)


@given(clusters, policies)
def test_a_closed_node_changes_nothing(cluster, policy):
    """With one queue: by its amounts, a closed node lets hopeless jobs keep their queue's turn."""
    alone = in_one_queue(cluster)
    amounts = {"cpu": 4000, "memory": 64 * MEBIBYTE, "gpu": 4000, "pods": 110}
    closed = NodeRow("aa-closed", amounts, is_ready=False)
    _, result = decide(alone, policy)
    _, wider = decide(replace(alone, nodes=(*alone.nodes, closed)), policy)
    assert moves(wider)[:2] == moves(result)[:2]


@given(clusters, policies)
def test_a_queue_that_may_hold_nothing_changes_nothing_for_others(cluster, policy):
    closed = QueueRow("zz", created_s=9.0, quota={"cpu": 0, "memory": 0, "gpu": 0})
    closed = replace(closed, limit=closed.quota)
    job = Job("x", "zz", (Task("x-0", {"cpu": 1000, "memory": MEBIBYTE, "gpu": 1000}),))
    _, result = decide(cluster, policy)
    more = replace(cluster, queues=(*cluster.queues, closed), jobs=(*cluster.jobs, job))
    _, wider = decide(more, policy)
    assert moves(wider, "default/x") == moves(result)


def doubled(amounts):
    return {name: amount if name == "pods" else 2 * amount for name, amount in amounts.items()}


@given(clusters, policies)
def test_twice_of_everything_is_the_same(cluster, policy):
    """Of each queue alone: the division shares GPUs by whole ones, and two of them part finer."""
    small = in_one_queue(cluster)
    large = replace(
        small,
        nodes=tuple(replace(node, allocatable=doubled(node.allocatable)) for node in small.nodes),
        queues=tuple(
            replace(each, quota=doubled(each.quota), limit=doubled(each.limit))
            for each in small.queues
        ),
        jobs=tuple(
            replace(
                job,
                tasks=tuple(replace(task, request=doubled(task.request)) for task in job.tasks),
            )
            for job in small.jobs
        ),
        foreign=tuple(replace(task, request=doubled(task.request)) for task in small.foreign),
    )
    _, result = decide(small, policy)
    _, twice = decide(large, policy)
    assert moves(twice) == moves(result)


class Noise:
    """An action that tries moves and takes them all back."""

    name = "noise"

    def __init__(self, seed):
        self.seed = seed

    def run(self, session):
        rng = random.Random(self.seed)
        statement = session.statement()
        state = session.tasks.state
        for task in rng.sample(range(len(state)), len(state)):
            node = rng.randrange(len(session.nodes))
            if state[task] == 0 and session.jobs.refusal[session.tasks.job_of_task[task]] == 0:
                rng.choice([statement.allocate, statement.pipeline])(task, node)
            elif state[task] == 6 and session.tasks.job_of_task[task] >= 0:
                statement.evict(task)
            shape = int(session.tasks.shape_of_task[task])
            session.placement.choose(session.placement.free_capacity(shape), rng.randint(1, 3))
            session.placement.best_future(shape)
        statement.rollback()


@given(clusters, policies, st.integers())
def test_a_discarded_statement_leaves_no_trace(cluster, policy, seed):
    snapshot, result = decide(cluster, policy)
    noisy = Policy(policy.plugins, (Noise(seed), *policy.actions), policy.queue_depth)
    after = run_cycle(snapshot, None, noisy, NOW_S, Memory())[0]
    assert after.encode() == result.encode()
    assert np.array_equal(after.bind_tasks, result.bind_tasks)
