"""Columns on both sides of the length up to which a snapshot copies a changed one."""

import numpy as np
import pytest

from kaisched.cluster.columns import Block, Column
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from tests.oracles.accounts import content

SHORT = 4096
"""Of kaisched/cluster/columns.py: up to here a snapshot copies, above it shares."""
SIZES = [SHORT - 1, SHORT, SHORT + 1]


def filled(size):
    column = Column(np.int64, -1, is_hot=True)
    column.grow(size + 8)
    column.own()[:size] = np.arange(size)
    return column


@pytest.mark.parametrize("size", SIZES)
def test_an_old_snapshot_of_a_column_stays_as_it_was(size):
    column = filled(size)
    old = column.frozen(size)
    assert column.frozen(size) is old
    assert np.shares_memory(old, column.data) is (size > SHORT)
    column.own()[0] = 1000
    column.edit()[size - 1] = 2000
    assert old.tolist() == list(range(size))
    assert column.frozen(size)[[0, size - 1]].tolist() == [1000, 2000]
    with pytest.raises(ValueError, match="read-only"):
        old[0] = 1


def test_old_snapshots_stay_while_a_column_grows_over_the_boundary():
    column = filled(SHORT - 2)
    snapshots = {}
    for size in range(SHORT - 2, SHORT + 6):
        column.grow(size)
        column.edit()[size - 1] = size - 1  # the row that is new, or the last one
        snapshots[size] = column.frozen(size)
        column.edit()[0] = size  # an event after the snapshot, in a row that it has
    for size, seen in snapshots.items():
        first = 0 if size == SHORT - 2 else size - 1
        assert seen.tolist() == [first, *range(1, size)]


@pytest.mark.parametrize("size", SIZES)
def test_an_old_snapshot_of_a_block_stays_as_it_was(size):
    block = Block(2, size + 8, is_hot=True)
    block.add(size - 1, (3, 4))
    old = block.frozen(size)
    assert block.frozen(size) is old
    block.add(size - 1, (10, 20))
    block.own()[0, 0] = 7
    assert old[:, size - 1].tolist() == [3, 4]
    assert old[:, 0].tolist() == [0, 0]
    now = block.frozen(size)
    assert now[:, size - 1].tolist() == [13, 24]
    assert now[:, 0].tolist() == [7, 0]


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_are_added_cost_a_long_column_no_copy(size):
    column = filled(size)
    old = column.frozen(size)
    before = column.data
    column.data[size] = size
    later = column.frozen(size + 1)
    assert column.data is before
    assert len(old) == size
    assert later[size] == size
    assert np.shares_memory(later, before) is (size + 1 > SHORT)


@pytest.mark.parametrize("size", SIZES)
def test_an_old_snapshot_of_the_store_stays_as_it_was(size):
    store = RowStore()
    store.put_node(NodeRow("n0", {"cpu": 64_000, "gpu": 8_000, "pods": 110}))
    store.put_queue(QueueRow("a"))
    shape = store.intern_shape({"gpu": 1000})
    row = {"priority": 50, "is_preemptible": True, "created_s": 1.0, "minimum": 1}
    store.add_job("j", "a", tasks=[(f"t{number}", shape) for number in range(size)], **row)
    old = store.snapshot()
    before = content(old)
    for task in (0, size - 1):
        store.set_state(task, TaskState.RUNNING, 0)
    middle = store.snapshot()
    between = content(middle)
    store.set_state(0, TaskState.RELEASING)
    store.add_job("k", "a", tasks=[("new-0", shape), ("new-1", shape)], **row)
    assert content(store.snapshot()) != between != before
    assert content(old) == before
    assert content(middle) == between
    assert middle.tasks.state[[0, size - 1]].tolist() == [TaskState.RUNNING] * 2
