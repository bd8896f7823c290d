"""Laws of the hand-over between node pools: one owner, one pool, nothing waits for ever."""

import pytest

from tests.laws import pool_hand_over, pool_marks


@pytest.mark.parametrize("seed", range(12))
def test_no_job_has_two_owners_and_no_gang_two_pools(seed):
    pool_hand_over.play(pool_hand_over.Model(seed), is_settled=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(6))
def test_no_gang_is_in_two_pools_of_two_processes(seed):
    pool_hand_over.play(pool_marks.MarkModel(seed), steps=200, is_settled=seed % 3 == 0)
