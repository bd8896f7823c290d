"""Backfill: others may use idle room, as long as each promise has enough room in the end."""

import pytest

from kaisched.testing import draw

FILLERS = {"elastic": "job   b2  tasks=1 min=0", "single": "job   b2  tasks=1 priority=90"}


@pytest.mark.parametrize("filler", FILLERS.values(), ids=FILLERS)
def test_a_job_uses_the_gpu_that_no_promise_needs(filler):
    """Three GPUs will be free and two are promised: whoever asks first gets the third."""
    before = draw(f"""
        queue a
        queue b
        node  n0  | b1>a1 b1>a1 .
        job   a1  tasks=2
        {filler}
    """)
    after = before.after("allocate")
    assert after.ran.placed == {"b2-0": "n0"}
    assert set(after.ran.promised) == {"a1-0", "a1-1"}


@pytest.mark.parametrize("filler", FILLERS.values(), ids=FILLERS)
def test_a_job_does_not_use_the_gpu_that_a_promise_needs(filler):
    """All GPUs that will be free are promised: the idle one too, whoever asks."""
    before = draw(f"""
        queue a
        queue b
        node  n0  | b1>a1 b1>a1 >a1
        job   a1  tasks=3
        {filler}
    """)
    after = before.after("allocate")
    assert after.ran.placed == {}
    assert set(after.ran.promised) == {"a1-0", "a1-1", "a1-2"}
