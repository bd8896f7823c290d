"""The levels of a division: every row once, in canonical order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.fairshare import plan_level

some_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(sizes=some_sizes, resources=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_a_level_holds_every_row_once(sizes, resources, seed):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    queue, rank = np.arange(len(group)) + 100, rng.permutation(len(group))
    priority = rng.integers(0, 3, len(group))
    level = plan_level(queue, group, priority, rank, resources=resources)
    seen = list(zip(level.resource_of_row.tolist(), level.queue_of_row.tolist(), strict=True))
    order = np.lexsort((rank, group))
    assert seen == [(r, q) for r in range(resources) for q in queue[order].tolist()]
    assert np.bincount(level.group).tolist() == sizes
    if len(level.tiers) > 1:
        assert sorted(np.concatenate(level.tiers)) == list(range(len(level.contest_of_row)))


@given(sizes=some_sizes, seed=st.integers(0, 2**32 - 1))
def test_sums_of_groups_are_exact_beyond_what_floats_hold(sizes, seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(group))
    level = plan_level(rows, group, np.zeros_like(rows), rows, resources=2)
    values = rng.integers(0, 1 << 58, (2, len(rows)))
    expected = [[int(row[group == g].sum()) for g in range(len(sizes))] for row in values]
    assert level.sums(values).tolist() == expected
