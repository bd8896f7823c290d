"""Two ways to fill nodes, each the greedy answer where its condition holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.framework.session.filling import choose_by_score, fill_first, fill_stepwise

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
    assert np.repeat(*fill_first(scores, room, count)).tolist() == greedy(table, room, count)
    assert scores.tolist() == before.tolist()  # what it crossed out is put back


@given(fillings())
def test_going_step_by_step_is_greedy_always(filling):
    table, room, count = filling
    chosen = fill_stepwise(masked(table, room), room, count, lambda rows, extra: table[extra, rows])
    assert chosen.tolist() == greedy(table, room, count)


@given(fillings())
def test_a_batch_is_placed_as_pod_by_pod_whatever_the_scores(filling):
    table, room, count = filling
    chosen = choose_by_score(
        masked(table, room), room, count, lambda rows, it: table[it, rows], scores_rise=False
    )
    assert chosen.tolist() == greedy(table, room, count)


@pytest.mark.parametrize("count", [1, 12, 13, 30])
def test_many_nodes_are_filled_in_row_order_at_equal_scores(count):
    """Beyond a dozen nodes they are sorted all at once, which must not show."""
    chosen = np.repeat(*fill_first(np.full(30, 0.5), np.ones(30, np.int64), count))
    assert chosen.tolist() == list(range(count))
