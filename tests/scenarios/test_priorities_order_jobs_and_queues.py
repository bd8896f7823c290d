"""Priorities: of jobs inside a queue, of queues among siblings."""

from kaisched.testing import draw


def test_the_job_of_higher_priority_goes_first_however_young_it_is():
    before = draw("""
        queue a
        node  n0  | .
        job   a1  priority=50
        job   a2  priority=75
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | +a2
        job   a1  priority=50
        job   a2  priority=75
    """)


def test_among_equals_the_older_job_goes_first():
    before = draw("""
        queue a
        node  n0  | .
        job   a2
        job   a1
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | +a2
        job   a2
        job   a1
    """)


def test_a_queue_of_higher_priority_goes_first_where_none_is_below_its_quota():
    before = draw("""
        queue a
        queue b   priority=200
        node  n0  | . .
        job   a1  tasks=2 min=1
        job   b1  tasks=2 min=1
    """)
    assert before.after("allocate") == draw("""
        queue a
        queue b   priority=200
        node  n0  | +b1 +b1
        job   a1  tasks=2 min=1
        job   b1  tasks=2 min=1
    """)


def test_a_queue_below_its_quota_goes_before_one_of_higher_priority():
    before = draw("""
        queue a   deserved=1
        queue b   priority=200
        node  n0  | . .
        job   a1  tasks=2 min=1
        job   b1  tasks=2 min=1
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=1
        queue b   priority=200
        node  n0  | +a1 +b1
        job   a1  tasks=2 min=1
        job   b1  tasks=2 min=1
    """)


def test_a_job_s_priority_does_not_help_its_queue():
    before = draw("""
        queue a   deserved=1
        queue b
        node  n0  | .
        job   a1  priority=50
        job   b1  priority=99
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=1
        queue b
        node  n0  | +a1
        job   a1  priority=50
        job   b1  priority=99
    """)
