"""Fair shares down the tree."""

import numpy as np
import pytest

from kaisched.core.fairshare import Entitlements, fair_share, plan_levels
from kaisched.core.tree import build_tree
from kaisched.units import UNLIMITED

GPU = 1000


def divide(total, queues, **kwargs) -> dict[str, float]:
    """Divide GPUs; a queue is (name, parent, deserved, weight, request[, priority])."""
    tree = build_tree([q[0] for q in queues], [q[1] for q in queues])
    rows = [queues[i] for i in tree.order]

    def gpus(at):
        return np.array([[q[at] if q[at] == UNLIMITED else q[at] * GPU for q in rows]])

    entitlements = Entitlements(
        gpus(2),
        np.full((1, len(rows)), UNLIMITED),
        gpus(4),
        np.array([[float(q[3]) for q in rows]]),
        np.array([q[5] if len(q) > 5 else 0 for q in rows]),
        np.arange(len(rows)),
    )
    share = fair_share(tree, np.array([total * GPU]), entitlements, np.array([GPU]), **kwargs)
    return {q[0]: amount / GPU for q, amount in zip(rows, share[0].tolist(), strict=True)}


def test_what_a_queue_gets_is_what_its_children_divide():
    shares = divide(
        300,
        [
            ("c1", None, 0, 1, 450),
            ("c2", None, 0, 1, 300),
            ("a", "c1", 0, 1, 150),
            ("b", "c1", 0, 1, 150),
            ("c", "c1", 0, 3, 150),
            ("2a", "c2", 0, 1, 300),
        ],
    )
    # KEP-1714, story 3.
    assert shares == {"c1": 150, "c2": 150, "a": 30, "b": 30, "c": 90, "2a": 150}


def test_children_may_hold_their_quotas_even_beyond_the_parents_share():
    shares = divide(
        4,
        [
            ("d1", None, 3, 1, 100),
            ("q1", "d1", 2, 1, 100),
            ("d2", None, 1, 1, 100),
            ("q2", "d2", 2, 1, 100),
        ],
    )
    assert shares == {"d1": 3, "q1": 3, "d2": 1, "q2": 2}


def test_no_surplus_reaches_below_a_parent_without_quota_and_weight():
    shares = divide(10, [("top", None, 0, 0, 9), ("leaf", "top", 0, 5, 9)])
    assert shares == {"top": 0, "leaf": 0}


def test_unlimited_quota_below_the_roots_is_the_parents_share():
    shares = divide(
        10, [("top", None, 6, 0, 99), ("x", "top", UNLIMITED, 0, 99), ("y", "top", 0, 1, 99)]
    )
    assert shares == {"top": 6, "x": 6, "y": 0}


RUNAI = [("a", None, 3, 1, 999), ("b", None, 1, 3, 999)]


def test_published_runai_weights_follow_quotas_75_to_25():
    assert divide(100, RUNAI, weight_mode="quota") == {"a": 75, "b": 25}


def test_published_runai_over_quota_weights_25_to_75():
    assert divide(104, RUNAI, weight_mode="equal") == {"a": 28, "b": 76}


def test_quota_weights_fall_back_where_a_group_has_no_quota():
    queues = [
        ("p", None, 4, 1, 999),
        ("q", None, 4, 1, 999),
        ("p1", "p", 0, 1, 999),
        ("p2", "p", 0, 3, 999),
        ("q1", "q", 3, 3, 999),
        ("q2", "q", 1, 1, 999),
    ]
    shares = divide(80, queues, weight_mode="quota")
    assert shares == {"p": 40, "q": 40, "p1": 10, "p2": 30, "q1": 30, "q2": 10}


def test_a_kept_plan_gives_the_same_shares():
    tree = build_tree(["a", "b", "c"], [None, "a", "a"])
    columns = np.array([[0, 0, 0]])
    entitlements = Entitlements(
        columns,
        columns + UNLIMITED,
        np.array([[90, 45, 45]]),
        np.ones((1, 3)),
        np.array([0, 1, 2]),
        np.arange(3),
    )
    total, unit = np.array([60]), np.array([1])
    plan = plan_levels(tree, entitlements.priority, entitlements.rank, 1)
    assert fair_share(tree, total, entitlements, unit, plan=plan).tolist() == [[60, 15, 45]]
    assert fair_share(tree, total, entitlements, unit).tolist() == [[60, 15, 45]]


def test_the_arguments_are_left_alone():
    tree = build_tree(["a", "b"], [None, None])
    columns = np.array([[1, 2]])
    entitlements = Entitlements(
        columns, columns + 9, columns + 5, np.ones((1, 2)), columns[0], np.arange(2)
    )
    for array in (*entitlements, total := np.array([9])):
        array.flags.writeable = False
    fair_share(tree, total, entitlements, np.array([1]))


@pytest.mark.parametrize("queues", [0, 1])
def test_trees_of_next_to_nothing(queues):
    tree = build_tree(["a"][:queues], [None][:queues])
    columns = np.full((2, queues), 5)
    entitlements = Entitlements(
        columns, columns, columns, columns * 1.0, np.arange(queues), np.arange(queues)
    )
    share = fair_share(tree, np.array([9, 9]), entitlements, np.array([1, 1]))
    assert share.tolist() == [[5] * queues] * 2
