"""Consolidation: what is moved so that a job fits, and how much of it may be moved."""

from dataclasses import replace

import pytest

from kaisched.engine.policy import default_policy
from tests.laws.clusters import Cluster
from tests.unit.actions.test_search import decide, evicted, job, node, promised, queue


def in_pieces():
    """Three nodes with room, none of which has room for 4: moving s is the least."""
    return Cluster(
        (node("n0", 4), node("n1", 4), node("n2", 4)),
        (queue("q", 12),),
        (
            job("s", "q", (1, 1, "n0")),
            job("t", "q", (2, 1, "n1")),
            job("u", "q", (2, 1, "n2")),
            job("w", "q", (4, 1)),
        ),
    )


def two_to_move():
    return Cluster(
        (node("n0", 4), node("n1", 4)),
        (queue("q", 12),),
        (
            job("s", "q", (1, 1, "n0")),
            job("t", "q", (1, 1, "n0")),
            job("u", "q", (2, 1, "n1"), is_preemptible=False),
            job("w", "q", (4, 1)),
        ),
    )


def with_most(most):
    return replace(default_policy(), max_consolidation_preemptees=most)


def test_the_fewest_gpus_are_moved():
    result, broken = decide(in_pieces())
    assert (evicted(result), promised(result)["w-0"], broken) == (["s-0"], "n0", [])
    assert promised(result)["s-0"] in {"n1", "n2"}


@pytest.mark.parametrize(
    ("most", "moved"), [(0, []), (1, []), (2, ["s-0", "t-0"]), (-1, ["s-0", "t-0"])]
)
def test_so_many_jobs_may_be_moved_for_one(most, moved):
    result, broken = decide(two_to_move(), with_most(most))
    assert (evicted(result), broken) == (moved, [])


@pytest.mark.fault("I123")
def test_nobody_moves_for_a_pod_that_is_larger_than_any_node():
    nodes = (node("n0", 4), node("n1", 4))
    runs = (job("s", "q", (1, 1, "n0")), job("t", "q", (1, 1, "n1")))
    cluster = Cluster(nodes, (queue("q", 12),), (*runs, job("w", "q", (5, 1))))
    result, broken = decide(cluster)
    assert (evicted(result), result.failures, broken) == ([], (), [])


def gang_of_whole_nodes():
    """Half of each node is free, in pieces: two nodes are free once four jobs have moved."""
    nodes = tuple(node(f"n{at}", 4) for at in range(4))
    runs = tuple(job(f"r{at}", "q", (1, 1, f"n{at // 2}")) for at in range(8))
    return Cluster(nodes, (queue("q", 16),), (*runs, job("w", "q", (4, 1), (4, 1), minimum=2)))


@pytest.mark.parametrize(("most", "moved"), [(3, 0), (4, 4), (-1, 4)])
def test_a_gang_moves_so_many_jobs_or_none(most, moved):
    result, broken = decide(gang_of_whole_nodes(), with_most(most))
    assert (len(evicted(result)), result.failures, broken) == (moved, (), [])


def stuck_before_another():
    """For two pods of 4, a and d would move; but r, over its limit, takes a nowhere again.

    Moving d alone makes room for both. It has a place on the node without CPU.
    """
    fixed = (job(f"f{at}", "q", (4, 1, f"n{at}"), is_preemptible=False) for at in range(2))
    ones = tuple(job(f"o{at}", "q", (1, 1, f"s{at}")) for at in range(12))
    return Cluster(
        (node("n0", 8), node("n1", 12), node("h", 8, 0), *(node(f"s{at}", 1) for at in range(12))),
        (queue("q", 40), queue("r", 4, limit=1)),
        (
            *fixed,
            *ones,
            job("a", "r", (4, 1, "n0")),
            job("d", "q", (8, 0, "n1")),
            job("w", "q", (4, 1), (4, 1), minimum=2),
        ),
    )


def test_what_is_taken_nowhere_does_not_end_the_search():
    result, broken = decide(stuck_before_another())
    assert promised(result) == {"d-0": "h", "w-0": "n1", "w-1": "n1"}
    assert (evicted(result), broken) == (["d-0"], [])
