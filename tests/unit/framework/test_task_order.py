"""The order of pods inside a job."""

import numpy as np
import pytest

from kaisched.framework.memory import Memory
from kaisched.framework.session import order
from kaisched.framework.session.order import ordered_tasks, pending_tasks
from kaisched.testing.builder import Job, Task
from tests.unit.framework.fakes import plugin, session, store


def opened(*plugins):
    names = ("b", "c", "a")
    return session(store(Job("j", "q", tuple(map(Task, names)))).snapshot(), *plugins)


def named(one, rows):
    return [one.tasks.name[row].partition("/")[2] for row in rows]


def test_names_decide_where_nothing_else_does():
    one = opened()
    assert named(one, ordered_tasks(one, np.arange(3))) == ["a", "b", "c"]


def test_plugins_decide_first():
    one = opened(plugin(task_order=lambda task, **_: (np.where(task == 1, 0, 1),)))
    assert named(one, ordered_tasks(one, np.arange(3))) == ["c", "a", "b"]


def test_only_pending_pods_come_next():
    one = opened()
    one.statement().allocate(2, 0)
    assert named(one, pending_tasks(one, 0)) == ["b", "c"]


def test_one_pod_needs_no_order():
    one = opened(plugin(task_order=lambda **_: 1 / 0))
    assert ordered_tasks(one, np.array([1])).tolist() == [1]
    assert one.failures == []


@pytest.mark.fault("I123")
def test_the_order_of_a_large_job_is_worked_out_once_until_something_changes(monkeypatch):
    sorts, keys = [], np.zeros(100, np.int64)
    real = order._sorted
    monkeypatch.setattr(order, "_sorted", lambda *of: sorts.append(1) or real(*of))
    tasks = tuple(Task(f"{at * 37 % 100:03}") for at in range(100))
    snapshot = store(Job("j", "q", tasks)).snapshot()
    memory = Memory()

    def names():
        one = session(snapshot, plugin(task_order=lambda task, **_: (keys[task],)), memory=memory)
        return named(one, ordered_tasks(one, np.arange(100)))

    assert names() == names() == [f"{at:03}" for at in range(100)]
    assert len(sorts) == 1
    keys[:50] = 1
    assert names()[:50] == sorted(f"{at * 37 % 100:03}" for at in range(50, 100))
    assert len(sorts) == 2
