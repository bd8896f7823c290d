"""Whom a claim must not run beside goes, and whom it must run beside stays."""

import pytest

from kaisched.core.constraints import Constraints, PodTerm, Requirement
from kaisched.testing import ClusterBuilder

HOST = "kubernetes.io/hostname"


def pods_of(app):
    return PodTerm(
        HOST, ("default",), all_namespaces=False, selector=(Requirement("app", "In", (app,)),)
    )


BESIDE_X = Constraints(pod_affinity=(pods_of("x"),))
AWAY_FROM_X = Constraints(pod_anti_affinity=(pods_of("x"),))
PORT = Constraints(host_ports=(("TCP", "", 80),))
X = {"app": "x"}


def two_queues():
    """Make a queue that is entitled to nothing, and one that is to all."""
    return ClusterBuilder().queue("a", weight=0).queue("b", deserved=8)


def test_whom_a_claim_keeps_away_from_goes_though_its_room_is_not_needed():
    cluster = two_queues().node("n0", gpu=8)
    for at in range(6):
        cluster.job(f"a{at}", queue="a", running={"n0": 1}, labels=X if at == 2 else None)
    ran = cluster.job("b0", queue="b", constraints=AWAY_FROM_X).run()
    assert sorted(ran.evicted) == ["a2-0"]
    assert ran.promised == {"b0-0": "n0"}


def test_of_a_long_line_only_those_go_that_are_kept_away_from():
    cluster = two_queues().node("n0", gpu=64)
    for at in range(60):
        cluster.job(f"a{at}", queue="a", running={"n0": 1}, labels=X if at in {3, 40} else None)
    ran = cluster.job("b0", queue="b", constraints=AWAY_FROM_X).run()
    assert sorted(ran.evicted) == ["a3-0", "a40-0"]


def test_whom_a_claim_must_run_beside_stays_though_it_is_younger():
    cluster = two_queues().node("n0", gpu=2)
    cluster.job("a0", queue="a", running={"n0": 1})
    cluster.job("a1", queue="a", running={"n0": 1}, labels=X)
    ran = cluster.job("b0", queue="b", constraints=BESIDE_X).run()
    assert sorted(ran.evicted) == ["a0-0"]
    assert ran.promised == {"b0-0": "n0"}


def test_nobody_goes_for_a_place_that_a_claim_before_it_has_closed():
    cluster = two_queues()
    for name, gpu in (("n0", 1), ("n1", 2), ("n2", 2)):
        cluster.node(name, gpu=gpu)
    for at, node in enumerate(("n2", "n2", "n1", "n1", "n0")):
        cluster.job(f"a{at}", queue="a", running={node: 1})
    cluster.job("b0", queue="b", priority=90, labels=X)
    cluster.job("b1", queue="b", priority=80, constraints=AWAY_FROM_X)
    ran = cluster.job("b2", queue="b", labels=X).run()
    assert ran.promised == {"b0-0": "n0", "b1-0": "n1", "b2-0": "n2"}
    assert sorted(ran.evicted) == ["a1-0", "a3-0", "a4-0"]


def test_consolidate_says_that_moving_helps_nobody_where_room_is_not_what_is_missing():
    cluster = ClusterBuilder().queue("a").node("n0", gpu=2)
    cluster.job("a0", queue="a", running={"n0": 1}, labels=X)
    ran = cluster.job("a1", queue="a", constraints=AWAY_FROM_X).run("consolidate")
    (record,) = ran.result.records
    assert "cut short" not in record.message


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_who_uses_a_port_goes_for_who_is_entitled_to_room(action):
    cluster = two_queues().node("n0", gpu=4)
    queue = "a" if action == "reclaim" else "b"
    cluster.job("v0", queue=queue, running={"n0": 1})
    cluster.job("v1", queue=queue, running={"n0": 1}, constraints=PORT)
    cluster.job("v2", queue=queue, running={"n0": 1})
    ran = cluster.job("b0", queue="b", priority=90, constraints=PORT).run(action)
    assert list(ran.evicted) == ["v1-0"]
    assert (ran.promised, ran.placed) == ({"b0-0": "n0"}, {})


@pytest.mark.parametrize("promised", [None, {"n0": 1}])
def test_a_port_of_a_pod_that_leaves_is_promised(promised):
    cluster = two_queues().node("n0", gpu=4)
    cluster.job("a0", queue="a", leaving={"n0": 1}, constraints=PORT)
    ran = cluster.job("b0", queue="b", constraints=PORT, promised=promised).run()
    assert (ran.promised, ran.placed) == ({"b0-0": "n0"}, {})


def test_nobody_waits_for_a_port_where_another_node_is_open():
    cluster = two_queues().node("n0", gpu=4).node("n1", gpu=4)
    cluster.job("a0", queue="a", tasks=3, running={"n0": 3})  # the fuller node would be packed
    cluster.job("a1", queue="a", leaving={"n0": 1}, constraints=PORT)
    ran = cluster.job("b0", queue="b", constraints=PORT).run()
    assert (ran.placed, ran.promised) == ({"b0-0": "n1"}, {})


def test_who_uses_a_port_stays_where_its_room_is_not_needed():
    cluster = two_queues().node("n0", gpu=4)
    cluster.job("a0", queue="a", gpu=3, running={"n0": 1})
    cluster.job("a1", queue="a", running={"n0": 1}, constraints=PORT)
    ran = cluster.job("b0", queue="b", gpu=3).run()
    assert list(ran.evicted) == ["a0-0"]


def test_whom_a_claim_keeps_away_from_goes_though_it_uses_a_port_too():
    cluster = two_queues().node("n0", gpu=4)
    cluster.job("a0", queue="a", running={"n0": 1}, labels=X, constraints=PORT)
    ran = cluster.job("b0", queue="b", constraints=AWAY_FROM_X).run()
    assert list(ran.evicted) == ["a0-0"]


def test_a_promise_beside_a_promise_is_kept_whoever_comes_first():
    cluster = two_queues().node("n0", gpu=4)
    cluster.job("b0", queue="b", priority=90, constraints=BESIDE_X, promised={"n0": 1})
    cluster.job("b1", queue="b", labels=X, promised={"n0": 1})
    cluster.job("b2", queue="b", priority=95, gpu=3)
    ran = cluster.run("allocate")
    assert ran.placed == {"b0-0": "n0", "b1-0": "n0"}
