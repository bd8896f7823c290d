"""Laws of shared cards: room, batches, undo, and what a cycle may do to them."""

from collections import Counter
from functools import cache
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaisched.core.axis import ACTIVE_STATES, PODS, TaskState
from kaisched.framework.containment import start_over
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.sim.forecast.course import Course, World
from kaisched.testing.builder import policy_of
from tests.laws.shared_cards import (
    STATES,
    make_reserved,
    make_shared,
    memory_of,
    request_of,
    reserve,
    room_of,
)

SEEDS = st.integers(0, 2**31)
SLOTS = st.sampled_from((4, 6, 12))
"""Pods that a node takes: so few that cards lack slots for their reservation pods, or enough."""
MAKES = st.sampled_from((make_shared, make_reserved))
PLACED = (TaskState.ALLOCATED, TaskState.PIPELINED)
COLUMNS = ("_used", "_leaving", "_tasks", "_next_used", "_next_tasks", "_milli", "_milli_leaving")


POLICY = cache(policy_of)


@cache
def policy_that(*, spreads):
    """Return a policy under which shares are spread over cards, or packed."""
    return policy_of({"plugins": {"gpu-spread": {"enabled": True}}} if spreads else None)


def session_of(snapshot, policy=None):
    policy = policy or POLICY()
    session = Session(snapshot, None, policy, 1000.0, Memory(), policy.questions)
    session.ask.open(session)
    return session


def state_of(session):
    """Return all that moves may change, as plain values."""
    cards, capacity = session.capacity.cards, session.capacity
    amounts = [capacity.idle.tolist(), capacity.releasing.tolist(), session.ledger.held.tolist()]
    if cards is None:  # by chance no pod asks for a share
        return [], {}, {}, amounts
    columns = [trimmed(getattr(cards, name)) for name in COLUMNS]
    return columns, cards.chosen.copy(), dict(cards.promised), amounts


def trimmed(column):
    """Return a column as lists without slots behind the last one that somebody holds."""
    if column.ndim > 1:
        column = column[:, : int(np.flatnonzero(column.any(axis=0)).max(initial=-1)) + 1]
    return column.tolist()


def test_the_laws_have_shares_that_run_and_that_leave():
    for ask in (request_of, memory_of):
        found = Counter()
        for seed in range(20):
            snapshot = make_shared(seed, ask=ask).snapshot()
            cards = snapshot.nodes.cards
            sharing = () if cards is None else cards.slots_of_task
            found.update(snapshot.tasks.state[list(sharing)].tolist())
        assert all(found[state] > 10 for state in STATES), (ask, found)


@settings(max_examples=15)
@given(SEEDS, MAKES, SLOTS)
def test_the_room_on_cards_is_that_of_filling_them_by_hand(seed, make, slots):
    snapshot = make(seed, slots=slots).snapshot()
    session = session_of(snapshot)
    waiting = snapshot.tasks.state == TaskState.PENDING
    for shape in np.unique(snapshot.tasks.shape_of_task[waiting]).tolist():
        assert session.room(shape).tolist() == room_of(snapshot, shape)


def move(session, statement, random):
    """Make one random move, if there is room for it; what is committed stays."""
    tasks, state = session.tasks, session.ledger.state
    task = random.randrange(len(tasks.name))
    if state[task] == TaskState.PENDING:
        if random.random() < 0.3:
            place_job(session, statement, random, tasks.job_of_task[task])
        else:
            place(session, statement, random, task)
    elif task in (may_go := may_be_evicted(session)):
        if random.random() < 0.5:
            statement.evict(task)
        else:
            evict_together(statement, random.sample(may_go, random.randint(1, len(may_go))))
    elif state[task] == TaskState.RELEASING != tasks.state[task] and task not in {
        it.task for it in session.outcome.evictions
    }:
        place_again(session, statement, random, task)


def may_be_evicted(session):
    """Return pods that run and are no reservation pods, which nobody evicts."""
    tasks, state = session.tasks, session.ledger.state
    runs = np.flatnonzero(ACTIVE_STATES[state] & (state == tasks.state)).tolist()
    of_shape = [it.devices for it in session.shapes.constraints]
    asked = [of_shape[shape] for shape in tasks.shape_of_task[runs].tolist()]
    return [row for row, it in zip(runs, asked, strict=True) if not (it and it.is_reservation)]


