"""Priority orders jobs, highest first."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched.testing import check_plugin
from kaisched_plugins.priority import Priority


def keys_of(priority, job):
    session: Any = SimpleNamespace(jobs=SimpleNamespace(priority=np.array(priority)))
    return Priority(Priority.Arguments()).job_order(session, np.array(job))


def test_the_higher_priority_has_the_lower_key():
    (key,) = keys_of([50, 125, 100], [0, 1, 2])
    assert key.argsort().tolist() == [1, 2, 0]


def test_only_the_jobs_asked_about_are_answered_in_their_order():
    (key,) = keys_of([50, 125, 100], [2, 0])
    assert key.tolist() == [-100, -50]


def test_equal_priorities_are_left_to_the_next_rule():
    (key,) = keys_of([75, 75], [0, 1])
    assert key[0] == key[1]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Priority)
