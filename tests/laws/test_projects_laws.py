"""Laws of ``fairness: projects``: all leaf queues divide and are compared as siblings."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, note

from kaisched.core.tree import PROJECTS, roll_up, without_inner
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.units import UNLIMITED
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import carried_out, crowded, kinds_of, make_crowded, moves_of

HIERARCHY = default_policy()
POLICY = replace(HIERARCHY, fairness=PROJECTS)

pytestmark = pytest.mark.proportion


def leaves_of(cluster):
    return {it.name for it in cluster.queues} - {it.parent for it in cluster.queues}


def without_departments(cluster):
    """The same leaf queues without any above them, in the same order."""
    order = cluster.store().snapshot().queues.name
    leaves = leaves_of(cluster)
    return replace(
        cluster,
        queues=tuple(
            replace(queue, parent="", created_s=float(order.index(queue.name)))
            for queue in cluster.queues
            if queue.name in leaves
        ),
    )


def with_open_departments(cluster):
    """The same with departments that bound nothing."""
    leaves = leaves_of(cluster)
    return replace(
        cluster,
        queues=tuple(
            queue if queue.name in leaves else replace(queue, quota={}, limit={})
            for queue in cluster.queues
        ),
    )


def cycles(cluster, policy, count=3):
    memory = Memory()
    for _ in range(count):
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(snapshot, None, policy, NOW_S, memory)
        yield cluster, snapshot, result
        cluster = carried_out(cluster, result)


def test_the_clusters_tell_the_two_apart():
    differ = evicts = 0
    for seed in range(60):
        cluster = make_crowded(seed)
        (_, _, one), (_, _, other) = (next(cycles(cluster, it)) for it in (POLICY, HIERARCHY))
        differ += moves_of(one) != moves_of(other)
        evicts += "reclaim" in kinds_of(one)
    assert differ > 3
    assert evicts > 3


@given(crowded)
def test_the_invariants_hold(cluster):
    note(told(cluster))
    for _, snapshot, result in cycles(cluster, POLICY):
        note("\n".join(moves_of(result)))
        assert violations(snapshot, result, POLICY) == []


@given(crowded)
def test_departments_that_bound_nothing_might_as_well_not_be_there(cluster):
    """Same moves, in the same order, and same shares of all leaf queues."""
    deep = with_open_departments(cluster)
    flat = without_departments(cluster)
    note(told(deep))
    pairs = zip(cycles(deep, POLICY), cycles(flat, HIERARCHY), strict=True)
    for (_, _, one), (_, _, other) in pairs:
        note(f"{moves_of(one)}\n{moves_of(other)}")
        assert moves_of(one) == moves_of(other)
        shares = {it.name: it.fair_share for it in other.shares}
        assert {it.name: it.fair_share for it in one.shares if it.name in shares} == shares


@given(crowded)
def test_the_share_of_a_department_is_that_of_its_projects(cluster):
    _, snapshot, result = next(cycles(cluster, POLICY, 1))
    tree = snapshot.queues.tree
    told_shares = [it.fair_share.get("gpu", 0) for it in result.shares]
    share = np.array([UNLIMITED if it < 0 else it for it in told_shares], np.int64)[None]
    of_leaves = np.where(tree.is_leaf, share, 0)
    if (of_leaves < UNLIMITED).all():
        assert roll_up(of_leaves, tree).tolist() == share.tolist()


@given(crowded)
def test_no_department_passes_its_limit(cluster):
    for _, snapshot, result in cycles(cluster, POLICY):
        lines = violations(snapshot, result, POLICY)
        assert [it for it in lines if it.startswith(("I7", "I8"))] == []


def test_rows_keep_their_numbers_in_the_flat_tree():
    tree = make_crowded(3, queues=6).store().snapshot().queues.tree
    flat = without_inner(tree)
    assert flat.names == tree.names
    assert flat.levels[0].tolist() == np.flatnonzero(tree.is_leaf).tolist()
    assert (flat.parent_of_queue < 0).all()
    assert [flat.path(row).tolist() for row in range(len(tree))] == [[r] for r in range(len(tree))]
