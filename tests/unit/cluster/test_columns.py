"""Columns that snapshots share stay as they were, whatever is written afterwards."""

import numpy as np
import pytest

from kaisched.cluster.columns import Column, MapColumn

SIZE = 100


def filled(size):
    column = Column(np.int64, -1)
    column.grow(size + 8)
    column.own()[:size] = np.arange(size)
    return column


def test_an_old_snapshot_of_a_column_stays_as_it_was():
    column = filled(SIZE)
    old = column.frozen(SIZE)
    assert column.frozen(SIZE) is old
    column.own()[0] = 1000
    column.own()[SIZE - 1] = 2000
    assert old.tolist() == list(range(SIZE))
    assert column.frozen(SIZE)[[0, SIZE - 1]].tolist() == [1000, 2000]
    with pytest.raises(ValueError, match="read-only"):
        old[0] = 1


def test_old_snapshots_stay_while_a_column_grows():
    column = filled(SIZE - 2)
    snapshots = {}
    for size in range(SIZE - 2, SIZE + 6):
        column.grow(size)
        column.own()[size - 1] = size - 1  # the row that is new, or the last one
        snapshots[size] = column.frozen(size)
        column.own()[0] = size  # an event after the snapshot, in a row that it has
    for size, seen in snapshots.items():
        first = 0 if size == SIZE - 2 else size - 1
        assert seen.tolist() == [first, *range(1, size)]


def test_rows_that_are_added_cost_no_copy():
    column = filled(SIZE)
    old = column.frozen(SIZE)
    before = column.data
    column.data[SIZE] = SIZE
    later = column.frozen(SIZE + 1)
    assert column.data is before
    assert (len(old), later[SIZE]) == (SIZE, SIZE)
    assert np.shares_memory(later, old)


def test_an_old_snapshot_of_a_few_rows_stays_as_it_was():
    column = MapColumn()
    column.set(3, "a")
    old = column.frozen()
    assert column.frozen() is old
    column.set(3, "b")
    assert (old, column.frozen()) == ({3: "a"}, {3: "b"})
