import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.sim.recorder import Steps, edges_between


def steps_of(*changes):
    steps = Steps()
    for tick, value in changes:
        steps.set(tick, value)
    return steps


def test_an_amount_holds_until_it_changes():
    steps = steps_of((2, 4), (5, 1))
    assert steps.integral(np.array([0, 2, 3, 5, 9])).tolist() == [0, 0, 4, 12, 16]
    assert steps.at(np.array([0, 2, 4, 5, 99])).tolist() == [0, 4, 4, 1, 1]


def test_the_last_word_on_a_tick_counts_and_no_change_is_none():
    steps = steps_of((1, 3), (1, 2), (4, 2), (6, 5))
    assert (steps.ticks, steps.values) == ([1, 6], [2, 5])


def test_what_was_never_set_is_nothing():
    assert Steps().integral(np.array([0, 7])).tolist() == [0, 0]
    assert Steps().at(np.array([3])).tolist() == [0]


def test_means_keep_the_area():
    steps = steps_of((0, 8), (3, 0), (7, 2))
    edges = np.array([0, 4, 10])
    means = steps.means(edges)
    assert means.tolist() == [6, 1]
    assert float(means @ np.diff(edges)) == steps.integral(np.array([10]))[0]


@given(st.integers(0, 10_000), st.integers(1, 100_000), st.integers(1, 500))
def test_edges_cover_all_ticks_in_few_equal_spans(first, ticks, most):
    edges = edges_between(first, first + ticks, most)
    widths = np.diff(edges)
    assert (edges[0], edges[-1]) == (first, first + ticks)
    assert len(widths) <= most
    assert (widths > 0).all()
    assert (widths[:-1] == widths[0]).all()
    assert widths[-1] <= widths[0]


def test_a_run_without_any_time_has_one_span():
    assert edges_between(5, 5, 10).tolist() == [5, 6]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8)), min_size=1), st.integers(1, 200))
def test_the_integral_is_that_of_counting_tick_by_tick(changes, last):
    steps, tick, plain = Steps(), 0, []
    for gap, value in changes:
        steps.set(tick, value)
        plain += [value] * gap
        tick += gap
    plain += [changes[-1][1]] * last
    assert steps.integral(np.array([last]))[0] == pytest.approx(sum(plain[:last]))
