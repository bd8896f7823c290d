"""What a cycle adds to an elastic job is protected, not the pods that ran before."""

from kaisched.testing import draw


def test_pods_that_ran_before_go_though_their_job_gained_one():
    # a2 needs two GPUs and finds one idle, which a1 takes for its fifth pod.
    before = draw("""
        queue a
        node  n0  | a1 a1 a1 a1 .
        job   a1  tasks=5 min=1
        job   a2  priority=75 gpu=2
    """)
    after = before.after("allocate", "preempt")
    assert after == draw("""
        queue a
        node  n0  | a1 a1 a1>a2 a1>a2 +a1
        job   a1  tasks=5 min=1
        job   a2  priority=75 gpu=2
    """)


def test_what_was_added_stays_and_so_does_a_core_it_belongs_to():
    # The fourth pod makes a1 whole; nothing of it is elastic.
    before = draw("""
        queue a
        node  n0  | a1 a1 a1 .
        job   a1  tasks=4 min=4
        job   a2  priority=75 gpu=2
    """)
    after = before.after("allocate", "preempt")
    assert after == draw("""
        queue a
        node  n0  | a1 a1 a1 +a1
        job   a1  tasks=4 min=4
        job   a2  priority=75 gpu=2
    """)
