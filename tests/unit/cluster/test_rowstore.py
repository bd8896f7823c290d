"""The row-level events: jobs and placements without API objects, one by one and in bulk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.cluster import rowstore
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, ResourceAxis, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.core.refusals import Refusal
from tests.oracles.accounts import assert_adds_up, content

MIG = "nvidia.com/mig-2g.20gb"
ROOM = {"cpu": 64_000, "memory": 512_000, "gpu": 8_000, "pods": 110, "x.io/y": 5}


def store_of(nodes=2, queues=("a", "b"), jobs=0, each=2):
    store = RowStore()
    for number in range(nodes):
        store.put_node(NodeRow(f"n{number}", ROOM))
    for name in queues:
        store.put_queue(QueueRow(name))
    for number in range(jobs):
        add(store, f"j{number}", queues[number % len(queues)], each)
    store.settle()
    return store


def add(store, name, queue="a", count=1, gpus=1, mig=0, **changes):
    shape = store.intern_shape({"cpu": 1000, "gpu": gpus * 1000, MIG: mig})
    tasks = [(f"{name}-{number}", shape) for number in range(count)]
    row = {"priority": 50, "is_preemptible": True, "created_s": 1.0, "minimum": 1} | changes
    return store.add_job(name, queue, tasks=tasks, **row)


def test_a_job_asks_and_then_holds():
    store = store_of()
    job = add(store, "j", "b", 3, minimum=2)
    s = store.snapshot()
    assert s.pending[GPU].tolist() == [0, 3000]
    assert (s.jobs.name[job], s.podsets.minimum[0], s.jobs.tasks[job]) == ("j", 2, range(3))
    store.place(np.array([0, 2]), np.array([1, 1]), TaskState.RUNNING, at_s=9.0)
    s = store.snapshot()
    assert s.nodes.idle[GPU].tolist() == [8000, 6000]
    assert s.allocated[GPU].tolist() == [0, 2000]
    assert (s.jobs.active[job], s.jobs.pending[job], s.jobs.last_start_s[job]) == (2, 1, 9.0)
    assert_adds_up(s)


@given(st.integers(0, 2**30), st.sampled_from(list(TaskState)), st.integers(1, 12))
def test_many_at_once_is_the_same_as_one_by_one(seed, state, count):
    if state in (TaskState.PIPELINED, TaskState.GATED, TaskState.PENDING, TaskState.GONE):
        state = TaskState.RELEASING
    random = np.random.default_rng(seed)
    tasks = random.permutation(20)[:count]
    nodes = random.integers(0, 2, count)
    before = random.permutation(20)[:8]
    ends = []
    for at_once in (True, False):
        store = store_of(jobs=6, each=4)
        store.jobs.is_preemptible.data[:3] = False
        store.place(before, before % 2, TaskState.BOUND, 3.0)
        if at_once:
            store.place(tasks, nodes, state, 5.0)
        for task, node in () if at_once else zip(tasks.tolist(), nodes.tolist(), strict=True):
            store.set_state(task, state, node, 5.0)
        s = store.snapshot()
        assert_adds_up(s)
        ends.append((content(s), s.jobs.last_start_s.tolist()))
    assert str(ends[0]) == str(ends[1])


def test_the_start_of_a_job_is_when_none_of_it_ran():
    store = store_of()
    job = add(store, "j", count=2)
    store.set_state(0, TaskState.BOUND, 0, at_s=5.0)
    store.set_state(1, TaskState.BOUND, 0, at_s=6.0)
    assert store.snapshot().jobs.last_start_s[job] == 5.0
    store.set_state(0, TaskState.PENDING)
    store.set_state(1, TaskState.PENDING)
    store.set_state(1, TaskState.BOUND, 1, at_s=8.0)
    assert store.snapshot().jobs.last_start_s[job] == 8.0


@pytest.mark.fault("E84")
@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("missing", Refusal.QUEUE_MISSING),
        ("top", Refusal.QUEUE_NOT_LEAF),
        ("lost", Refusal.QUEUE_ORPHAN),
        ("below-lost", Refusal.QUEUE_ORPHAN),
    ],
)
def test_a_job_without_a_leaf_queue_is_refused(queue, why):
    store = store_of(queues=("top",))
    store.put_queue(QueueRow("leaf", "top"))
    store.put_queue(QueueRow("lost", "nowhere"))
    store.put_queue(QueueRow("below-lost", "lost"))
    job = add(store, "j", queue)
    s = store.snapshot()
    assert (s.jobs.queue_of_job[job], s.jobs.refusal[job]) == (-1, why)
    assert not s.pending.any()


@pytest.mark.fault("E79")
def test_a_refused_job_heals_when_its_queue_comes():
    store = store_of()
    job = add(store, "j", "late")
    before = store.snapshot()
    store.put_queue(QueueRow("late"))
    s = store.snapshot()
    assert s.queues.name[s.jobs.queue_of_job[job]] == "late"
    assert s.jobs.refusal[job] == 0
    assert s.pending[GPU].tolist() == [0, 0, 1000]
    assert s.generation > before.generation


def test_a_refusal_of_its_own_outlasts_the_queues():
    store = store_of()
    job = add(store, "j", "late")
    store.refuse(job, Refusal.UNSUPPORTED)
    store.put_queue(QueueRow("late"))
    assert store.snapshot().jobs.refusal[job] == Refusal.UNSUPPORTED
    store.refuse(job, Refusal.NONE)
    assert store.snapshot().jobs.refusal[job] == 0


def test_a_changed_quota_keeps_all_rows():
    store = store_of(jobs=2)
    before = store.snapshot()
    store.put_queue(QueueRow("a", quota={"gpu": 3000}))
    after = store.snapshot()
    assert after.generation == before.generation
    assert after.queues.deserved[GPU, 0] == 3000
    assert before.queues.deserved[GPU, 0] > 3000


def test_nodes_stand_by_name_and_tasks_follow_them():
    store = store_of(jobs=1)
    store.set_state(0, TaskState.RUNNING, store.row_of_node("n0"))
    store.put_node(NodeRow("a0", ROOM))
    s = store.snapshot()
    assert s.nodes.name == ("a0", "n0", "n1")
    assert s.tasks.node_of_task[0] == 1
    store.remove_node("n0")
    s = store.snapshot()
    assert (s.tasks.node_of_task[0], s.tasks.state[0]) == (-1, TaskState.RUNNING)
    store.put_node(NodeRow("n0", ROOM))
    assert store.snapshot().tasks.node_of_task[0] == 1
    assert_adds_up(store.snapshot())


def test_a_node_may_shrink_below_what_it_holds():
    store = store_of(nodes=1, jobs=1)
    store.place(np.array([0, 1]), np.array([0, 0]))
    store.put_node(NodeRow("n0", ROOM | {"gpu": 1000}))
    assert store.snapshot().nodes.idle[GPU, 0] == -1000


def test_only_nodes_that_take_new_pods_are_divided():
    store = store_of()
    store.put_node(NodeRow("n1", ROOM, is_ready=False))
    store.put_node(NodeRow("n2", ROOM, is_unschedulable=True))
    assert store.snapshot().total[GPU] == 8000


def test_a_new_resource_joins_the_axis_and_keeps_the_amounts():
    store = store_of(jobs=2)
    store.place(np.array([0, 1]), np.array([0, 1]), TaskState.RUNNING)
    before = store.snapshot()
    store.intern_shape({"x.io/y": 2, "cpu": 1})
    after = store.snapshot()
    assert after.axis.names == (*before.axis.names, "x.io/y")
    assert after.nodes.allocatable[-1].tolist() == [5, 5]
    assert np.array_equal(after.nodes.idle[:4], before.nodes.idle)
    assert np.array_equal(after.allocated[:4], before.allocated)
    assert after.generation > before.generation
    assert_adds_up(after)


def test_equal_demands_are_one_shape():
    store = store_of()
    first = store.intern_shape({"gpu": 1000, "cpu": 0})
    assert store.intern_shape({"pods": 1, "gpu": 1000}) == first
    assert store.intern_shape({"gpu": 2000}) != first


def test_rows_can_be_followed_through_a_compaction(monkeypatch):
    monkeypatch.setattr(rowstore, "_SLACK", 2)
    store = store_of()
    kept = [add(store, f"k{number}", count=2) for number in range(3)]
    ended = [add(store, f"e{number}", count=3) for number in range(4)]
    late = add(store, "late", count=2)
    last_task = store.row_of_task("late-1")
    store.snapshot()
    for job in ended:
        store.remove_job(job)
    s = store.snapshot()
    assert store.compactions == 1
    assert store.remap.job[[*kept, late]].tolist() == [0, 1, 2, 3]
    assert (store.remap.job[ended] == -1).all()
    assert s.tasks.name[store.remap.task[last_task]] == "late-1"
    assert (store.row_of_job("late"), store.row_of_task("late-1")) == (3, 7)
    assert len(s.tasks.name) == 8
    assert_adds_up(s)


def test_a_name_is_free_when_its_job_has_ended():
    store = store_of()
    store.remove_job(add(store, "j"))
    assert store.row_of_job("j") == store.row_of_task("j-0") == -1
    again = add(store, "j")
    assert store.row_of_job("j") == again


def test_queues_count_mig_instances_as_parts_of_gpus_and_nodes_in_pieces():
    store = store_of(nodes=1)
    store.put_node(NodeRow("n1", {"pods": 110, "cpu": 64_000, MIG: 3}))
    assert store.snapshot().total[GPU] == 8000 + 3 * 285  # whether or not a pod asks for them
    assert store.snapshot().shapes.charge is store.snapshot().shapes.request
    add(store, "j", count=3, gpus=0, mig=1)
    assert store.snapshot().pending[GPU].tolist() == [3 * 285, 0]
    store.place(np.array([0]), np.array([1]), TaskState.RUNNING)
    s = store.snapshot()
    assert s.allocated[GPU].tolist() == [285, 0]
    assert s.nodes.idle[GPU].tolist() == [8000, 0]
    assert s.nodes.idle[-1].tolist() == [0, 2]
    assert_adds_up(s)


def test_instances_of_one_gpu_never_count_as_more_than_the_gpu():
    axis = ResourceAxis.of(f"nvidia.com/mig-{slices}g.10gb" for slices in range(1, 8))
    assert axis.gpu_part[4:].tolist() == [142, 285, 428, 571, 714, 857, 1000]
    assert all(7 // slices * part <= 1000 for slices, part in enumerate(axis.gpu_part[4:], 1))


def test_what_pods_took_by_annotation_counts_in_their_queue_only():
    store = store_of(nodes=1)
    shape = store.intern_shape({"cpu": 1}, Constraints(devices=DeviceDemand(legacy_slices=3)))
    columns = {"priority": 1, "is_preemptible": True, "created_s": 0.0}
    store.add_job("j", "a", tasks=[("p", shape)], **columns)
    store.place(np.array([0]), np.array([0]), TaskState.RUNNING)
    s = store.snapshot()
    assert (s.allocated[GPU, 0], s.nodes.idle[GPU, 0]) == (428, 8000)


ops = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 10_000), st.integers(0, 5), st.booleans()),
    min_size=5,
    max_size=60,
)


@given(ops)
def test_any_row_level_history_adds_up(history):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowstore, "_SLACK", 3)
        store = RowStore()
        for number, (what, pick, which, flag) in enumerate(history):
            _do(store, number, what, pick, which, flag)
            if pick % 3 == 0:
                assert_adds_up(store.snapshot())
        assert_adds_up(store.snapshot())


def _do(store, number, what, pick, which, flag):
    jobs = [job for job in range(store.jobs.size) if not store.jobs.is_dead[job]]
    tasks = [task for job in jobs for task in store.jobs.tasks.data[job]]
    tasks = [task for task in tasks if store.tasks.state.data[task] != TaskState.GONE]
    states = [state for state in TaskState if state != TaskState.PIPELINED]
    match what:
        case 0:
            mig = {MIG: pick % 4} if which > 3 else {}
            store.put_node(NodeRow(f"n{which}", ROOM | {"gpu": pick} | mig, is_ready=flag))
        case 1:
            store.remove_node(f"n{which}")
        case 2:
            store.put_queue(QueueRow(f"q{which}", "q0" if flag and which else ""))
        case 3:
            store.remove_queue(f"q{which}")
        case 4 | 5 | 6:
            mig = pick % 2 if which > 3 else 0
            add(store, f"j{number}", f"q{which}", pick % 9, pick % 3, mig, is_preemptible=flag)
        case 7 if tasks:
            node = store.row_of_node(f"n{which}")
            task = tasks[pick % len(tasks)]
            store.set_state(task, states[pick % 8], node if node >= 0 else None, float(number))
        case 8 if tasks and (node := store.row_of_node(f"n{which}")) >= 0:
            chosen = np.array(tasks[: 1 + pick % 12])
            store.place(chosen, np.full(len(chosen), node), TaskState.RUNNING, float(number))
        case 9 | 10 if jobs:
            store.remove_job(jobs[pick % len(jobs)])
