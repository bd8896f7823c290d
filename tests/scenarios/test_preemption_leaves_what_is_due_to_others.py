"""A more important job takes its own queue's room, and beside it only what nobody else is due."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion


def test_no_preemption_takes_idle_room_that_another_queue_is_entitled_to():
    before = draw("""
        queue a   deserved=1 weight=0
        queue b   deserved=3
        node  n0  | a1 . . .
        job   a1  priority=50
        job   a2  tasks=2 priority=75
        job   b1  tasks=3
    """)
    assert before.after("preempt") == before


def test_it_takes_what_nobody_is_entitled_to():
    before = draw("""
        queue a   deserved=1 weight=0
        queue b   deserved=3
        node  n0  | a1 . . .
        job   a1  priority=50
        job   a2  tasks=2 priority=75
        job   b1  tasks=2
    """)
    assert before.after("preempt") == draw("""
        queue a   deserved=1 weight=0
        queue b   deserved=3
        node  n0  | a1>a2 >a2 . .
        job   a1  priority=50
        job   a2  tasks=2 priority=75
        job   b1  tasks=2
    """)


def test_what_a_queue_has_beyond_its_share_may_change_hands_inside_it():
    """Whoever is entitled to it may reclaim it, before and after."""
    before = draw("""
        queue a   deserved=1 weight=0
        queue b   deserved=3
        node  n0  | a1 a1 a1 .
        job   a1  priority=50
        job   a2  tasks=3 priority=75
        job   b1  tasks=3
    """)
    assert before.after("preempt") == draw("""
        queue a   deserved=1 weight=0
        queue b   deserved=3
        node  n0  | a1>a2 a1>a2 a1>a2 .
        job   a1  priority=50
        job   a2  tasks=3 priority=75
        job   b1  tasks=3
    """)
