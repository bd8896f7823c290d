"""Laws of choosing nodes for shares: quick ways answer what looking at every node would."""

from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaisched.actions.allocate import _Allocation
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.capacity import divisors, pods_in
from kaisched.framework.session.cards import ON_OPEN_CARD
from kaisched.framework.session.session import Session
from kaisched.testing.builder import Group, Job, Task, add_job, policy_of
from tests.laws.shared_cards import demand_of, make_shared
from tests.laws.test_card_laws import move, state_of

SEEDS = st.integers(0, 2**31)
POLICIES = {
    "packs": {},
    "spreads": {"placementStrategy": {"gpu": "spread", "cpu": "spread"}},
    "mix": {"plugins": {"gpu-fragmentation": {"enabled": True}, "binpack": {"enabled": False}}},
    "scores above the bonus": {"plugins": {"binpack": {"weight": 3 * ON_OPEN_CARD}}},
}
SLOTS = st.sampled_from((4, 6, 12))
NAMES = st.sampled_from(sorted(POLICIES))


@cache
def policy_named(name):
    return policy_of(POLICIES[name])


def session_of(snapshot, name):
    policy = policy_named(name)
    session = Session(snapshot, None, policy, 1000.0, Memory(), policy.questions)
    session.ask.open(session)
    return session


def look_at_all(session, shape):
    """Return the room on all nodes and the node of one pod, from columns and nothing kept."""
    rows, capacity = np.arange(len(session.nodes)), session.capacity
    none = np.zeros(len(rows), np.int64)
    request = session.shapes.request[:, shape, None]
    room = pods_in(capacity.unpromised(rows), *divisors(request))
    room = capacity.limited_now(shape, rows, room)
    score = session.ask.node_score(session, shape, rows, none)
    cards = capacity.cards_for(shape)
    if cards is not None and not cards.spread.nodes:
        fits = cards.on_open_cards(shape, rows, is_later=False)
        score = score + ON_OPEN_CARD * (fits > 0)
    return room, int(np.where(room > 0, score, -1.0).argmax())


def free_gpus(session, shape, extra):
    """Return whole GPUs, and thousandths left of shared ones, with more pods on each node."""
    whole, left = session.gpus_free(shape, np.arange(len(extra)), extra)
    return whole.tolist(), [sorted(it for it in row if it) for row in left.tolist()]


def check_choices(seed, name, moves, nodes=6, slots=12):
    """Move pods at random; each pod that could be placed next is asked about at once and slowly."""
    random = Random(seed)
    store = make_shared(seed, jobs=10, pending=12, nodes=nodes, slots=slots)
    session = session_of(store.snapshot(), name)
    statement = session.statement()
    chosen = 0
    for _ in range(moves):
        shape = random.randrange(session.shapes.request.shape[1])
        room, node = look_at_all(session, shape)
        quick = session.placement.next_share(shape)
        assert quick is None or (quick == node and room.sum() > 1)
        free = session.placement.free_capacity(shape)
        assert free.room.tolist() == room.tolist()
        assert free.total == room.sum()
        state, tasks = session.ledger.state, session.tasks
        waiting = ((state == TaskState.PENDING) & (tasks.shape_of_task == shape)).nonzero()[0]
        if free.total:
            assert session.placement.choose(free, 1).tolist() == [node]
            chosen += 1
        if free.total and waiting.size and random.random() < 0.8:
            one_more = np.bincount([node], minlength=len(room))
            ahead = free_gpus(session, shape, one_more)
            statement.place(waiting[:1], np.array([node]), shape)
            assert free_gpus(session, shape, 0 * one_more) == ahead
        else:
            mark = statement.checkpoint()
            move(session, statement, random)
            if random.random() < 0.3:
                statement.rollback(mark)
    return chosen


@settings(max_examples=10)
@given(SEEDS, NAMES, st.integers(1, 25), SLOTS)
def test_a_share_goes_where_looking_at_every_node_would_put_it(seed, name, moves, slots):
    check_choices(seed, name, moves, slots=slots)


