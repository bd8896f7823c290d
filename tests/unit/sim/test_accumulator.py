"""Usage inside a simulation against sums over small steps, and the numbers of the guides."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.tree import build_tree
from kaisched.core.usage import PARTS
from kaisched.sim.accumulator import Accumulator, UsageWindow

HOUR_S = 3600.0
TREE = build_tree(["all", "a", "b"], ["", "all", "all"], [0.0, 1.0, 2.0])
A, B = TREE.names.index("a"), TREE.names.index("b")
SNAPSHOT = SimpleNamespace(queues=SimpleNamespace(name=TREE.names))


def accumulator(**window):
    return Accumulator(TREE, 1, UsageWindow(**window))


def hold(history, a, b, now_s, total=10):
    held = np.zeros((1, 3), np.int64)
    held[0, A], held[0, B] = a, b
    history.hold(held, np.array([total]), now_s)


def used(history, now_s, queue=A):
    return history.usage(SNAPSHOT, now_s).parts[0, queue] / PARTS


def test_24_of_100_gpu_hours_are_a_usage_of_024():
    for gpus, hours in ((8, 3), (12, 2)):
        history = accumulator()
        hold(history, gpus, 0, 0.0)
        hold(history, 0, 0, hours * HOUR_S)
        assert used(history, 10 * HOUR_S) == pytest.approx(0.24, abs=1e-9)


def test_before_any_time_has_passed_there_is_no_usage():
    history = accumulator()
    hold(history, 8, 0, 0.0)
    assert history.usage(SNAPSHOT, 0.0) is None


def test_a_parent_has_used_what_its_children_have():
    history = accumulator()
    hold(history, 3, 4, 0.0)
    usage = history.usage(SNAPSHOT, HOUR_S)
    assert usage.parts[0].tolist() == [700_000_000, 300_000_000, 400_000_000]
    assert (usage.age_s, usage.coverage) == (0.0, 1.0)


def test_after_a_half_life_half_of_it_counts():
    """All of it in the first hour, then nothing: numerator and capacity both decay."""
    history = accumulator(half_life_s=HOUR_S)
    hold(history, 10, 0, 0.0)
    hold(history, 0, 0, HOUR_S)
    # The integral over the first hour, seen from the second's end, against both hours.
    assert used(history, 2 * HOUR_S) == pytest.approx(0.25 / 0.75)


def test_a_sliding_window_forgets_what_is_older():
    history = accumulator(window_s=2 * HOUR_S)
    hold(history, 10, 0, 0.0)
    hold(history, 0, 10, HOUR_S)
    assert used(history, 2 * HOUR_S) == pytest.approx(0.5)
    assert used(history, 2.5 * HOUR_S) == pytest.approx(0.25)
    assert used(history, 4 * HOUR_S) == pytest.approx(0.0, abs=1e-9)
    assert used(history, 4 * HOUR_S, B) == pytest.approx(1.0)


def test_a_tumbling_window_begins_anew():
    history = accumulator(window_s=2 * HOUR_S, is_tumbling=True)
    hold(history, 10, 0, 0.0)
    hold(history, 0, 10, 1.5 * HOUR_S)
    assert used(history, 2 * HOUR_S - 1) == pytest.approx(0.75, abs=1e-3)
    assert history.usage(SNAPSHOT, 2 * HOUR_S) is None
    assert used(history, 3 * HOUR_S) == pytest.approx(0.0, abs=1e-9)


def test_capacity_is_that_of_its_time():
    """Half of the cluster is away for half of the time."""
    history = accumulator()
    hold(history, 5, 0, 0.0, total=10)
    hold(history, 5, 0, HOUR_S, total=5)
    assert used(history, 2 * HOUR_S) == pytest.approx(10 / 15)


def test_without_capacity_nothing_was_used():
    history = accumulator()
    hold(history, 0, 0, 0.0, total=0)
    assert used(history, HOUR_S) == 0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10), st.integers(0, 10)), max_size=12),
    st.sampled_from([math.inf, 7.0, 40.0]),
    st.sampled_from([5.0, 30.0, 1e6]),
    st.integers(1, 60),
)
def test_the_closed_form_is_the_sum_over_small_steps(changes, half_life_s, window_s, more):
    history = accumulator(half_life_s=half_life_s, window_s=window_s)
    held = []
    for span, a, b in changes:
        hold(history, a, b, float(len(held)))
        held += [a] * span
    now = len(held) + more
    hold(history, 0, 0, float(len(held)))
    held += [0] * more
    pieces = 64
    top = bottom = 0.0
    for piece in range(now * pieces):
        middle = (piece + 0.5) / pieces
        if now - middle <= window_s:
            weight = 1.0 if math.isinf(half_life_s) else 0.5 ** ((now - middle) / half_life_s)
            top += held[int(middle)] * weight
            bottom += 10 * weight
    assert used(history, float(now)) == pytest.approx(top / bottom, abs=2e-3)


def test_how_often_it_is_asked_changes_nothing():
    rare, often = (accumulator(half_life_s=600.0, window_s=5000.0) for _ in range(2))
    for history in (rare, often):
        hold(history, 6, 2, 0.0)
    for now_s in range(60, 4000, 60):
        used(often, float(now_s))
        if now_s == 1800:
            hold(rare, 1, 8, 1800.0)
            hold(often, 1, 8, 1800.0)
    assert used(rare, 6000.0) == pytest.approx(used(often, 6000.0), abs=2e-9)
