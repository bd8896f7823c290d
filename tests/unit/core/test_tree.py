"""The queue tree in preorder."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.tree import build_tree, roll_up


def small_tree():
    #      a            d
    #   c     b         e
    #   x
    return build_tree(
        ["x", "b", "a", "c", "d", "e"],
        ["c", "a", None, "a", "", "d"],
        created=[0, 9, 1, 3, 2, 0],
    )


def test_parents_stand_before_children_and_siblings_by_age():
    tree = small_tree()
    assert tree.names == ("a", "c", "x", "b", "d", "e")
    assert tree.order.tolist() == [2, 3, 0, 1, 4, 5]
    assert tree.parent_of_queue.tolist() == [-1, 0, 1, 0, -1, 4]
    assert tree.depth_of_queue.tolist() == [0, 1, 2, 1, 0, 1]


def test_a_subtree_is_a_slice():
    assert small_tree().end_of_queue.tolist() == [4, 3, 3, 4, 6, 6]


def test_leaves_levels_and_paths():
    tree = small_tree()
    assert tree.is_leaf.tolist() == [False, False, True, True, False, True]
    assert [level.tolist() for level in tree.levels] == [[0, 4], [1, 3, 5], [2]]
    assert tree.path_of_leaf.tolist()[2] == [2, 1, 0]
    assert tree.path_of_leaf.tolist()[5] == [5, 4, -1]
    assert tree.path(5).tolist() == [5, 4]


@pytest.mark.fault("E85")
def test_siblings_of_one_age_stand_by_name():
    assert build_tree(["b", "c", "a"], [None] * 3).names == ("a", "b", "c")


@pytest.mark.fault("E79")
def test_queues_without_their_parent_and_rings_are_left_out_and_named():
    tree = build_tree(["a", "b", "c", "d", "e"], [None, "gone", "b", "e", "d"])
    assert tree.names == ("a",)
    assert tree.orphans == (1, 2, 3, 4)


def test_a_tree_without_queues():
    tree = build_tree([], [])
    assert len(tree) == 0
    assert tree.levels == ()
    assert roll_up(np.zeros((2, 0), dtype=np.int64), tree).shape == (2, 0)


def test_a_name_may_occur_once():
    with pytest.raises(ValueError, match="'a' occurs twice"):
        build_tree(["a", "a"], [None, None])


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="1 names, 2 parents"):
        build_tree(["a"], [None, None])


def test_the_arrays_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        small_tree().depth_of_queue[0] = 1


def test_roll_up_adds_descendants():
    values = np.array([[1, 2, 4, 8, 16, 32], [0, 0, 1, 0, 0, 0]])
    assert roll_up(values, small_tree()).tolist() == [
        [15, 6, 4, 8, 48, 32],
        [1, 1, 1, 0, 0, 0],
    ]


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=25),
    st.builds(random.Random, st.integers(0, 1 << 16)),
)
def test_roll_up_is_the_sum_along_every_path_whatever_the_input_order(above, dice):
    # Queue i hangs under one of the queues before it, or is a root.
    parents = [None if a % (i + 1) == i else f"q{a % (i + 1)}" for i, a in enumerate(above)]
    queues = [(f"q{i}", parent) for i, parent in enumerate(parents)]
    tree = build_tree(*map(list, zip(*queues, strict=True)))
    dice.shuffle(queues)
    again = build_tree(*map(list, zip(*queues, strict=True)))
    assert again.names == tree.names
    assert again.parent_of_queue.tolist() == tree.parent_of_queue.tolist()
    values = np.arange(len(tree))[None] ** 2
    expected = np.zeros_like(values)
    for q in range(len(tree)):
        expected[0, tree.path(q)] += values[0, q]
    assert roll_up(values, tree).tolist() == expected.tolist()
