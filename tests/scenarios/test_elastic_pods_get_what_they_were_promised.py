"""Victims of a cycle have gone: all pods that they went for are placed, whoever else waits."""

from kaisched.testing import draw


def test_each_promised_pod_of_a_running_job_is_placed_where_it_was_promised():
    before = draw("""
        queue a
        node  n0  | a1 . .
        node  n1  | >a1 >a1
        job   a1  tasks=3 min=1
        job   a2  tasks=2 priority=75
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | a1 +a2 +a2
        node  n1  | +a1 +a1
        job   a1  tasks=3 min=1
        job   a2  tasks=2 priority=75
    """)
