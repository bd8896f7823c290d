"""How the answers of several plugins combine."""

import numpy as np
import pytest

from kaisched.core.refusals import Refusal
from tests.unit.framework.fakes import job, plugin, session, store

ROWS = np.arange(2)
TAINT, PORT = int(Refusal.TAINT), int(Refusal.HOST_PORT)


def opened(*plugins):
    return session(store(job("a", pods=2), job("b")).snapshot(), *plugins)


def codes(*numbers):
    return lambda **_: np.array(numbers, np.int16)


def test_the_first_refusal_in_plugin_order_stands():
    one = opened(plugin("x", node_filter=codes(0, TAINT)), plugin("y", node_filter=codes(PORT, 0)))
    assert one.ask.node_filter(one, 0, ROWS).tolist() == [PORT, TAINT]
    both = opened(plugin("x", job_gate=codes(TAINT, 0)), plugin("y", job_gate=codes(PORT, 0)))
    assert both.ask.job_gate(both, "allocate", ROWS).tolist() == [TAINT, 0]


def test_no_answer_is_no_objection():
    silent = opened(plugin(node_filter=lambda **_: None))
    assert silent.ask.node_filter(silent, 0, ROWS) is None


def test_orders_are_compared_one_plugin_after_the_other():
    one = opened(
        plugin("x", job_order=lambda **_: (np.array([1, 1]), np.array([0.5, 0.0]))),
        plugin("y", job_order=lambda **_: (np.array([3, 4]),)),
    )
    keys = one.ask.job_order(one, ROWS)
    assert [key.tolist() for key in keys] == [[1, 1], [0.5, 0.0], [3, 4]]


def test_scores_are_summed_by_weight():
    one = opened(
        plugin("x", weight=10.0, node_score=lambda **_: np.array([0.5, 0.0])),
        plugin("y", weight=2.0, node_score=lambda **_: np.array([0.0, 1.0])),
        plugin("z", node_score=lambda **_: None),
    )
    none = np.zeros(2, np.int64)
    assert one.ask.node_score(one, 0, ROWS, none).tolist() == [5.0, 2.0]


@pytest.mark.fault("G108")
def test_a_score_out_of_range_is_left_out_alone():
    one = opened(
        plugin("x", node_score=lambda **_: np.array([0.5, 0.25])),
        plugin("y", node_score=lambda **_: np.array([np.nan, 2.0])),
    )
    none = np.zeros(2, np.int64)
    assert one.ask.node_score(one, 0, ROWS, none).tolist() == [0.5, 0.25]
    assert [failure.plugin for failure in one.failures] == ["y"]


def test_room_is_the_least_that_anybody_leaves():
    one = opened(
        plugin("x", node_room=lambda **_: np.array([5, 1])),
        plugin("y", node_room=lambda **_: np.array([2, 3])),
    )
    assert one.ask.node_room(one, 0, ROWS).tolist() == [2, 1]


def test_the_first_size_stands():
    one = opened(
        plugin("x", batch_size=lambda **_: None),
        plugin("y", batch_size=lambda **_: np.array([2, 1])),
        plugin("z", batch_size=lambda **_: np.array([1, 1])),
    )
    assert one.ask.batch_size(one, ROWS).tolist() == [2, 1]


def test_without_a_size_pods_come_one_by_one():
    nobody = opened()
    assert nobody.ask.batch_size(nobody, ROWS).tolist() == [1, 1]
    assert nobody.ask.next_batch(nobody, 0) is None


def test_weights_are_transformed_in_order():
    one = opened(
        plugin("x", over_quota_weights=lambda weights, **_: weights + 1.0),
        plugin("y", over_quota_weights=lambda **_: None),
        plugin("z", over_quota_weights=lambda weights, **_: weights * 2.0),
    )
    changed = one.weight_transform(ROWS, ROWS, ROWS, ROWS > 0, np.array([1.0, 2.0]))
    assert changed.tolist() == [4.0, 6.0]
    assert opened().weight_transform is None


def test_each_plugin_has_its_own_state_and_facts():
    one = opened(
        plugin("x", session_open=lambda **_: "of x", session_close=lambda **_: {"n": 1}),
        plugin("y", session_open=lambda **_: "of y", session_close=lambda **_: None),
    )
    assert one.state == {"x": "of x", "y": "of y"}
    assert one.ask.close(one) == {"x": {"n": 1}}


def test_without_a_division_nobody_has_a_share():
    assert not opened().fair_share.any()


def test_the_answers_to_a_question_can_be_listed():
    one = opened(plugin("x", job_order=lambda **_: None), plugin("y", job_order=lambda **_: None))
    assert one.ask.answers("job_order") == ("x", "y")
    assert one.ask.answers("node_score") == ()
