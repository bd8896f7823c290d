"""Whatever moves are tried and taken back in whatever order, the ledger is what the tasks say."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kaisched.core.axis import TaskState
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from tests.amounts import amounts_of, assert_equal
from tests.laws.clusters import NOW_S, make_cluster, policy
from tests.oracles.naive_allocate import PlainSession

PENDING, RUNNING = int(TaskState.PENDING), int(TaskState.RUNNING)
numbers = st.integers(0, 1 << 16)


class StatementMachine(RuleBasedStateMachine):
    """One statement after the other on one session."""

    @initialize(seed=numbers, gpu=st.sampled_from(["binpack", "spread"]))
    def start(self, seed, gpu):
        self.policy = policy(gpu=gpu)
        self.snapshot = make_cluster(seed).store().snapshot()
        ask = self.policy.questions
        self.session = Session(self.snapshot, None, self.policy, NOW_S, Memory(), ask)
        ask.open(self.session)
        self.ledger = self.session.ledger
        self.statement = self.session.statement()
        self.marks = [(0, amounts_of(self.session))]
        self.moved = 0

    def tasks_in(self, state):
        rows = np.flatnonzero(self.ledger.state == state)
        jobs = self.snapshot.tasks.job_of_task[rows]
        rows = rows[jobs >= 0]
        return rows[self.snapshot.jobs.queue_of_job[jobs[jobs >= 0]] >= 0]

    def any_of(self, rows, number):
        return int(rows[number % len(rows)])

    @precondition(lambda self: len(self.tasks_in(PENDING)))
    @rule(number=numbers, count=st.integers(1, 4))
    def place(self, number, count):
        """Place pods of one shape where the session would, as one batch."""
        rows = self.tasks_in(PENDING)
        shapes = self.snapshot.tasks.shape_of_task
        shape = int(shapes[self.any_of(rows, number)])
        same = rows[shapes[rows] == shape][:count]
        placement = self.session.placement
        nodes = placement.choose(placement.free_capacity(shape), len(same))
        if nodes is not None:
            self.statement.place(same, nodes, shape)

    @precondition(lambda self: len(self.tasks_in(PENDING)))
    @rule(number=numbers, count=st.sampled_from([1, 3, 40]))
    def place_each(self, number, count):
        """Place pods of any shapes, each where the session would when the one before has room."""
        rows = np.roll(self.tasks_in(PENDING), number)[:count].tolist()
        self.statement.place_each(self.with_room(rows))

    def with_room(self, rows):
        placement = self.session.placement
        for task in rows:
            shape = int(self.snapshot.tasks.shape_of_task[task])
            nodes = placement.choose(placement.free_capacity(shape), 1)
            if nodes is not None:
                yield task, int(nodes[0]), shape

    @precondition(lambda self: len(self.tasks_in(PENDING)))
    @rule(number=numbers, node=numbers, is_promise=st.booleans())
    def move(self, number, node, is_promise):
        """Allocate or promise, whether or not there is room: the ledger does not judge."""
        task = self.any_of(self.tasks_in(PENDING), number)
        move = self.statement.pipeline if is_promise else self.statement.allocate
        move(task, node % len(self.snapshot.nodes))

    @precondition(lambda self: len(self.tasks_in(RUNNING)))
    @rule(number=numbers)
    def evict(self, number):
        self.statement.evict(self.any_of(self.tasks_in(RUNNING), number))

    @rule()
    def checkpoint(self):
        self.marks.append((self.statement.checkpoint(), amounts_of(self.session)))

    @rule(number=numbers)
    def rollback(self, number):
        """Every array is again what it was at the mark, to the bit."""
        at = number % len(self.marks)
        mark, before = self.marks[at]
        self.statement.rollback(mark)
        del self.marks[at + 1 :]
        assert_equal(self.session, before)

    @rule()
    def promise_all(self):
        """Everything placed since the last mark becomes a promise; evictions stay."""
        mark, _ = self.marks[-1]
        gone = len(np.flatnonzero(self.ledger.state == int(TaskState.RELEASING)))
        self.statement.pipeline_all(mark)
        assert len(np.flatnonzero(self.ledger.state == int(TaskState.RELEASING))) == gone

    @rule()
    def commit(self):
        """What is kept becomes intents, once each."""
        outcome = self.session.outcome
        self.statement.commit("test")
        tasks, nodes = outcome.binds()
        assert (self.ledger.state[tasks] == int(TaskState.ALLOCATED)).all()
        assert np.array_equal(self.ledger.node_of_task[tasks], nodes)
        placed = [*tasks.tolist(), *(task for task, _ in outcome.nominations)]
        assert len(placed) == len(set(placed))
        changed = np.flatnonzero(self.ledger.state != self.snapshot.tasks.state).tolist()
        assert sorted([*placed, *(move.task for move in outcome.evictions)]) == changed
        self.marks = [(0, amounts_of(self.session))]
        self.statement = self.session.statement()

    @invariant()
    def the_ledger_is_what_the_tasks_say(self):
        if not hasattr(self, "ledger"):
            return
        plain = PlainSession(
            self.snapshot, self.policy, self.ledger.state, self.ledger.node_of_task
        )
        for name, array in amounts_of(self.session).items():
            assert np.array_equal(array, getattr(plain.ledger, name)), name

    @precondition(lambda self: len(self.tasks_in(PENDING)))
    @rule(number=numbers)
    def room_is_what_the_tasks_say(self, number):
        plain = PlainSession(
            self.snapshot, self.policy, self.ledger.state, self.ledger.node_of_task
        )
        shape = int(self.snapshot.tasks.shape_of_task[self.any_of(self.tasks_in(PENDING), number)])
        placement = self.session.placement
        assert np.array_equal(self.session.room(shape), plain.room(shape))
        rows = np.arange(len(self.snapshot.nodes))
        codes = plain.ask.node_filter(plain, shape, rows)
        plan = placement.plan(shape)
        assert np.array_equal(
            np.zeros(len(rows)) if codes is None else codes,
            np.zeros(len(rows)) if plan.codes is None else plan.codes,
        )


TestStatement = StatementMachine.TestCase
TestStatement.settings = settings(stateful_step_count=25)
