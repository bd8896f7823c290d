"""When a job leaves its pool and when it stays: the reasons that count, and those that do not."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from kaisched.cluster.pools.handover import refused
from kaisched.core.refusals import Refusal
from tests.contract.clusters import pod
from tests.unit.cluster.pools.test_lists import gang, job_of, two
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in


def test_a_pool_without_nodes_is_no_place_to_wait():
    world = World("h100", "a100")
    world.load(node_in("a100", "a0"), queue_in("h100", "a", 8, project="t"))
    world.load(queue_in("a100", "b", 8, project="t"), listed("x", "h100,a100"))
    world.cycle()
    assert world.moves == [(0.0, job_of(world, "x"), "a100")]
    assert world.node_of("x") == "a0"


def test_a_job_whose_pod_is_gated_or_whose_gang_is_not_whole_stays():
    """L10: it would wait in every pool."""
    world = two(first=0)
    gates = {"schedulingGates": [{"name": "quota"}]}
    world.load(listed("x", "h100,a100", spec=gates))
    gang(world, "g", 2, "h100,a100", minimum=3)
    world.run_to(40)
    assert world.moves == []
    assert world.reasons["ns/g", "h100"] == "GangIncomplete"


@pytest.mark.parametrize(
    ("reasons", "counts"),
    [
        ("NO_ROOM EXCEEDS_ANY_NODE", True),
        ("QUEUE_DEPTH NOT_TRIED PUT_OFF OPENED_SINCE ROOM_HELD", False),
        ("SEARCH_BUDGET CYCLE_EVICTIONS", False),
        ("PLUGIN_FAILED ACTION_FAILED", False),
        ("INVALID_GROUP GANG_INCOMPLETE SCHEDULING_GATED OWNER_NOT_READ", False),
    ],
    ids=["refused", "not tried to the end", "cut short", "failed", "in every pool"],
)
def test_only_what_a_whole_cycle_has_refused_here_counts(reasons, counts):
    """L10."""
    codes = np.array([int(Refusal[it]) for it in reasons.split()])
    records = SimpleNamespace(rows=np.arange(len(codes)), codes=codes)
    snapshot = SimpleNamespace(jobs=SimpleNamespace(active=np.zeros(len(codes), np.int64)))
    found = [code for _, code in refused(snapshot, SimpleNamespace(records=records))]
    assert found == (codes.tolist() if counts else [])


def test_a_job_that_had_no_turn_stays():
    """L10: of two jobs a cycle the first one only is tried, as the shard says."""
    world = two(first=1)
    world.policy = replace(world.policy, queue_depth={"allocate": 1})
    world.load(pod("block", "a", 1, labels={POOL: "h100"}, uid="block"))
    world.cycle()
    world.load(listed("x", "h100,a100"), listed("y", "h100,a100"))
    world.run_to(10)
    assert world.reasons[job_of(world, "y"), "h100"] == "QueueDepth"
    assert world.moves == [(10, job_of(world, "x"), "a100")]


def test_a_job_with_a_promise_stays():
    """A pod that leaves makes room for it: it is not passed on meanwhile."""
    world = two(first=2)
    world.load(pod("old", "a", 2, labels={POOL: "h100"}, uid="old"))
    world.cycle()
    world.load(listed("x", "h100,a100", 2))
    world.run_to(8)
    world.delete(world.cluster.pod("ns/old"))
    world.run_to(20)  # the other pool is idle: it would have gone there at ten
    assert (world.node_of("x"), world.moves) == ("h0", [])


def test_quota_that_is_raised_in_an_earlier_pool_makes_it_due():
    """L12: the job waits in its second pool, and goes back before its doubled stay is over."""
    world = two(first=2, second=2)
    for name, queue in (("h", "a"), ("b", "a-there")):
        labels = {POOL: "h100" if name == "h" else "a100"}
        world.load(pod(name, queue, 2, labels=labels, uid=name))
    world.cycle()
    world.load(listed("x", "h100,a100", 2))
    world.run_to(45)
    assert [at for at, _, _ in world.moves] == [10, 20, 40]
    world.load(queue_in("h100", "a", 16, project="team"))
    world.run_to(50)
    assert [at for at, _, _ in world.moves] == [10, 20, 40, 50]


def test_a_job_leaves_a_pool_that_was_taken_off_its_list_at_once():
    """Without waiting for the end of its stay, which may be minutes."""
    world = two(first=1, second=8)
    world.load(pod("block", "a", 1, labels={POOL: "h100"}, uid="block"))
    world.cycle()
    world.load(listed("x", "h100", 1))
    world.run_to(4)
    assert (world.node_of("x"), world.moves) == ("", [])
    world.load(listed("x", "a100", 1))
    world.run_to(5)
    assert (world.node_of("x"), len(world.moves)) == ("a0", 1)


def test_pods_beyond_the_minimum_stay_in_the_pool_of_the_others():
    """L5, P22: room elsewhere does not part an elastic job."""
    world = two(first=2, second=8)
    gang(world, "g", 4, "h100,a100", minimum=2)
    world.run_to(60)
    nodes = [world.node_of(f"g-{number}") for number in range(4)]
    assert (nodes.count("h0"), nodes.count("")) == (2, 2)
    assert world.moves == []


@pytest.mark.parametrize(
    ("again", "is_due"),
    [
        ({}, False),
        ({"metadata": {"resourceVersion": "9", "annotations": {"seen": "now"}}}, False),
        ({"spec": {"unschedulable": True}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"metadata": {"labels": {POOL: "a100", "rack": "r"}}}, True),
    ],
)
def test_a_node_that_reports_that_nothing_has_changed_makes_its_pool_not_due(again, is_due):
    """Each kubelet does so every few minutes, so in a large pool there is always one."""
    world = World("h100", "a100")
    world.load(node_in("h100", "h0"), node_in("a100", "a0"))
    changes = world.ports["h100"].store.pools.changes
    before = dict(changes)
    world.load(node_in("a100", "a0", **again))
    assert (changes["a100"] > before["a100"], changes["h100"]) == (is_due, before["h100"])


def test_a_status_that_is_written_to_a_queue_makes_no_pool_due():
    world = two()
    book = world.ports["h100"].store.pools
    before, revision = dict(book.changes), book.projects.revision
    same = queue_in("a100", "a-there", 8, project="team")
    world.load(msgspec.structs.replace(same, status={"allocated": {"gpu": 1}}))
    assert (dict(book.changes), book.projects.revision) == (before, revision)
    world.load(queue_in("a100", "a-there", 7, project="team"))
    assert book.projects.revision > revision
