"""Who may not cause evictions yet."""

import time

import numpy as np
import pytest

from kaisched.actions.eviction.evicting import held_back
from kaisched.core.refusals import Refusal
from kaisched.framework.memory import Memory
from tests.unit.framework.fakes import job, session, store

DELAYED = int(Refusal.EVICTION_DELAY)


def opened(made, now_s, memory=None):
    at = session(made.snapshot(), memory=memory)
    at.now_s = now_s
    return at


def codes(at, rows=None):
    said = held_back(at, np.arange(len(at.jobs.name)) if rows is None else np.array(rows))
    return None if said is None else said.tolist()


def test_without_a_delay_there_is_nothing_to_say():
    assert codes(opened(store(job("a"), job("b")), 0.0)) is None


@pytest.mark.fault("F104")
def test_a_job_waits_from_its_creation():
    made = store(job("a", created_s=100.0, preemption_delay_s=10.0), job("b", created_s=100.0))
    assert codes(opened(made, 109.9)) == [DELAYED, 0]
    assert codes(opened(made, 109.9), [1]) is None
    assert codes(opened(made, 110.0)) is None


@pytest.mark.fault("F104")
def test_an_eviction_starts_the_delay_again():
    made = store(job("a", created_s=100.0, preemption_delay_s=10.0, last_evicted_s=200.0))
    assert codes(opened(made, 209.0)) == [DELAYED]
    assert codes(opened(made, 210.0)) is None


def test_a_job_that_comes_later_is_seen():
    memory = Memory()
    made = store(job("a"))
    assert codes(opened(made, 0.0, memory)) is None
    made.add_job("default/b", "q", priority=1, is_preemptible=True, created_s=0.0, tasks=())
    assert codes(opened(made, 0.0, memory)) is None
    row = made.add_job("default/c", "q", priority=1, is_preemptible=True, created_s=0.0, tasks=())
    made.jobs.rare.set((row, 0), 5.0)
    assert codes(opened(made, 0.0, memory)) == [0, 0, DELAYED]
    made.revision += 1
    made.jobs.rare.set((row, 0), 0.0)
    assert codes(opened(made, 0.0, memory)) is None


def test_nobody_s_delay_costs_next_to_nothing():
    made = store(*(job(f"j{number}") for number in range(500)))
    at = opened(made, 0.0)
    held_back(at, np.arange(500))
    rows = np.arange(500)
    best = min(_timed(lambda: held_back(at, rows)) for _ in range(200))
    assert best < 2 * min(_timed(lambda: _look_at_each(rows)) for _ in range(200))


def _look_at_each(rows):
    for _row in rows:
        pass


def _timed(call):
    start = time.thread_time()
    call()
    return time.thread_time() - start
