"""Allocate goes on: no job waits because another one cannot start."""

import pytest

from kaisched.testing import draw


@pytest.mark.fault("F105")
def test_a_small_job_passes_a_big_gang_of_its_own_queue():
    before = draw("""
        queue a
        node  n0  | . .
        job   a1  tasks=4
        job   a2
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | +a2 .
        job   a1  tasks=4
        job   a2
    """)


def test_a_small_job_passes_a_big_gang_of_a_more_deserving_queue():
    before = draw("""
        queue a   deserved=4
        queue b
        node  n0  | . .
        job   a1  tasks=4
        job   b1
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=4
        queue b
        node  n0  | +b1 .
        job   a1  tasks=4
        job   b1
    """)


def test_a_job_over_the_limit_lets_the_next_one_pass():
    before = draw("""
        queue a   limit=2
        node  n0  | . . . .
        job   a1  tasks=3
        job   a2  tasks=2
    """)
    assert before.after("allocate") == draw("""
        queue a   limit=2
        node  n0  | +a2 +a2 . .
        job   a1  tasks=3
        job   a2  tasks=2
    """)


def test_a_pod_larger_than_every_node_lets_others_pass():
    before = draw("""
        queue a
        node  n0  | . .
        job   a1  gpu=8
        job   a2  gpu=2
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue a
        node  n0  | +a2 +a2
        job   a1  gpu=8
        job   a2  gpu=2
    """)
    assert set(after.reasons) == {"a1"}
