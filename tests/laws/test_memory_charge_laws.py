"""Laws of requests for memory where cards differ: queues hold what pods count on their nodes."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.actions.order.gates import first_shut
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import ACTIVE_STATES, ALLOCATED_STATES, GPU, TaskState
from kaisched.core.devices import CARD, DeviceDemand, MemoryCharges, charges, gpus_of, least_charges
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.ledger import rolled_up
from kaisched.testing.builder import policy_of
from tests.laws.shared_cards import SIZES_MIB, make_shared, memory_of, reserve
from tests.laws.test_card_laws import SEEDS, check_cycles, move, session_of

HOLDING = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)
MIB = st.integers(1, 3_000_000)


@given(
    st.integers(0, 3_000_000),
    st.integers(1, 8),
    st.integers(0, 1000),
    st.lists(MIB, min_size=2, max_size=5),
)
def test_what_many_shapes_count_is_what_each_counts(memory_mib, cards, floor, sizes):
    demand = DeviceDemand(0, memory_mib, cards, least=floor)
    least, most = min(sizes), max(sizes)
    columns = np.array([memory_mib]), np.array([cards]), np.array([floor])
    by_card = MemoryCharges(*columns, least, most)
    shape = np.zeros(len(sizes), np.int64)
    saved = [demand.milli_gpus(least) - demand.milli_gpus(size) for size in sizes]
    assert by_card.saved(shape, np.array(sizes)).tolist() == saved
    assert by_card.saved(shape[:1], 0).tolist() == [0], "a size that is not known is the smallest"
    largest = demand.milli_gpus(least) - demand.milli_gpus(most)
    assert by_card.saved(shape[:1], 2 * most).tolist() == [largest], "no share is on a larger card"


def count_of(snapshot, task, node):
    """Return what a task counts on a node (-1 for none), by hand."""
    shape = int(snapshot.tasks.shape_of_task[task])
    each = snapshot.shapes.charge[:, shape].copy()
    by_card, demand = snapshot.shapes.by_card, snapshot.shapes.constraints[shape].devices
    if by_card is not None and demand is not None and demand.memory_mib and node >= 0:
        size = int(snapshot.nodes.cards.size[node]) // CARD
        size = min(max(size, by_card.least_mib), by_card.most_mib)
        each[GPU] += demand.milli_gpus(size) - demand.milli_gpus(by_card.least_mib)
    return each


def make_mixed(seed, **more):
    """Return a store with cards of both sizes, in which all pods ask for memory.

    Its queues are in one above, and some of its jobs must not be evicted.
    """
    random, store = Random(seed), make_shared(seed, ask=memory_of, **more)
    for mib in SIZES_MIB:
        amounts = {"cpu": 4000, "gpu": 2000, "pods": 12}
        store.put_node(NodeRow(f"all-{mib}", amounts, card_mib=mib))
    store.put_queue(QueueRow("top", quota={"gpu": 8000}))
    for name in "ab":
        store.put_queue(QueueRow(name, "top", quota={"gpu": 2000}))
    for job in range(store.jobs.size):
        store.jobs.is_preemptible.own()[job] = random.random() < 0.6
    store.revision += 1
    return store


@settings(max_examples=15)
@given(SEEDS)
def test_tasks_count_on_the_card_of_the_node_that_they_have_or_are_asked_about(seed):
    snapshot = make_mixed(seed).snapshot()
    tasks, nodes = np.arange(len(snapshot.tasks.name)), range(-1, len(snapshot.nodes))
    here = zip(tasks.tolist(), snapshot.tasks.node_of_task.tolist(), strict=True)
    by_hand = np.stack([count_of(snapshot, *it) for it in here], axis=1)
    assert (charges(snapshot, tasks) == by_hand).all()
    assert gpus_of(snapshot, tasks.tolist()) == by_hand[GPU].sum()
    least = least_charges(snapshot.shapes)
    for task in tasks.tolist():
        each = charges(snapshot, [task] * len(nodes), np.array(nodes))
        by_hand = np.stack([count_of(snapshot, task, node) for node in nodes], axis=1)
        assert (each == by_hand).all()
        assert (least[:, snapshot.tasks.shape_of_task[task]] == by_hand.min(axis=1)).all()


def held_by(session, *, is_strict):
    """Return by hand what queues hold, of all jobs or of those that must not be evicted."""
    ledger, jobs, held = session.ledger, session.jobs, np.zeros_like(session.ledger.held)
    for task in np.flatnonzero(ACTIVE_STATES[ledger.state]).tolist():
        job = session.tasks.job_of_task[task]
        if not (is_strict and jobs.is_preemptible[job]):
            node = int(ledger.node_of_task[task])
            held[:, jobs.queue_of_job[job]] += count_of(session.snapshot, task, node)
    return rolled_up(session.snapshot, held)


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 25))
def test_moves_count_on_the_card_of_the_node_and_are_undone_exactly(seed, moves):
    random, session = Random(seed), session_of(make_mixed(seed).snapshot())
    ledger, statement = session.ledger, session.statement()
    begun = ledger.held.copy(), ledger.held_non_preemptible.copy()
    for _ in range(moves):
        move(session, statement, random)
        if random.random() < 0.2:
            statement.rollback(random.randint(0, statement.checkpoint()))
        assert (held_by(session, is_strict=False) == ledger.held).all()
        assert (held_by(session, is_strict=True) == ledger.held_non_preemptible).all()
    statement.rollback()
    assert (ledger.held == begun[0]).all()
    assert (ledger.held_non_preemptible == begun[1]).all()


@settings(max_examples=15)
@given(SEEDS)
def test_a_batch_counts_as_one_by_one(seed):
    snapshot = make_mixed(seed, pending=6).snapshot()
    for shape in range(snapshot.shapes.request.shape[1]):
        batch, single = session_of(snapshot), session_of(snapshot)
        pending = np.flatnonzero(snapshot.tasks.state == TaskState.PENDING)
        tasks = pending[snapshot.tasks.shape_of_task[pending] == shape]
        free = batch.placement.free_capacity(shape)
        tasks = tasks[: free.total]
        if not tasks.size:
            continue
        nodes = batch.placement.choose(free, len(tasks))
        batch.statement().place(tasks, nodes, shape)
        statement = single.statement()
        for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
            statement.allocate(task, node)
        assert (batch.ledger.held == single.ledger.held).all()


def change(store, random):
    """Let something happen to a store: to a node, a pod, or a queue."""
    name, kind = f"n{random.randrange(4)}", random.random()
    task = random.randrange(store.tasks.size)
    if kind < 0.25:
        amounts = {"cpu": 4000, "gpu": 4000, "pods": 12}
        size = random.choice((0, *SIZES_MIB, 80_000))
        store.put_node(NodeRow(name, amounts, card_mib=size, can_share=random.random() < 0.9))
    elif kind < 0.3:
        store.remove_node(name)
    elif kind < 0.4:  # another node with such cards is in its place
        if (node := store.nodes._node.get(name)) is not None:
            store.remove_node(name)
            store.put_node(replace(node, name=f"{name}x"))
    elif kind < 0.5:
        job = random.randrange(store.jobs.size)
        store.jobs.is_preemptible.own()[job] = random.random() < 0.5
    elif kind < 0.7:
        rows = np.flatnonzero(store.tasks.state.data[: store.tasks.size] != TaskState.GONE)
        rows = rows[: random.choice((3, 40))]
        state = random.choice((TaskState.RUNNING, TaskState.RELEASING, TaskState.PENDING))
        nodes = np.full(len(rows), random.randrange(-1, len(store.nodes)))
        if store.nodes.is_laid_out:
            store.place(rows, nodes, state)
    elif store.tasks.state.data[task] != TaskState.GONE:
        if random.random() < 0.1:
            store.set_gone(task)
        else:
            store.put_on(task, random.choice(HOLDING), name, 0.0)
            store.revision += 1


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 30))
def test_queues_hold_what_their_pods_count_whatever_happens_to_nodes(seed, changes):
    random, store = Random(seed), make_mixed(seed, jobs=20)
    for _ in range(changes):
        change(store, random)
        if random.random() < 0.5:
            assert accounts_of(store) == []
    assert accounts_of(store) == []


def accounts_of(store):
    """Return what I19 says of the queues of the store's snapshot."""
    snapshot = store.snapshot()
    found = []
    tasks, jobs = snapshot.tasks, snapshot.jobs
    for which, said in (
        (np.ones(len(jobs.name), np.bool_), snapshot.allocated),
        (~jobs.is_preemptible, snapshot.allocated_non_preemptible),
    ):
        held = np.zeros_like(said)
        for task in range(len(tasks.name)):
            job = int(tasks.job_of_task[task])
            if ALLOCATED_STATES[tasks.state[task]] and which[job]:
                node = int(tasks.node_of_task[task])
                held[:, jobs.queue_of_job[job]] += count_of(snapshot, task, node)
        if (held != said).any():
            found.append((held.tolist(), said.tolist()))
    return found