def place(session, statement, random, task):
    """Place a pod that waits, or promise it a place, alone or as a batch."""
    shape = int(session.tasks.shape_of_task[task])
    best = session.placement.best_future(shape)
    if best is None:
        return
    node, fits_now = best
    if fits_now and random.random() < 0.7:
        statement.allocate(task, node)
    elif random.random() < 0.5:
        statement.pipeline(task, node)
    else:
        statement.promise(np.array([task]), np.array([node]), shape)


def place_job(session, statement, random, job):
    """Place pods of a job, and promise all of them their places if one is only promised."""
    mark = statement.checkpoint()
    waiting = [
        int(task)
        for task in session.jobs.tasks[job]
        if session.ledger.state[task] == TaskState.PENDING
    ]
    if random.random() < 0.4:
        statement.place_each(with_room(session, waiting))
        return
    for task in waiting:
        place(session, statement, random, task)
    if random.random() < 0.7:
        statement.pipeline_all(mark)


def with_room(session, tasks):
    """Yield (task, node, shape) of pods that fit once those before them have their cards."""
    for task in tasks:
        shape = int(session.tasks.shape_of_task[task])
        best = session.placement.best_future(shape)
        if best is not None and best[1]:
            yield task, best[0], shape


def place_again(session, statement, random, task):
    """Let an evicted pod stay, or promise it another place."""
    shape = int(session.tasks.shape_of_task[task])
    if random.random() < 0.5 and statement.may_spare(task):
        statement.spare(task)
    elif (best := session.placement.best_future(shape)) is not None:
        statement.relocate(task, best[0])


def look_without(session, statement, random):
    """Look at the cluster as it would be without some pods, those placed just now included."""
    before, mark = state_of(session), statement.checkpoint()
    placed = np.flatnonzero(np.isin(session.ledger.state, PLACED)).tolist()
    active = [*may_be_evicted(session), *placed]
    for task in random.sample(active, random.randint(0, min(len(active), 4))):
        statement.evict(task)
    statement.rollback(mark)
    assert state_of(session) == before


def evict_together(statement, tasks):
    """Evict tasks in the way of many, however few they are."""
    with patch("kaisched.framework.session.statement._FEW", 0):
        statement.evict_all(np.array(tasks))


@settings(max_examples=15)
@given(SEEDS, st.integers(1, 30), MAKES, SLOTS)
def test_rolling_back_restores_every_card(seed, moves, make, slots):
    random, session = Random(seed), session_of(make(seed, slots=slots).snapshot())
    statement, marks = session.statement(), []
    assert session.ledger is not None
    for _ in range(moves):
        marks.append((statement.checkpoint(), state_of(session)))
        move(session, statement, random)
        check_totals(session)
        if random.random() < 0.3:
            look_without(session, statement, random)
    while marks:
        mark, before = marks.pop()
        statement.rollback(mark)
        assert state_of(session) == before


@settings(max_examples=15)
@given(SEEDS, st.integers(1, 15), MAKES, SLOTS, st.booleans())
def test_what_is_placed_can_be_promised_instead(seed, moves, make, slots, is_spread):
    store = make(seed, pending=12, slots=slots)
    random, session = Random(seed), session_of(store.snapshot(), policy_that(spreads=is_spread))
    statement = session.statement()
    evict_together(statement, may_be_evicted(session)[::2])
    mark, before = statement.checkpoint(), state_of(session)
    for _ in range(moves):
        waiting = np.flatnonzero(session.ledger.state == TaskState.PENDING)
        if len(waiting):
            place(session, statement, random, int(random.choice(waiting)))
    free = session.capacity.free().tolist()
    statement.pipeline_all(mark)
    check_totals(session)
    assert session.capacity.free().tolist() == free
    statement.rollback(mark)
    assert state_of(session) == before


@settings(max_examples=15)
@given(SEEDS, st.integers(1, 15), MAKES, SLOTS)
def test_committed_moves_are_made_again_on_the_same_cards(seed, moves, make, slots):
    random, session = Random(seed), session_of(make(seed, slots=slots).snapshot())
    assert session.ledger is not None
    for _ in range(moves):
        statement = session.statement()
        for _ in range(random.randint(1, 4)):
            move(session, statement, random)
        statement.commit("allocate")
    before = state_of(session)
    start_over(session)
    assert state_of(session) == before


