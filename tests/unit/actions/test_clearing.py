"""Consolidation: what is moved so that a job fits, and how much of it may be moved."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.actions.consolidate import _Consolidation
from kaisched.actions.eviction.search import Search
from kaisched.core.refusals import Refusal
from kaisched.engine.policy import default_policy
from tests.laws.clusters import Cluster
from tests.unit.actions.test_search import decide, evicted, job, node, promised, queue
from tests.unit.framework.fakes import job as framework_job
from tests.unit.framework.fakes import plugin, session, store


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
def test_nodes_that_are_too_small_are_not_priced(monkeypatch):
    """Whoever asks for more than any node has would have every node priced in every cycle."""
    monkeypatch.setattr("kaisched.actions.room.clearing.Movable.on", lambda *_: 1 / 0)
    nodes = (node("n0", 4), node("n1", 4))
    runs = (job("s", "q", (1, 1, "n0")), job("t", "q", (1, 1, "n1")))
    mixed = job("w", "q", (5, 1))
    cluster = Cluster(nodes, (queue("q", 12),), (*runs, mixed))
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


def test_no_node_is_priced_where_more_jobs_would_have_to_move_than_may(monkeypatch):
    monkeypatch.setattr("kaisched.actions.room.clearing.Movable.on", lambda *_: 1 / 0)
    result, broken = decide(gang_of_whole_nodes(), with_most(3))
    assert (evicted(result), result.failures, broken) == ([], (), [])


def test_prices_are_kept_while_plugins_rule_out_the_same_nodes():
    """Where a move makes a filter stale, other nodes may be ruled out."""
    closed = []

    def rules_out(rows, **_):
        return np.isin(rows, closed).astype(np.int16) * Refusal.NODE_SELECTOR

    def is_stale(**_):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    opened = session(
        store(framework_job("w", gpu=4), framework_job("x"), nodes=(4, 4)).snapshot(),
        plugin(node_filter=rules_out, on_moves=is_stale),
    )
    consolidation = _Consolidation(opened, "consolidate", 16)
    consolidation._search = Search(opened)
    shape = int(opened.tasks.shape_of_task[0])
    prices = consolidation._priced(shape, respects_budgets=False)
    assert consolidation._priced(shape, respects_budgets=False) is prices
    closed.append(1)
    opened.statement().allocate(1, 0)
    later = consolidation._priced(shape, respects_budgets=False)
    assert later is not prices
    assert later.is_of(consolidation._search.future(shape))
    assert consolidation._search.future(shape).allowed.tolist() == [True, False]
