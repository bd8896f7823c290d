"""Limits: no queue, leaf or inner, holds more than its limit."""

from kaisched.testing import draw


def test_a_queue_stays_within_its_own_limit():
    before = draw("""
        queue a   limit=2
        node  n0  | . . .
        job   a1
        job   a2
        job   a3
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue a   limit=2
        node  n0  | +a1 +a2 .
        job   a1
        job   a2
        job   a3
    """)
    assert after.reasons == {"a3": "OverLimit"}


def test_siblings_stay_within_their_parent_s_limit_together():
    before = draw("""
        queue top limit=3
        queue a   parent=top limit=2
        queue b   parent=top limit=2
        node  n0  | . . . .
        job   a1
        job   a2
        job   b1
        job   b2
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue top limit=3
        queue a   parent=top limit=2
        queue b   parent=top limit=2
        node  n0  | +a1 +b1 +a2 .
        job   a1
        job   a2
        job   b1
        job   b2
    """)
    assert after.reasons == {"b2": "OverLimit"}


def test_a_gang_is_held_against_the_limit_as_a_whole():
    before = draw("""
        queue a   limit=3
        node  n0  | a0 a0 . .
        job   a1  tasks=2
        job   a2  tasks=1
    """)
    assert before.after("allocate") == draw("""
        queue a   limit=3
        node  n0  | a0 a0 +a2 .
        job   a1  tasks=2
        job   a2  tasks=1
    """)


def test_a_limit_of_cpu_stops_jobs_that_ask_for_cpu():
    before = draw("""
        queue a   limit.cpu=4
        node  n0  | . . .
        job   a1  cpu=3
        job   a2  cpu=3
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue a   limit.cpu=4
        node  n0  | +a1 . .
        job   a1  cpu=3
        job   a2  cpu=3
    """)
    assert after.reasons == {"a2": "OverLimit"}


def test_a_limit_of_zero_lets_nothing_in():
    before = draw("""
        queue a   limit=0
        node  n0  | .
        job   a1
        job   a2  gpu=0
    """)
    assert before.after("allocate") == draw("""
        queue a   limit=0
        node  n0  | . | +a2
        job   a1
        job   a2  gpu=0
    """)
