"""A queue gets its quota, and a job its place, though the first to go would not do."""

import pytest

from kaisched.testing import draw


@pytest.mark.proportion
def test_those_go_that_leave_the_guest_just_its_quota():
    """Guest has a quota of 1. The 4 that owner deserves are the two of 2; any other 4 is less."""
    ran = (
        draw("""
        queue owner deserved=4
        queue guest deserved=1
        node  n0 | guest1 guest1 guest2 guest3 guest3
        job   guest1 gpu=2
        job   guest2
        job   guest3 gpu=2
        job   owner1 gpu=4
    """)
        .builder()
        .run()
    )
    assert set(ran.evicted) == {"guest1-0", "guest3-0"}
    assert ran.promised == {"owner1-0": "n0"}


def test_two_small_jobs_move_where_the_one_of_their_size_finds_no_place():
    """Moving the job of 2 is as much and one pod less, but no other node has 2 free."""
    ran = (
        draw("""
        queue q deserved=12
        node  n0 | q1 q1 q2 q3
        node  n1 | q4 q4 q4 .
        node  n2 | q5 q5 q5 .
        job   q1 gpu=2
        job   q2
        job   q3
        job   q4 gpu=3
        job   q5 gpu=3
        job   q6 gpu=2
    """)
        .builder()
        .run()
    )
    assert set(ran.evicted) == {"q2-0", "q3-0"}
    assert ran.promised.pop("q6-0") == "n0"
    assert sorted(node for pod, node in ran.promised.items() if pod != "q6-0") == ["n1", "n2"]
