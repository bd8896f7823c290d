"""What may not be evicted may not rest on borrowed room either."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion


@pytest.mark.fault("H114")
def test_a_non_preemptible_job_is_placed_within_the_quota_only():
    before = draw("""
        queue a   deserved=2
        node  n0  | . . . .
        job   a1  tasks=2 priority=100
        job   a2  tasks=1 priority=100
        job   a3  tasks=1
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue a   deserved=2
        node  n0  | +a1 +a1 +a3 .
        job   a1  tasks=2 priority=100
        job   a2  tasks=1 priority=100
        job   a3  tasks=1
    """)
    assert after.reasons == {"a2": "NonPreemptibleOverQuota"}


def test_preemptible_jobs_do_not_use_up_the_quota_of_non_preemptible_ones():
    before = draw("""
        queue a   deserved=2
        node  n0  | a0 a0 . .
        job   a1  tasks=2 priority=100
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=2
        node  n0  | a0 a0 +a1 +a1
        job   a1  tasks=2 priority=100
    """)


def test_the_quota_of_each_ancestor_counts_too():
    before = draw("""
        queue top deserved=1
        queue a   parent=top deserved=2
        node  n0  | . . .
        job   a1  priority=100
        job   a2  priority=100
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue top deserved=1
        queue a   parent=top deserved=2
        node  n0  | +a1 . .
        job   a1  priority=100
        job   a2  priority=100
    """)
    assert after.reasons == {"a2": "NonPreemptibleOverQuota"}


def test_a_job_may_say_that_it_is_preemptible_whatever_its_priority():
    before = draw("""
        queue a   deserved=0
        node  n0  | .
        job   a1  priority=100 preemptible=yes
    """)
    assert before.after("allocate") == draw("""
        queue a   deserved=0
        node  n0  | +a1
        job   a1  priority=100 preemptible=yes
    """)
