"""Task order: labelled pods first, the higher number before the lower."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched.testing import check_plugin
from kaisched_plugins.taskorder import TaskOrder

UNLABELLED = np.iinfo(np.int64).min


def order_of(*numbers):
    tasks = SimpleNamespace(order_priority=np.array(numbers, np.int64))
    session: Any = SimpleNamespace(tasks=tasks)
    plugin = TaskOrder(TaskOrder.Arguments())
    (key,) = plugin.task_order(session, np.arange(len(numbers)))
    return np.argsort(key, kind="stable").tolist()


def test_the_higher_number_goes_first():
    assert order_of(1, 10, -3) == [1, 0, 2]


def test_a_pod_without_a_label_goes_last_even_at_the_lowest_number_there_is():
    assert order_of(UNLABELLED, -5, 0) == [2, 1, 0]


def test_equal_labels_are_left_to_the_next_rule():
    assert order_of(7, 7) == [0, 1]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(TaskOrder)
