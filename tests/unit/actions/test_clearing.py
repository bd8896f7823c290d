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