def with_limits(seed):
    """Return a store whose queues have limits, with some work that must not be evicted."""
    random, store = Random(seed), make_shared(seed, jobs=4, pending=9, ask=memory_of)
    for name in "ab":
        quota, limit = (250 * random.randint(0, 12) for _ in range(2))
        bounds = {"quota": {"gpu": quota}, "limit": {"gpu": limit}}
        store.put_queue(QueueRow(name, weight={"gpu": 1.0}, **bounds))
    for job in range(store.jobs.size):
        store.jobs.is_preemptible.own()[job] = random.random() < 0.6
    store.revision += 1
    return store


@settings(max_examples=20)
@given(SEEDS)
def test_no_cycle_passes_a_limit_or_a_quota_on_any_card(seed):
    check_cycles(with_limits(seed))


@settings(max_examples=20)
@given(SEEDS)
def test_no_pod_waits_that_some_node_has_room_for_within_the_bounds(seed):
    store, policy = with_limits(seed), policy_of(actions=("allocate",))
    snapshot = store.snapshot()
    result, _ = run_cycle(snapshot, None, policy, 1000.0, Memory())
    store.cards.choose(result.bind_cards)
    store.place(result.bind_tasks, result.bind_nodes, TaskState.RUNNING, 1000.0)
    if len(result.nominate_tasks):
        return  # what is promised counts too
    session = session_of(reserve(store).snapshot())  # opened cards have reservation pods by then
    jobs, tasks = session.jobs, session.tasks
    for job in np.flatnonzero((jobs.pending == 1) & (jobs.active == 0)).tolist():
        (task,) = [it for it in jobs.tasks[job] if tasks.state[it] == TaskState.PENDING]
        if len(jobs.tasks[job]) > 1:
            continue
        for node in np.flatnonzero(session.places(int(tasks.shape_of_task[task]))).tolist():
            ask = charges(session, [task], np.array([node]))[:, 0]
            assert first_shut(session, "allocate", job, ask), (jobs.name[job], node)
