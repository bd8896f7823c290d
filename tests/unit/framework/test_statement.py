"""Tentative moves: what each does to the amounts, and that it can be taken back."""

import numpy as np
import pytest

from kaisched.core.axis import GPU, TaskState
from kaisched.testing.builder import Group, Job, Task
from tests.amounts import amounts_of, assert_equal
from tests.unit.framework.fakes import job, plugin, session, store

TASK = 0


def waiting(*plugins, nodes=(4,)):
    return session(store(job("a", pods=3, gpu=2), nodes=nodes).snapshot(), *plugins)


def running(*plugins):
    task = Task("r-0", {"gpu": 2000}, state=TaskState.RUNNING, node="n0")
    made = store(Job("r", "q", (task,), is_preemptible=False), job("a"), nodes=(4,))
    return session(made.snapshot(), *plugins)


def gpus(opened):
    ledger, nodes = opened.ledger, opened.capacity
    held, fixed = ledger.held[GPU, 0], ledger.held_non_preemptible[GPU, 0]
    return [
        int(each) // 1000 for each in (nodes.idle[GPU, 0], nodes.releasing[GPU, 0], held, fixed)
    ]


def test_an_allocated_pod_takes_idle_room():
    opened = waiting()
    opened.statement().allocate(TASK, 0)
    assert gpus(opened) == [2, 0, 2, 0]
    ledger = opened.ledger
    assert (ledger.state[TASK], ledger.node_of_task[TASK]) == (TaskState.ALLOCATED, 0)
    assert (ledger.job_active[0], ledger.job_pending[0]) == (1, 2)
    assert (ledger.podset_active[0], ledger.podset_pending[0]) == (1, 2)


def test_a_promised_pod_takes_released_room_and_counts_for_its_queue():
    opened = waiting()
    opened.statement().pipeline(TASK, 0)
    assert gpus(opened) == [4, -2, 2, 0]
    assert opened.room(0).tolist() == [1]  # what is promised is not free


def test_an_evicted_pod_releases_its_room_and_leaves_its_queue():
    opened = running()
    assert gpus(opened) == [2, 0, 2, 2]
    opened.statement().evict(TASK)
    assert gpus(opened) == [2, 2, 0, 0]
    assert opened.ledger.job_active[0] == 0


def test_a_batch_does_what_its_pods_do_one_by_one():
    one, other = waiting(nodes=(4, 4)), waiting(nodes=(4, 4))
    one.statement().place(np.array([0, 1, 2]), np.array([0, 0, 1]), 0)
    statement = other.statement()
    for task, node in ((0, 0), (1, 0), (2, 1)):
        statement.allocate(task, node)
    assert np.array_equal(one.capacity.idle, other.capacity.idle)
    for name in ("held", "state", "node_of_task", "job_active", "podset_pending"):
        assert np.array_equal(getattr(one.ledger, name), getattr(other.ledger, name)), name


def mixed(count):
    """Return a session with pods of two shapes, some of jobs that nobody may evict."""
    jobs = [
        Job(
            f"j{at:02}",
            "q",
            (Task(f"t{at:02}", {"gpu": 1000 + 1000 * (at % 2)}),),
            is_preemptible=at % 3 > 0,
        )
        for at in range(count)
    ]
    return session(store(*jobs, nodes=(64, 64)).snapshot())


@pytest.mark.parametrize("count", [1, 2, 40])
def test_pods_placed_one_by_one_are_counted_as_those_of_batches(count):
    one, other = mixed(count), mixed(count)
    shapes = one.tasks.shape_of_task.tolist()
    statement, before = one.statement(), amounts_of(one)
    statement.place_each((task, task % 2, shapes[task]) for task in range(count))
    for task in range(count):
        other.statement().place(np.array([task]), np.array([task % 2]), shapes[task])
    assert_equal(one, amounts_of(other))
    assert statement.has_allocated()
    statement.rollback()
    assert_equal(one, before)


def test_placing_no_pods_changes_nothing():
    opened = waiting()
    before, none = amounts_of(opened), np.zeros(0, np.int64)
    statement = opened.statement()
    statement.place(none, none, 0)
    statement.place_each(())
    statement.rollback()
    assert_equal(opened, before)


def test_each_pod_is_asked_for_when_the_one_before_it_has_its_room():
    opened = waiting()
    statement, idle = opened.statement(), []

    def pods():
        for task in range(2):
            idle.append(gpus(opened)[0])
            yield task, 0, 0

    statement.place_each(pods())
    assert idle == [4, 2]
    statement.commit("allocate")
    tasks, nodes = opened.outcome.binds()
    assert (tasks.tolist(), nodes.tolist()) == ([0, 1], [0, 0])


def test_pods_that_have_room_when_choosing_fails_can_be_taken_back():
    opened = waiting()
    statement, before = opened.statement(), amounts_of(opened)

    def pods():
        yield 0, 0, 0
        raise LookupError

    with pytest.raises(LookupError):
        statement.place_each(pods())
    assert gpus(opened) == [2, 0, 2, 0]
    statement.rollback()
    assert_equal(opened, before)


