"""Blocks: every row of a level once, whole groups, in canonical order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core import fairshare
from kaisched.core.fairshare import plan_level


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    resources=st.integers(1, 3),
    most=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_blocks_hold_every_row_once_and_cut_no_group(sizes, resources, most, seed):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    queue, rank = np.arange(len(group)) + 100, rng.permutation(len(group))
    priority = rng.integers(0, 3, len(group))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fairshare, "BLOCK_ROWS", most)
        patch.setattr(fairshare, "ALONE_ROWS", most)
        made = plan_level(queue, group, priority, rank, resources=resources)
    seen = [
        pair
        for block in made
        for pair in zip(block.resource_of_row.tolist(), block.queue_of_row.tolist(), strict=True)
    ]
    order = np.lexsort((rank, group))
    assert seen == [(r, q) for r in range(resources) for q in queue[order].tolist()]
    for block in made:
        assert len(block.contest_of_row) <= most or len(block.start) == 1
        assert np.bincount(block.group).tolist() == sizes[block.groups]
        if len(block.tiers) > 1:
            assert sorted(np.concatenate(block.tiers)) == list(range(len(block.contest_of_row)))


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), seed=st.integers(0, 2**32 - 1))
def test_sums_of_groups_are_exact_beyond_what_floats_hold(sizes, seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(group))
    (block,) = plan_level(rows, group, np.zeros_like(rows), rows, resources=2)
    values = rng.integers(0, 1 << 58, (2, len(rows)))
    expected = [[int(row[group == g].sum()) for g in range(len(sizes))] for row in values]
    assert block.sums(values).tolist() == expected
