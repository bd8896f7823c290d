"""Pipelining: a job may wait for room that is on its way, and then waits whole."""

from kaisched.testing import draw


def test_a_job_is_promised_room_that_is_leaving():
    before = draw("""
        queue a
        queue b
        node  n0  | b1 b2>
        job   a1
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue a
        queue b
        node  n0  | b1 b2>a1
        job   a1
    """)
    assert after.reasons["a1"] == "WaitingForRelease"


def test_idle_room_is_taken_before_leaving_room_is_promised():
    before = draw("""
        queue a
        node  n0  | a8> a9
        node  n1  | . .
        job   a1
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | a8> a9
        node  n1  | +a1 .
        job   a1
    """)


def test_a_gang_that_fits_only_with_leaving_room_waits_whole():
    before = draw("""
        queue a
        queue b
        node  n0  | b1> .
        job   a1  tasks=2
    """)
    assert before.after("allocate") == draw("""
        queue a
        queue b
        node  n0  | b1>a1 >a1
        job   a1  tasks=2
    """)


def test_promised_room_is_not_promised_twice():
    before = draw("""
        queue a
        queue b
        node  n0  | b1> b2
        job   a1
        job   a2
    """)
    assert before.after("allocate") == draw("""
        queue a
        queue b
        node  n0  | b1>a1 b2
        job   a1
        job   a2
    """)


def test_a_moment_later_the_promise_is_kept():
    before = draw("""
        queue a
        queue b
        node  n0  | b1>
        job   a1
        job   b1  on=n9
    """)
    assert before.after("allocate").settled().after("allocate") == draw("""
        queue a
        queue b
        node  n0  | +a1
        job   a1
        job   b1  on=n9
    """)