def test_a_rollback_goes_to_its_mark_and_no_further():
    opened = waiting()
    statement = opened.statement()
    statement.allocate(0, 0)
    mark = statement.checkpoint()
    statement.pipeline(1, 0)
    statement.rollback(mark)
    assert gpus(opened) == [2, 0, 2, 0]
    statement.rollback()
    assert gpus(opened) == [4, 0, 0, 0]


def test_placements_become_promises_and_evictions_stay():
    """A gang waits whole; whoever makes way for it still goes."""
    opened = running()
    statement = opened.statement()
    statement.evict(TASK)
    statement.allocate(1, 0)
    statement.pipeline_all()
    assert opened.ledger.state.tolist() == [TaskState.RELEASING, TaskState.PIPELINED]
    statement.commit("reclaim", 0, "because")
    outcome = opened.outcome
    assert outcome.nominations == [(1, 0)]
    assert [(move.task, move.action) for move in outcome.evictions] == [(TASK, "reclaim")]


def test_committed_moves_become_intents_in_their_order():
    opened = waiting()
    statement = opened.statement()
    statement.allocate(1, 0)
    statement.place(np.array([0]), np.array([0]), 0)
    assert not statement.has_pipelined
    statement.pipeline(2, 0)
    assert statement.has_pipelined
    statement.commit("allocate")
    tasks, nodes = opened.outcome.binds()
    assert (tasks.tolist(), nodes.tolist()) == ([1, 0], [0, 0])
    assert opened.outcome.nominations == [(2, 0)]
    statement.rollback()  # nothing is left to take back
    assert opened.ledger.state.tolist() == [2, 2, 3]


def test_listeners_hear_of_every_move_and_of_its_undoing():
    heard = []

    def listen(task, node, sign, **_):
        heard.append((task.tolist(), node.tolist(), sign))

    opened = waiting(plugin(on_moves=listen))
    statement = opened.statement()
    statement.place(np.array([0, 1]), np.array([0, 0]), 0)
    statement.pipeline(2, 0)
    statement.rollback()
    assert heard == [([0, 1], [0, 0], 1), ([2], [0], 1), ([2], [0], -1), ([0, 1], [0, 0], -1)]
    heard.clear()
    statement.place_each([(0, 0, 0), (1, 0, 0)])
    statement.rollback()
    assert heard == [([0], [0], 1), ([1], [0], 1), ([0, 1], [0, 0], -1)]


def test_amounts_of_a_gang_tree_are_counted_by_pod_set():
    tree = Group("root", None, (Group("x", 1), Group("y", 1)))
    tasks = (Task("s-0", {"gpu": 1000}, podset="x"), Task("s-1", {"gpu": 1000}, podset="y"))
    opened = session(store(Job("s", "q", tasks, root=tree)).snapshot())
    opened.statement().allocate(1, 0)
    assert opened.ledger.podset_active.tolist() == [0, 1]
    assert opened.ledger.podset_pending.tolist() == [1, 0]


@pytest.mark.parametrize("is_at_once", [False, True])
def test_plugins_hear_of_every_move_that_is_taken_back(is_at_once):
    """A filter that counts pods would else keep nodes closed for pods that are not there."""
    seen = {}

    def moved(task, node, sign, **_):
        for move in zip(task.tolist(), node.tolist(), strict=True):
            seen[move] = seen.get(move, 0) + sign

    opened = waiting(plugin(on_moves=moved), nodes=(4, 4))
    statement = opened.statement()
    if is_at_once:
        statement.place(np.array([0, 1]), np.array([0, 1]), 0)
    else:
        statement.allocate(0, 0)
        statement.pipeline(1, 1)
    mark = statement.checkpoint()
    statement.allocate(2, 1)
    assert seen == {(0, 0): 1, (1, 1): 1, (2, 1): 1}
    statement.rollback(mark)
    assert seen == {(0, 0): 1, (1, 1): 1, (2, 1): 0}
    statement.rollback()
    assert set(seen.values()) == {0}


def test_plugins_hear_of_evictions_that_are_taken_back():
    seen = {}

    def moved(task, node, sign, **_):
        for move in zip(task.tolist(), node.tolist(), strict=True):
            seen[move] = seen.get(move, 0) + sign

    opened = running(plugin(on_moves=moved))
    statement = opened.statement()
    statement.evict(TASK)
    assert seen == {(TASK, 0): -1}
    statement.rollback()
    assert seen == {(TASK, 0): 0}


@pytest.mark.parametrize("is_batch", [False, True])
def test_what_goes_of_a_job_without_a_queue_is_charged_to_none(is_batch):
    """Its queue was deleted while it ran; another queue of the same cluster holds nothing of it."""
    running = Task("x-0", {"gpu": 1000}, state=TaskState.RUNNING, node="n0")
    orphan = Job("x", "gone", (running,), root=Group("default", 1))
    of = session(store(orphan, job("y")).snapshot())
    before = of.ledger.held.copy()
    row = of.tasks.name.index("default/x-0")
    statement = of.statement()
    statement.evict_all(np.array([row])) if is_batch else statement.evict(row)
    assert (of.ledger.held == before).all()
    statement.rollback()
    assert (of.ledger.held == before).all()
