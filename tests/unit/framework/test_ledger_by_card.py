"""Queues hold what their pods are of the cards of their nodes, whatever move brought them there.

A pod that asks for 40 MiB of a GPU is a whole one of 40 MiB or half of one of 80 (V2).
"""

import numpy as np
import pytest

from kaisched.core.axis import GPU
from tests.unit.actions.test_memory_limits import cluster
from tests.unit.framework.fakes import job, session, store

pytestmark = pytest.mark.proportion
SMALL, LARGE = 0, 1


def opened(*, tasks=2, **runs):
    made = cluster(small=5, large=5)
    made.asks("p", 40, tasks=tasks, is_preemptible=False, **runs)
    return session(made.store().snapshot())


def held(of):
    queue = of.queues.name.index("q")
    ledger = of.ledger
    return int(ledger.held[GPU, queue]), int(ledger.held_non_preemptible[GPU, queue])


MOVES = {
    "one on a small card": (lambda it: it.allocate(0, SMALL), 1000),
    "one on a large card": (lambda it: it.allocate(0, LARGE), 500),
    "one is promised a large card": (lambda it: it.pipeline(0, LARGE), 500),
    "a batch": (lambda it: it.place(np.array([0, 1]), np.array([SMALL, LARGE]), 0), 1500),
    "each": (lambda it: it.place_each([(0, SMALL, 0), (1, LARGE, 0)]), 1500),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_is_placed_counts_by_its_card_and_no_more_once_it_is_taken_back(name):
    of = opened()
    move, counts = MOVES[name]
    statement = of.statement()
    move(statement)
    assert held(of) == (counts, counts)
    statement.rollback()
    assert held(of) == (0, 0)


@pytest.mark.parametrize("each", [1, 5], ids=["a few", "many"])
def test_what_goes_counts_by_its_card_no_more_and_again_once_it_is_taken_back(each):
    of = opened(tasks=2 * each, running={"a40": each, "b80": each})
    assert held(of) == (1500 * each, 1500 * each)
    statement = of.statement()
    statement.evict_all(np.arange(2 * each))
    assert held(of) == (0, 0)
    statement.rollback()
    assert held(of) == (1500 * each, 1500 * each)


def test_what_moves_counts_by_its_new_card_and_by_the_old_one_once_it_is_taken_back():
    of = opened(tasks=1, running={"a40": 1})
    assert held(of) == (1000, 1000)
    statement = of.statement()
    statement.evict(0)
    mark = statement.checkpoint()
    statement.relocate(0, LARGE)
    assert held(of) == (500, 500)
    statement.rollback(mark)
    assert held(of) == (0, 0)
    statement.rollback()
    assert held(of) == (1000, 1000)


def test_a_claim_counts_for_the_first_job_and_queue_too():
    of = session(store(job("a"), nodes=(4,)).snapshot())
    charge = np.zeros(len(of.axis), np.int64)
    charge[GPU] = 7
    of.ledger.count_claim(0, charge, 1)
    assert of.ledger.held[GPU, 0] == 7
    of.ledger.count_claim(0, charge, -1)
    assert of.ledger.held[GPU, 0] == 0
