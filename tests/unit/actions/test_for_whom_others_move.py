"""Consolidate moves pods only for a job that stays within its queue's fair share (R38)."""

from dataclasses import replace

import pytest

from tests.laws.clusters import Cluster
from tests.unit.actions.test_search import POLICY, decide, evicted, job, node, promised, queue

pytestmark = pytest.mark.proportion
MOVES_ALONE = replace(
    POLICY, actions=tuple(it for it in POLICY.actions if it.name in {"allocate", "consolidate"})
)
RUNNING = (
    job("x", "a", (2, 1, "n0")),
    job("y", "a", (2, 1, "n1")),
    job("z", "a", (1, 1, "n1")),
)
WAITING = job("p", "a", (3, 1))
"""Three GPUs are idle, two on n0 and one on n1: it fits if y moves beside x."""


def cluster(*others):
    return Cluster(
        (node("n0", 4), node("n1", 4)), (queue("a", 4), queue("b", 4)), (*RUNNING, WAITING, *others)
    )


def test_others_move_for_a_job_within_the_fair_share_of_its_queue():
    """Queue a alone asks for GPUs, and is lent all eight: b has no use for its quota."""
    lent = Cluster(
        (node("n0", 4), node("n1", 4)), (queue("a", 8), queue("b", 0)), (*RUNNING, WAITING)
    )
    result, broken = decide(lent, MOVES_ALONE)
    assert (evicted(result), promised(result), broken) == (
        ["y-0"],
        {"p-0": "n1", "y-0": "n0"},
        [],
    )


def test_nobody_moves_for_a_job_beyond_it():
    """Queue b is due four GPUs, which a gang of two wants: a has five, and would have eight."""
    gang = job("g", "b", (4, 1))
    result, broken = decide(cluster(gang), MOVES_ALONE)
    assert (evicted(result), promised(result), broken) == ([], {}, [])
    said = {record.pod_group: record.message for record in result.records}
    assert "gpu 5 held + 3 asked is over its fair share of 4" in said["default/p"]


def test_what_is_idle_as_it_is_goes_to_it_all_the_same():
    result, broken = decide(cluster(job("g", "b", (4, 1)), job("s", "a", (2, 1))), MOVES_ALONE)
    assert [bind.pod for bind in result.binds] == ["default/s-0"]
    assert (evicted(result), broken) == ([], [])
