"""Queue order: who is served when there is not enough for all."""

from kaisched.testing import draw


def test_a_queue_below_its_quota_goes_before_one_above():
    before = draw("""
        queue a   deserved=1
        queue b   deserved=2
        node  n0  | a0 . .
        job   a1  tasks=1
        job   b1  tasks=2 min=1
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=1
        queue b   deserved=2
        node  n0  | a0 +b1 +b1
        job   a1  tasks=1
        job   b1  tasks=2 min=1
    """)


def test_two_equal_queues_take_turns():
    before = draw("""
        queue a
        queue b
        node  n0  | . . . .
        job   a1
        job   a2
        job   a3
        job   b1
        job   b2
        job   b3
    """)
    assert before.after("allocate") == draw("""
        queue a
        queue b
        node  n0  | +a1 +b1 +a2 +b2
        job   a1
        job   a2
        job   a3
        job   b1
        job   b2
        job   b3
    """)


def test_a_queue_that_holds_less_of_its_share_goes_first():
    before = draw("""
        queue a   weight=3
        queue b   weight=1
        node  n0  | a0 a0 b0 b0 . . . .
        job   a1
        job   a2
        job   a3
        job   a4
        job   b1
        job   b2
    """)
    assert before.after("allocate") == draw("""
        queue a   weight=3
        queue b   weight=1
        node  n0  | a0 a0 b0 b0 +a1 +a2 +a3 +a4
        job   a1
        job   a2
        job   a3
        job   a4
        job   b1
        job   b2
    """)


def test_the_order_is_decided_at_each_level_of_the_tree():
    """Queue top is at its quota, so b goes first, although y holds nothing."""
    before = draw("""
        queue top   deserved=2
        queue x     parent=top deserved=1
        queue y     parent=top deserved=1
        queue b     deserved=2
        node  n0    | x0 x0 . .
        job   y1
        job   b1    tasks=2
    """)
    assert before.after("allocate") == draw("""
        queue top   deserved=2
        queue x     parent=top deserved=1
        queue y     parent=top deserved=1
        queue b     deserved=2
        node  n0    | x0 x0 +b1 +b1
        job   y1
        job   b1    tasks=2
    """)


def test_free_room_is_given_away_above_the_fair_share():
    before = draw("""
        queue a   deserved=1 weight=0
        node  n0  | . . .
        job   a1
        job   a2
        job   a3
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=1 weight=0
        node  n0  | +a1 +a2 +a3
        job   a1
        job   a2
        job   a3
    """)
