"""Elastic: jobs below their minimum, then those exactly at it, then those that could shrink."""

from types import SimpleNamespace

import numpy as np
import pytest

from kaisched import SubGroup
from kaisched.testing import check_plugin
from kaisched_plugins.elastic import ABOVE, BELOW, EXACTLY, Elastic, standing_of

PLUGIN = Elastic(Elastic.Arguments())


def leaf(podset):
    return SubGroup(f"s{podset}", podset, 0)


def group(needed, *children):
    return SubGroup("g", -1, needed, children)


def session_of(*, active, minimum, first_podset, structure=(), ledger=None):
    return SimpleNamespace(
        jobs=SimpleNamespace(first_podset=np.array(first_podset), structure=dict(structure)),
        podsets=SimpleNamespace(active=np.array(active), minimum=np.array(minimum)),
        podset_active_now=np.array(active if ledger is None else ledger),
    )


def keys_of(session, job):
    (key,) = PLUGIN.job_order(session, np.array(job))
    return key.tolist()


def test_jobs_of_one_pod_set_are_compared_with_its_minimum():
    session = session_of(active=[0, 2, 3], minimum=[2, 2, 2], first_podset=[0, 1, 2])
    assert keys_of(session, [2, 0, 1]) == [ABOVE, BELOW, EXACTLY]


def test_once_something_moved_the_ledger_counts():
    session = session_of(active=[0], minimum=[2], first_podset=[0], ledger=[2])
    assert keys_of(session, [0]) == [EXACTLY]


def test_a_structured_job_is_judged_by_its_tree():
    tree = group(2, leaf(1), leaf(2))
    session = session_of(
        active=[5, 1, 0], minimum=[1, 1, 1], first_podset=[0, 1], structure={1: tree}
    )
    assert keys_of(session, [0, 1]) == [ABOVE, BELOW]


@pytest.mark.parametrize(
    ("needed", "active", "standing"),
    [
        pytest.param(2, [1, 0], BELOW, id="a child that is needed lacks a pod"),
        pytest.param(2, [1, 1], EXACTLY, id="all children have just what they need"),
        pytest.param(2, [1, 2], ABOVE, id="a child has more than it needs"),
        pytest.param(1, [1, 0], EXACTLY, id="one child is enough and has what it needs"),
        pytest.param(1, [1, 1], ABOVE, id="more children than needed"),
    ],
)
def test_how_an_inner_group_stands(needed, active, standing):
    tree = group(needed, leaf(0), leaf(1))
    assert standing_of(tree, np.array(active), np.array([1, 1])) == standing


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Elastic)
