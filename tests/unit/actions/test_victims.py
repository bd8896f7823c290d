"""The order of victims, case by case: whose job goes first, and what is counted in between."""

import numpy as np

from kaisched.actions.eviction.victims import victim_order
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.testing.builder import Group, Job, Task
from tests.unit.framework.fakes import session, store

TWO = (QueueRow("q", created_s=0.0), QueueRow("r", created_s=1.0))


def running(name, queue="q", gpus=(1,), **more):
    """Return a job whose pods run and hold so many GPUs each."""
    tasks = tuple(
        Task(f"{name}-{at}", {"gpu": 1000 * gpu}, state=TaskState.RUNNING, node="n0")
        for at, gpu in enumerate(gpus)
    )
    return Job(name, queue, tasks, root=Group("default", len(gpus)), **more)


def opened(*jobs, queues=TWO, gpus=64):
    made = store(*jobs, queues=queues, nodes=(gpus,))
    return session(made.snapshot(), *default_policy().plugins)


def names_of(at, units):
    return [at.jobs.name[unit.job].partition("/")[2] for unit in units]


def order_of(*jobs, **more):
    at = opened(*jobs, **more)
    return names_of(at, victim_order(at, np.arange(len(jobs))))


def test_nobody_is_a_victim_where_nothing_runs():
    assert order_of() == []


def test_two_queues_alternate_as_they_are_drained():
    """Among equals the younger queue is first."""
    jobs = [running(f"{queue}{at}", queue, created_s=at) for queue in "qr" for at in range(3)]
    assert order_of(*jobs) == ["r2", "q2", "r1", "q1", "r0", "q0"]


def test_a_large_job_counts_for_all_that_it_holds():
    jobs = [running("q0", "q", created_s=0.0), running("q1", "q", (2, 1), created_s=1.0)]
    jobs += [running(f"r{at}", "r", created_s=at) for at in range(3)]
    assert order_of(*jobs) == ["q1", "r2", "r1", "r0", "q0"]


def test_the_lower_priority_goes_first():
    jobs = [running("a", priority=60), running("b", priority=40, created_s=-9.0), running("c")]
    assert order_of(*jobs) == ["b", "c", "a"]


def test_the_youngest_goes_first_and_then_the_later_name():
    jobs = [running("b", created_s=1.0), running("c", created_s=2.0), running("a", created_s=1.0)]
    assert order_of(*jobs) == ["c", "b", "a"]


def test_what_is_taken_counts_at_every_level_of_the_tree():
    """Both teams hold four; in one of them they lie in two queues, which take turns."""
    queues = (
        QueueRow("s", created_s=0.0),
        QueueRow("t", created_s=1.0),
        QueueRow("a", "s"),
        *(QueueRow(name, "t", created_s=at) for at, name in enumerate("uv")),
    )
    jobs = [running(f"a{at}", "a", created_s=at) for at in range(4)]
    jobs += [running(f"{queue}{at}", queue, created_s=at) for queue in "uv" for at in range(2)]
    assert order_of(*jobs, queues=queues) == ["v1", "a3", "u1", "a2", "v0", "a1", "u0", "a0"]


def test_teams_of_different_depth():
    queues = (QueueRow("q"), QueueRow("t"), QueueRow("u", "t"), QueueRow("v", "u"))
    jobs = [running("q0", "q"), running("q1", "q", created_s=1.0), running("v0", "v", (3,))]
    assert order_of(*jobs, queues=queues) == ["v0", "q1", "q0"]


def test_a_queue_within_its_share_comes_after_one_above_it():
    """The other one is above its share, though it holds less and is the older."""
    queues = (
        QueueRow("q", quota={"gpu": 1000}, created_s=0.0),
        QueueRow("r", quota={"gpu": 6000}, created_s=1.0),
    )
    jobs = [running(f"q{at}", "q", created_s=at) for at in range(3)]
    jobs += [running(f"r{at}", "r", (2,), created_s=at) for at in range(2)]
    assert order_of(*jobs, queues=queues, gpus=7)[:2] == ["q2", "q1"]


def test_pods_of_several_shapes_count_with_what_each_holds():
    """Of its two pods one is being deleted already and counts no longer."""
    tasks = tuple(
        Task(f"m-{gpu}", {"gpu": 1000 * gpu}, state=state, node="n0")
        for gpu, state in ((3, TaskState.RUNNING), (2, TaskState.RELEASING))
    )
    mixed = Job("m", "q", tasks, created_s=9.0)
    jobs = [mixed, running("q0", "q", (2,))]
    jobs += [running(f"r{at}", "r", created_s=at) for at in range(3)]
    assert order_of(*jobs) == ["m", "r2", "r1", "q0", "r0"]


def test_a_job_of_an_unknown_queue_is_left_out():
    assert order_of(running("a"), running("b", "nowhere")) == ["a"]


def test_evicting_what_was_offered_does_not_count_twice():
    """The order is that of the moment it was asked for."""
    jobs = [running(f"q{at}", "q", created_s=at) for at in range(4)]
    jobs += [running(f"r{at}", "r", created_s=at) for at in range(2)]
    at = opened(*jobs)
    assert not at.has_moved
    got = []
    for unit in victim_order(at, np.arange(len(jobs))):
        got.append(unit)
        (task,) = unit.tasks
        at.ledger.set_state(task, TaskState.RELEASING, int(at.ledger.node_of_task[task]))
    assert names_of(at, got) == ["q3", "q2", "r1", "q1", "r0", "q0"]


def test_what_the_cycle_has_moved_already_is_gone():
    jobs = [running(f"{queue}{at}", queue, created_s=at) for queue in "qr" for at in range(2)]
    at = opened(*jobs)
    task = at.jobs.tasks[3][0]
    at.ledger.set_state(task, TaskState.RELEASING, int(at.ledger.node_of_task[task]))
    assert names_of(at, victim_order(at, np.arange(3))) == ["q1", "r0", "q0"]
