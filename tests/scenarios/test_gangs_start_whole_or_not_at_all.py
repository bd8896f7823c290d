"""Gangs: all members that a job needs are placed in one cycle, or none is."""

from kaisched.testing import draw


def test_a_gang_that_fits_is_placed_whole():
    before = draw("""
        queue a   deserved=4
        node  n0  | . .
        node  n1  | . .
        job   a1  tasks=3 min=3
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=4
        node  n0  | +a1 +a1
        node  n1  | +a1 .
        job   a1  tasks=3 min=3
    """)


def test_a_gang_that_fits_in_part_is_not_placed_at_all():
    before = draw("""
        queue a   deserved=4
        node  n0  | . .
        node  n1  | b1 .
        queue b
        job   a1  tasks=4 min=4
    """)
    after = before.after("allocate")
    assert after == before
    assert after.reasons == {"a1": "GangNoRoom"}


def test_a_gang_of_large_pods_is_not_placed_on_scattered_gpus():
    before = draw("""
        queue a
        node  n0  | a0 . .
        node  n1  | a0 . .
        job   a1  tasks=1 gpu=3
    """)
    after = before.after("allocate")
    assert after == before
    assert after.reasons == {"a1": "NoRoom"}


def test_a_gang_that_lost_members_gets_only_what_it_lacks():
    before = draw("""
        queue a
        node  n0  | a1 . . .
        job   a1  tasks=3 min=3
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | a1 +a1 +a1 .
        job   a1  tasks=3 min=3
    """)


def test_a_gang_with_fewer_pods_than_its_minimum_is_not_tried():
    before = draw("""
        queue a
        node  n0  | . . .
        job   a1  tasks=2 min=3
    """)
    after = before.after("allocate")
    assert after == before
    assert after.reasons == {"a1": "GangIncomplete"}