def check_batches(seed, name, nodes=6, slots=12):
    """Choose nodes for equal shares at once, and one by one where looking at every node says."""
    random = Random(seed)
    store = make_shared(seed, jobs=8, pending=1, nodes=nodes, slots=slots)
    constraints = Constraints(devices=demand_of(random))
    pods = [Task(f"equal-{at}", {"cpu": 100}, constraints) for at in range(random.randint(2, 30))]
    add_job(store, Job("equal", "a", pods, root=Group("default", 1)))
    snapshot = store.snapshot()
    tasks = np.array([store.row_of_task(f"default/{pod.name}") for pod in pods])
    shape = int(snapshot.tasks.shape_of_task[tasks[0]])
    batch, single = session_of(snapshot, name), session_of(snapshot, name)
    free = batch.placement.free_capacity(shape)
    tasks = tasks[: free.total]
    if not tasks.size:
        return 0
    nodes = batch.placement.choose(free, len(tasks))
    extra = np.bincount(nodes, minlength=len(free.room))
    ahead = free_gpus(batch, shape, extra)
    batch.statement().place(tasks, nodes, shape)
    statement = single.statement()
    for task, node in zip(tasks, nodes.tolist(), strict=True):
        assert look_at_all(single, shape)[1] == node
        statement.allocate(int(task), node)
    assert state_of(batch) == state_of(single)
    assert free_gpus(batch, shape, 0 * extra) == ahead
    return len(tasks)


@settings(max_examples=10)
@example(1032, "mix", 12)  # pods with shares of two cards, of nodes whose cards differ in size
@example(1003, "spreads", 12)  # more fit where each pod opens cards than where they are packed
@given(SEEDS, NAMES, SLOTS)
def test_a_batch_of_shares_goes_where_looking_at_every_node_would_put_each(seed, name, slots):
    check_batches(seed, name, slots=slots)


def decided(snapshot, name):
    """Return all that two cycles decide, with every record."""
    memory, told = Memory(), []
    for number in range(2):
        result, memory = run_cycle(snapshot, None, policy_named(name), 1000.0 + number, memory)
        told.append([result.bind_tasks.tolist(), result.bind_nodes.tolist()])
        told.append([result.nominate_tasks.tolist(), result.nominate_nodes.tolist()])
        told.append([repr(it) for it in (*result.evictions, *result.records, *result.failures)])
        told.append(sorted(result.bind_cards.items()))
    return told


def check_mixed_runs(seed, name, jobs=24, slots=12):
    """Place jobs of few shapes with and without runs; return how many pods were placed in runs."""
    random = Random(seed)
    store = make_shared(seed, jobs=4, pending=1, nodes=5, slots=slots)
    shapes = [Constraints(devices=demand_of(random)) for _ in range(3)] + [Constraints()]
    for number in range(jobs):
        constraints = random.choice(shapes)
        request = {"cpu": 100} if constraints.devices else {"cpu": 100, "gpu": 1000}
        names = [f"m{number}-{at}" for at in range(random.choice((1, 1, 1, 2)))]
        pods = [Task(it, request, constraints) for it in names]
        root, queue = Group("default", random.randint(1, len(pods))), random.choice("ab")
        add_job(store, Job(f"m{number}", queue, pods, created_s=float(number), root=root))
    snapshot, placed = store.snapshot(), []

    def counting(self, first, take=_Allocation._take_shares):
        before = len(self._session.outcome.binds()[0])
        taken = take(self, first)
        placed.append(len(self._session.outcome.binds()[0]) - before)
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Allocation, "_take_shares", counting)
        in_runs = decided(snapshot, name)
        patch.setattr(_Allocation, "_take_shares", lambda *_: False)
        assert decided(snapshot, name) == in_runs
    return sum(placed)


@settings(max_examples=5)
@given(SEEDS, NAMES, SLOTS)
def test_shares_of_several_shapes_in_a_run_get_what_they_would_get_one_by_one(seed, name, slots):
    check_mixed_runs(seed, name, slots=slots)


def test_shares_of_several_shapes_make_runs():
    assert check_mixed_runs(30, "packs") > 1
