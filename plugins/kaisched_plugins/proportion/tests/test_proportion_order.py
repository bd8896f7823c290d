"""Proportion: which of several sibling queues goes first."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched import CPU, GPU, PODS, UNLIMITED, shares
from kaisched_plugins.proportion import Proportion
from kaisched_plugins.proportion.standing import Standing
from tests.oracles.shares import dominant_share

PLUGIN = Proportion(Proportion.Arguments())
RESOURCES = 4


def queue(deserved=0, share=0, *, limit=UNLIMITED, held=0, ask=0, priority=100, **cpu):
    """Describe a queue in whole GPUs; ``cpu_deserved``, ``cpu_share`` ... are in milli-CPU."""
    gpus = {
        "deserved": deserved,
        "share": share,
        "limit": limit,
        "held": held,
        "ask": ask,
    }
    milli = {name: min(amount * 1000, UNLIMITED) for name, amount in gpus.items()}
    return SimpleNamespace(gpu=milli, priority=priority, cpu=cpu)


def column(queues, name, cpu=0, pods=0):
    """``(R, Q)`` amounts of all queues under one name."""
    amounts = np.zeros((RESOURCES, len(queues)), np.int64)
    amounts[GPU] = [each.gpu[name] for each in queues]
    amounts[CPU] = [each.cpu.get(f"cpu_{name}", cpu) for each in queues]
    amounts[PODS] = pods
    return amounts


class QueueColumns(SimpleNamespace):
    def __len__(self):
        return len(self.priority)


def session_of(*queues, total=100):
    session: Any = SimpleNamespace(
        queues=QueueColumns(
            deserved=column(queues, "deserved", pods=UNLIMITED),
            limit=column(queues, "limit", cpu=UNLIMITED, pods=UNLIMITED),
            priority=np.array([each.priority for each in queues]),
        ),
        fair_share=column(queues, "share", pods=1),
        total=np.array([total, total, total, 1]) * 1000,
        hints={},
        state={},
    )
    session.state["proportion"] = PLUGIN.session_open(session)
    return session


def keys_of(session, rows, held, ask):
    """Return the keys by which queues are compared: what is due, then how full they are."""
    jobs = np.zeros(len(rows), np.int64)
    return (
        *PLUGIN.queue_order(session, rows, held, ask),
        *PLUGIN.head_order(session, rows, jobs, held, ask),
    )


def order(*queues):
    """Return the positions of queues, first to last; ties keep the order of the input."""
    held, ask = column(queues, "held", pods=7), column(queues, "ask", pods=3)
    keys = keys_of(session_of(*queues), np.arange(len(queues)), held, ask)
    return np.lexsort(keys[::-1]).tolist()


# The cases of KAI-Scheduler's queue_order_test.go, in whole GPUs.
SATISFIED = {"deserved": 2, "share": 99, "held": 20}


@pytest.mark.parametrize(
    ("left", "right", "first"),
    [
        pytest.param(queue(**SATISFIED), queue(2, 2), 1, id="starved first"),
        pytest.param(
            queue(**SATISFIED, priority=101), queue(2, 2), 1, id="starved before priority"
        ),
        pytest.param(
            queue(**SATISFIED, priority=101), queue(2, 2, held=3), 0, id="priority if satisfied"
        ),
        pytest.param(
            queue(**SATISFIED, priority=101),
            queue(2, 80, held=3),
            0,
            id="priority before the smaller share",
        ),
        pytest.param(
            queue(50, 50, held=40, ask=1), queue(50, 50, held=40, ask=2), 0, id="smaller ask"
        ),
        pytest.param(
            queue(50, 50, held=40, ask=16), queue(50, 50, held=40, ask=4), 1, id="larger ask"
        ),
    ],
)
def test_cases_known_from_kai(left, right, first):
    assert order(left, right)[0] == first


@pytest.mark.parametrize(
    ("left", "right", "first"),
    [
        pytest.param(
            queue(0, 4, held=5, priority=200), queue(0, 4, held=4), 1, id="over-utilised last"
        ),
        pytest.param(
            queue(0, 4, held=5, ask=1, cpu_share=9000, cpu_held=8000, priority=200),
            queue(0, 9, held=4, ask=1),
            0,
            id="not over-utilised while within its share of one resource it holds",
        ),
        pytest.param(
            queue(0, 0, priority=200, cpu_share=1000, cpu_held=2000),
            queue(0, 9, held=4, ask=1),
            1,
            id="a queue without GPU jobs can be over-utilised too",
        ),
        pytest.param(
            queue(0, 0, ask=1), queue(0, 2, held=9, cpu_share=2, cpu_held=1), 1, id="forbidden"
        ),
        pytest.param(
            queue(0, 10, held=4, ask=4), queue(0, 10, held=6, ask=1), 1, id="share with the job"
        ),
        pytest.param(
            queue(0, 10, held=6, ask=2), queue(0, 10, held=4, ask=4), 1, id="then without it"
        ),
        pytest.param(queue(0, 8), queue(0, 4), 1, id="then the smaller allocatable share"),
        pytest.param(
            queue(UNLIMITED, 4, limit=UNLIMITED), queue(0, 8), 1, id="unlimited is largest"
        ),
        pytest.param(queue(0, 8), queue(0, 8), 0, id="a full tie is left to the next rule"),
    ],
)
def test_each_rule_in_turn(left, right, first):
    assert order(left, right)[0] == first


def test_keys_depend_on_the_arguments_only_and_always_have_the_same_columns():
    """The walk compares keys of different questions with each other."""
    queues = [queue(2, 4, held=5, ask=1), queue(2, 4, held=1, ask=1), queue(1, 9, held=3, ask=2)]
    session = session_of(*queues)
    held, ask = column(queues, "held"), column(queues, "ask")
    together = keys_of(session, np.arange(3), held, ask)
    for at in range(3):
        alone = keys_of(session, np.array([at]), held[:, [at]], ask[:, [at]])
        assert [key[0] for key in alone] == [key[at] for key in together]


AMOUNT = st.integers(0, 10**12)
BOUND = AMOUNT | st.just(UNLIMITED) | st.integers(0, 5)


@given(st.data())
def test_shares_are_those_of_the_library_and_sizes_agree_with_dominance(data):
    def drawn(values):
        rows = [[data.draw(values) for _ in range(2)] for _ in range(RESOURCES)]
        return np.array(rows, np.int64)

    deserved, limit, share, held = drawn(BOUND), drawn(BOUND), drawn(AMOUNT), drawn(AMOUNT)
    total = np.array([data.draw(AMOUNT) for _ in range(RESOURCES)], np.int64)
    session: Any = SimpleNamespace(
        queues=QueueColumns(deserved=deserved, limit=limit, priority=np.zeros(2, np.int64)),
        fair_share=share,
        total=total,
    )
    _, with_job, without_job, size = Standing.of(session).ratios(
        np.arange(2), held, np.zeros_like(held)
    )
    without_pods = [row for row in range(RESOURCES) if row != PODS]
    allocatable = shares.allocatable_share(deserved, limit, share)[without_pods]
    expected = dominant_share(held[without_pods], allocatable, total[without_pods])
    assert with_job.tolist() == without_job.tolist() == expected.tolist()
    if (allocatable[:, 0] <= allocatable[:, 1]).all():
        assert size[0] <= size[1]


def test_a_queue_that_holds_nothing_is_not_over_utilised():
    nothing = np.zeros((RESOURCES, 2), np.int64)
    some = nothing.copy()
    some[GPU] = 0, 1_000
    session: Any = SimpleNamespace(
        queues=QueueColumns(
            deserved=nothing, limit=nothing + UNLIMITED, priority=np.zeros(2, np.int64)
        ),
        fair_share=nothing,
        total=some[:, 1],
    )
    over = Standing.of(session).entitled(np.arange(2), some, nothing)[0]
    assert over.tolist() == [0, 1]
