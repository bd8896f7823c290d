"""Three ways to fill nodes, each the greedy answer where its condition holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.framework.session.filling import fill_first, fill_level, fill_stepwise

eighths = st.integers(0, 8).map(lambda number: number / 8)


def greedy(table, room, count):
    """Place one pod after the other on the highest score, the lower row at a tie."""
    added = [0] * len(room)
    chosen = []
    for _ in range(count):
        scores = [table[e][i] if e < room[i] else -1.0 for i, e in enumerate(added)]
        best = scores.index(max(scores))
        chosen.append(best)
        added[best] += 1
    return chosen


@st.composite
def fillings(draw, order=None):
    """Draw scores by pods added and node, the room, and how many pods to place."""
    room = draw(st.lists(st.integers(0, 4), min_size=1, max_size=20).filter(any))
    rows = [draw(st.lists(eighths, min_size=5, max_size=5)) for _ in room]
    if order is not None:
        rows = [sorted(row, reverse=order == "falling") for row in rows]
    table = np.array(rows).T
    return table, np.array(room), draw(st.integers(1, sum(room)))


def masked(table, room):
    return np.where(room > 0, table[0], -1.0)


@given(fillings("rising"))
def test_filling_node_by_node_is_greedy_when_scores_rise(filling):
    table, room, count = filling
    before = masked(table, room)
    scores = before.copy()
    assert fill_first(scores, room, count).tolist() == greedy(table, room, count)
    assert scores.tolist() == before.tolist()  # what it crossed out is put back


@given(fillings("falling"))
def test_taking_the_best_cells_is_greedy_when_scores_fall(filling):
    table, room, count = filling
    open_rows = np.flatnonzero(room > 0)
    chosen = fill_level(table[:, open_rows], open_rows, room[open_rows], count)
    assert chosen.tolist() == greedy(table, room, count)


@given(fillings())
def test_going_step_by_step_is_greedy_always(filling):
    table, room, count = filling
    chosen = fill_stepwise(masked(table, room), room, count, lambda rows, extra: table[extra, rows])
    assert chosen.tolist() == greedy(table, room, count)


def test_the_best_cells_are_refused_where_a_score_rises():
    table = np.array([[0.5, 0.5], [0.6, 0.1]])
    assert fill_level(table, np.array([0, 1]), np.array([2, 2]), 3) is None


def test_a_rise_beyond_the_room_does_not_count():
    table = np.array([[0.5, 0.4], [0.9, 0.1]])
    assert fill_level(table, np.array([0, 1]), np.array([1, 2]), 3).tolist() == [0, 1, 1]


@pytest.mark.parametrize("count", [1, 12, 13, 30])
def test_many_nodes_are_filled_in_row_order_at_equal_scores(count):
    """Beyond a dozen nodes they are sorted all at once, which must not show."""
    chosen = fill_first(np.full(30, 0.5), np.ones(30, np.int64), count)
    assert chosen.tolist() == list(range(count))
