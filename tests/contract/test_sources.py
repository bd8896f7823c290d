"""One suite for everything that is a snapshot source and an intent sink."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.clock import ManualClock
from kaisched.cluster.embedded import EmbeddedCluster
from kaisched.core.axis import HOLDING_STATES, TaskState
from kaisched.framework.intents import Bind, Evict, Nominate
from tests.contract.clusters import node, pod, queue
from tests.oracles.accounts import arrays, assert_adds_up, content

NODES, QUEUES, PODS = ("n0", "n1"), ("a", "b"), tuple(f"p{number}" for number in range(8))


def embedded(**options):
    return EmbeddedCluster(ManualClock(), start_delay_s=1, grace_s=2, **options)


SOURCES = {"embedded": embedded}
"""Makers of clusters that can load objects, let time pass, and fail intents at will."""


@pytest.fixture(params=sorted(SOURCES))
def make(request):
    return SOURCES[request.param]


def standard(make, **options):
    cluster = make(**options)
    cluster.load([node("n0", 2), node("n1", 2), queue("a"), queue("b"), pod("p"), pod("q", "b", 2)])
    return cluster


def row(snapshot, key):
    rows = [at for at, name in enumerate(snapshot.tasks.name) if name == key]
    return next(at for at in rows if snapshot.tasks.state[at] != TaskState.GONE)


def uid(snapshot, key):
    return snapshot.tasks.uid[row(snapshot, key)]


def bind(cluster, key, to, **changes):
    snapshot = cluster.snapshot()
    at = changes.get("uid") or uid(snapshot, key)
    cluster.apply([Bind(key, at, to, "", row(snapshot, key), -1)], [], [])


def evict(cluster, key):
    s = cluster.snapshot()
    cluster.apply([], [Evict(key, uid(s, key), "", "", "reclaim", "b", "why", row(s, key), -1)], [])


def state(cluster, key):
    snapshot = cluster.snapshot()
    at = row(snapshot, key)
    where = int(snapshot.tasks.node_of_task[at])
    return TaskState(snapshot.tasks.state[at]).name, snapshot.nodes.name[
        where
    ] if where >= 0 else ""


def test_a_bound_pod_holds_its_room_at_once(make):
    cluster = standard(make)
    before = cluster.snapshot()
    bind(cluster, "ns/p", "n1")
    after = cluster.snapshot()
    taken = before.nodes.idle - after.nodes.idle
    request = after.shapes.request[:, after.tasks.shape_of_task[row(after, "ns/p")]]
    assert taken[:, 1].tolist() == request.tolist()
    assert not taken[:, 0].any()
    assert state(cluster, "ns/p")[1] == "n1"
    assert (after.allocated - before.allocated)[:, 0].tolist() == request.tolist()


def test_a_bound_pod_comes_to_run(make):
    cluster = standard(make)
    bind(cluster, "ns/p", "n0")
    cluster.advance_to(10)
    assert state(cluster, "ns/p") == ("RUNNING", "n0")


def test_an_evicted_pod_releases_its_room_and_waits_again(make):
    cluster = standard(make)
    empty = content(cluster.snapshot())["nodes"]
    bind(cluster, "ns/p", "n0")
    cluster.advance_to(10)
    evict(cluster, "ns/p")
    assert state(cluster, "ns/p") == ("RELEASING", "n0")
    assert cluster.snapshot().nodes.releasing[:, 0].any()
    cluster.advance_to(20)
    assert state(cluster, "ns/p") == ("PENDING", "")
    assert content(cluster.snapshot())["nodes"] == empty


def test_a_nomination_is_remembered_and_takes_no_room(make):
    cluster = standard(make)
    s = cluster.snapshot()
    cluster.apply([], [], [Nominate("ns/p", uid(s, "ns/p"), "n1", "", row(s, "ns/p"), 1)])
    after = cluster.snapshot()
    assert after.tasks.nominated_node[row(after, "ns/p")] == 1
    assert np.array_equal(after.nodes.idle, s.nodes.idle)


@pytest.mark.parametrize(
    ("key", "to", "of_uid"),
    [("ns/p", "nowhere", ""), ("ns/p", "n0", "another"), ("ns/q", "n0", "")],
    ids=["no such node", "another pod of that name", "no room"],
)
def test_a_bind_that_cannot_be_leaves_no_trace(make, key, to, of_uid):
    cluster = standard(make)
    cluster.load([pod("other", gpus=1, where="n0")])
    before = content(cluster.snapshot())
    bind(cluster, key, to, uid=of_uid)
    cluster.advance_to(50)
    assert content(cluster.snapshot())["tasks"][key] == before["tasks"][key]


def test_a_second_bind_does_not_move_a_pod(make):
    cluster = standard(make)
    bind(cluster, "ns/p", "n0")
    bind(cluster, "ns/p", "n1")
    assert state(cluster, "ns/p")[1] == "n0"


def test_intents_that_fail_are_facts_of_the_next_snapshot(make):
    cluster = standard(make, fails=lambda intent: "the API server is away")
    before = cluster.snapshot()
    bind(cluster, "ns/p", "n0")
    cluster.advance_to(5)
    assert content(cluster.snapshot()) == content(before)


def test_intents_for_pods_that_went_are_dropped(make):
    cluster = standard(make)
    s = cluster.snapshot()
    intent = Bind("ns/p", uid(s, "ns/p"), "n0", "", row(s, "ns/p"), 0)
    cluster.delete(pod("p"))
    cluster.apply([intent], [], [])
    assert "ns/p" not in content(cluster.snapshot())["tasks"]


pods, nodes = st.sampled_from(PODS), st.sampled_from(NODES)
doing = st.one_of(
    st.tuples(st.just("pod"), pods, st.integers(0, 2), st.sampled_from(QUEUES)),
    st.tuples(st.just("delete"), pods),
    st.tuples(st.just("bind"), pods, nodes),
    st.tuples(st.just("bind"), pods, nodes),
    st.tuples(st.just("evict"), pods),
    st.tuples(st.just("node"), nodes, st.integers(0, 4)),
    st.tuples(st.just("drop node"), nodes),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1, 3])),
)
doings = st.lists(doing, max_size=3) | st.lists(doing, min_size=25, max_size=50)


def do(cluster, what, now_s):
    match what:
        case ("pod", name, gpus, of):
            notes = {"kaisched.io/run-seconds": "4"} if gpus == 1 else {}
            cluster.load([pod(name, of, gpus, annotations=notes)])
        case ("delete", name):
            cluster.delete(pod(name))
        case ("bind", name, to) if f"ns/{name}" in content(cluster.snapshot())["tasks"]:
            bind(cluster, f"ns/{name}", to)
        case ("evict", name) if f"ns/{name}" in content(cluster.snapshot())["tasks"]:
            evict(cluster, f"ns/{name}")
        case ("node", name, gpus):
            cluster.load([node(name, gpus)])
        case ("drop node", name):
            cluster.delete(node(name))
        case ("wait", seconds):
            cluster.advance_to(now_s + seconds)
            return now_s + seconds
    return now_s


@pytest.mark.parametrize("name", sorted(SOURCES))
@given(doings)
def test_whatever_happens_the_amounts_add_up(name, history):
    cluster = SOURCES[name]()
    cluster.load([queue("a"), queue("b"), node("n0", 2), node("n1", 2)])
    kept, now_s = [], 0.0
    for each in history:
        now_s = do(cluster, each, now_s)
        snapshot = cluster.snapshot()
        assert_adds_up(snapshot)
        frozen = {at: column.copy() for at, column in arrays(snapshot).items()}
        kept.append((snapshot, frozen))
        holding = HOLDING_STATES[snapshot.tasks.state]
        assert (snapshot.tasks.node_of_task[holding] >= 0).all()
    for snapshot, frozen in kept:
        for at, column in arrays(snapshot).items():
            assert np.array_equal(column, frozen[at], equal_nan=column.dtype.kind == "f"), at


@pytest.mark.parametrize("name", sorted(SOURCES))
@given(doings)
def test_the_same_history_gives_the_same_cluster(name, history):
    ends = []
    for _ in range(2):
        cluster, now_s = SOURCES[name](), 0.0
        cluster.load([queue("a"), queue("b"), node("n0", 2), node("n1", 2)])
        for each in history:
            now_s = do(cluster, each, now_s)
        ends.append((content(cluster.snapshot()), getattr(cluster, "history", None)))
    assert ends[0] == ends[1]
