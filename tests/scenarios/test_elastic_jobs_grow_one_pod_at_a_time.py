"""Elastic jobs: beyond its minimum a job competes for each pod anew."""

from kaisched.testing import draw


def test_an_elastic_job_starts_with_what_fits_beyond_its_minimum():
    before = draw("""
        queue a
        node  n0  | . . .
        job   a1  tasks=5 min=2
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | +a1 +a1 +a1
        job   a1  tasks=5 min=2
    """)


def test_an_elastic_job_that_cannot_reach_its_minimum_gets_nothing():
    before = draw("""
        queue a
        node  n0  | .
        job   a1  tasks=5 min=2
    """)
    assert before.after("allocate") == before


def test_the_minimum_of_a_later_job_comes_before_the_surplus_of_an_earlier_one():
    before = draw("""
        queue a
        node  n0  | . . .
        job   a1  tasks=3 min=1
        job   a2  tasks=2 min=2
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | +a1 +a2 +a2
        job   a1  tasks=3 min=1
        job   a2  tasks=2 min=2
    """)


def test_surplus_pods_of_two_queues_take_turns():
    before = draw("""
        queue a
        queue b
        node  n0  | . . . .
        job   a1  tasks=4 min=1
        job   b1  tasks=4 min=1
    """)
    assert before.after("allocate") == draw("""
        queue a
        queue b
        node  n0  | +a1 +b1 +a1 +b1
        job   a1  tasks=4 min=1
        job   b1  tasks=4 min=1
    """)
