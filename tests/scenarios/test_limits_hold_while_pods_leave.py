"""Limits count what leaves until it is gone: a job that only a limit keeps out waits for that."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion


def test_a_job_waits_on_an_idle_node_until_enough_has_left_its_parent():
    before = draw("""
        queue top limit=8
        queue a   parent=top
        queue b   parent=top
        node  n0  | a1 a1 a1 a1 a2> a2> a2> a2>
        node  n1  | . . . .
        job   b1  gpu=4
    """)
    after = before.after("allocate")
    assert after == draw("""
        queue top limit=8
        queue a   parent=top
        queue b   parent=top
        node  n0  | a1 a1 a1 a1 a2> a2> a2> a2>
        node  n1  | >b1 >b1 >b1 >b1
        job   b1  gpu=4
    """)
    assert after.reasons == {"b1": "WaitingForRelease"}
    assert "+b1" in str(after.settled().after("allocate"))


def test_beside_a_job_that_waits_others_are_bound_as_far_as_the_limit_allows():
    assert draw("""
        queue q   limit=8
        node  n0  | q1 q1 q1 q2> q2> . .
        node  n1  | . . . .
        job   q3  gpu=4
        job   q4
    """).after("allocate") == draw("""
        queue q   limit=8
        node  n0  | q1 q1 q1 q2> q2> +q4 .
        node  n1  | >q3 >q3 >q3 >q3
        job   q3  gpu=4
        job   q4
    """)


def test_a_gang_waits_whole():
    assert draw("""
        queue q   limit=4
        node  n0  | q1> q1>
        node  n1  | . . . .
        job   q2  tasks=3 min=3
    """).after("allocate") == draw("""
        queue q   limit=4
        node  n0  | q1> q1>
        node  n1  | >q2 >q2 >q2 .
        job   q2  tasks=3 min=3
    """)


def test_elastic_pods_start_one_by_one():
    assert draw("""
        queue q   limit=4
        node  n0  | q1> q1> . . . .
        job   q2  tasks=4 min=1
    """).after("allocate") == draw("""
        queue q   limit=4
        node  n0  | q1> q1> +q2 +q2 >q2 >q2
        job   q2  tasks=4 min=1
    """)


def test_victims_of_the_same_cycle_count_too():
    before = draw("""
        queue top limit=4
        queue a   parent=top
        queue b   parent=top deserved=4
        node  n0  | a1 a2 a3 a4
        node  n1  | . . . .
        job   b1  gpu=4
    """)
    after = before.after("allocate", "reclaim")
    assert after == draw("""
        queue top limit=4
        queue a   parent=top
        queue b   parent=top deserved=4
        node  n0  | a1> a2> a3> a4>
        node  n1  | >b1 >b1 >b1 >b1
        job   b1  gpu=4
    """)


def test_work_that_is_not_preemptible_waits_for_the_quota_of_its_queue():
    assert draw("""
        queue q   deserved=2
        node  n0  | q1> q1>
        node  n1  | . . .
        job   q1  priority=200
        job   q2  tasks=2 priority=200
        job   q3  priority=50
    """).after("allocate") == draw("""
        queue q   deserved=2
        node  n0  | q1> q1>
        node  n1  | >q2 >q2 +q3
        job   q1  priority=200
        job   q2  tasks=2 priority=200
        job   q3  priority=50
    """)