def check_totals(session):
    """No card is over its size, now or once all is released, and no GPU is given twice."""
    cards = session.capacity.cards
    if cards is None:
        return
    rows = np.arange(len(session.nodes))
    size = cards.table.size[:, None]
    assert (cards._used <= size).all()
    assert (cards._used - cards._leaving <= size).all()
    assert (cards._next_used <= size).all()
    now, later = cards.whole(rows)
    assert (now >= 0).all(), now
    assert (later >= 0).all(), later
    check_slots(session)


def check_slots(session):
    """Slots are those of pods, and one for each card that was opened or will be."""
    cards, capacity, nodes = session.capacity.cards, session.capacity, session.nodes
    taken, promised = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    node_of_task, state = session.ledger.node_of_task, session.ledger.state
    for task, (was, now) in enumerate(zip(session.tasks.state, state, strict=True)):
        node, old = node_of_task[task], session.tasks.node_of_task[task]
        if now == TaskState.ALLOCATED:
            taken[node] += 1
        if now == TaskState.PIPELINED:
            promised[node] += 1
        if now != was and ACTIVE_STATES[was]:
            promised[old] -= 1
    opened = (cards._tasks > 0).sum(axis=1) - (cards.table.tasks > 0).sum(axis=1)
    emptied = (cards._used == cards._leaving) & (cards._leaving > 0) & cards._is_reserved
    later = (cards._next_tasks > 0).sum(axis=1) - emptied.sum(axis=1)
    assert capacity.idle[PODS].tolist() == (nodes.idle[PODS] - taken - opened).tolist()
    assert capacity.releasing[PODS].tolist() == (nodes.releasing[PODS] - promised - later).tolist()
    assert (capacity.idle[PODS] >= 0).all()
    assert (capacity.free()[PODS] >= 0).all()


@settings(max_examples=10)
@example(seed=3757370, slots=4)  # without any share
@given(SEEDS, SLOTS)
def test_a_batch_is_placed_as_one_by_one(seed, slots):
    snapshot = make_shared(seed, pending=2, slots=slots).snapshot()
    for shape in range(snapshot.shapes.request.shape[1]):
        batch, single = session_of(snapshot), session_of(snapshot)
        pending = np.flatnonzero(snapshot.tasks.state == TaskState.PENDING)
        tasks = pending[snapshot.tasks.shape_of_task[pending] == shape]
        free = batch.placement.free_capacity(shape)
        tasks = tasks[: free.total]
        if not tasks.size:
            continue
        batch.statement().place(tasks, batch.placement.choose(free, len(tasks)), shape)
        statement = single.statement()
        for task in tasks.tolist():
            (node,) = single.placement.choose(single.placement.free_capacity(shape), 1)
            statement.allocate(task, int(node))
        assert state_of(batch) == state_of(single)


@settings(max_examples=15)
@given(SEEDS, MAKES, SLOTS)
def test_no_cycle_overfills_a_card_or_shares_a_whole_one(seed, make, slots):
    check_cycles(make(seed, slots=slots))


@pytest.mark.parametrize(("seed", "slots"), [(90023, 6), (90512, 5)])
def test_a_victim_that_stays_keeps_the_slot_of_its_reservation_pod(seed, slots):
    check_cycles(reserve(make_shared(seed, slots=slots)))


def test_a_share_is_not_moved_to_the_gpu_that_it_has():
    check_cycles(make_shared(584, jobs=8, pending=9))


def check_cycles(store):
    """Run cycles, each carried out before the next, and expect that nothing is broken."""
    policy, memory = POLICY(), Memory()
    for turn in range(3):
        snapshot = store.snapshot()
        result, memory = run_cycle(snapshot, None, policy, 1000.0 + 60 * turn, memory)
        assert not result.failures
        assert list(violations(snapshot, result, policy, with_records=True)) == []
        for row in result.evict_tasks.tolist():
            store.evict(row, 1000.0)
        store.cards.choose(result.bind_cards)
        store.place(result.bind_tasks, result.bind_nodes, TaskState.RUNNING, 1000.0)
        for task in np.flatnonzero(snapshot.tasks.state == TaskState.RELEASING).tolist():
            store.set_gone(task)


@settings(max_examples=6)
@given(SEEDS)
def test_the_cards_of_a_forecast_are_the_sums_over_its_pods(seed):
    def watch(now, result):
        assert list(violations(now, result, POLICY())) == []

    snapshot = make_shared(seed).snapshot()
    world = World(snapshot, None, POLICY(), Memory(), 1000.0)
    Course(world, lambda tasks, ages_s: ages_s + 30.0 + 70.0 * (tasks % 3), [], watch).run(
        (), 6, 1e6
    )
