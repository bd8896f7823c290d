"""Who is safe, from whom, and for how long."""

import time

import numpy as np
import pytest
from pydantic import ValidationError

from kaisched import Claim, Units
from kaisched.testing import ClusterBuilder, check_plugin
from kaisched.testing.builder import policy_of
from kaisched.testing.guard import open_session
from kaisched_plugins.minruntime import MIN_RUNTIME, MinRuntime, inherited, is_protected, seen_from

SAFE = int(MIN_RUNTIME)
NAN = float("nan")


class Tree:
    """Two teams of two queues: 0 (1, 2) and 3 (4, 5)."""

    parent_of_queue = np.array([-1, 0, 0, -1, 3, 3])
    levels = (np.array([0, 3]), np.array([1, 2, 4, 5]))


def test_a_queue_without_a_value_has_that_of_the_queue_above():
    own = np.array([5.0, -1, 0, -1, 7, -1])
    assert inherited(Tree, own, 2.0).tolist() == [5, 5, 0, 2, 7, 2, 2]


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (1, [10, 1, 2, 30, 30, 30, 99]),  # within the own team by queue, the other team as a whole
        (4, [10, 10, 10, 30, 4, 5, 99]),
    ],
)
def test_the_branch_that_is_taken_from_decides(leaf, expected):
    resolved = np.array([10.0, 1, 2, 30, 4, 5, 99])
    assert seen_from(Tree, leaf, resolved).tolist() == expected


def test_a_start_nobody_knows_protects_nobody():
    got = is_protected(np.array([100.0, 100, NAN]), np.array([10.0, 9, 10]), 109.0)
    assert got.tolist() == [True, False, False]


def session_of(cluster, now_s):
    return open_session(cluster.store().snapshot(), policy_of(), now_s)


def cluster():
    built = ClusterBuilder().node("n0", gpu=16).queue("a").queue("b")
    built.job("young", queue="a", tasks=2, running={"n0": 2}, started_s=90.0)
    built.job("elastic", queue="a", tasks=2, min_tasks=1, running={"n0": 2}, started_s=90.0)
    built.job("old", queue="a", tasks=1, running={"n0": 1}, started_s=10.0)
    return built.job("waits", queue="b")


def filtered(plugin, action="preempt", now_s=100.0, **options):
    at = session_of(cluster(), now_s)
    claim = Claim(action, 3, 1, np.zeros(4, np.int64), **options)
    codes = plugin.victim_filter(at, claim, np.arange(3))
    return None if codes is None else codes.tolist()


def made(**arguments):
    return MinRuntime(MinRuntime.Arguments(**arguments))


def test_nobody_is_safe_unless_somebody_says_so():
    assert filtered(made()) is None


@pytest.mark.fault("F98")
def test_a_young_gang_is_no_victim_but_one_with_pods_to_spare_is():
    assert filtered(made(defaultPreemptMinRuntime="20s")) == [SAFE, 0, 0]
    assert filtered(made(defaultPreemptMinRuntime="20s"), now_s=110.0) is None


def test_each_action_has_its_own_minimum_and_consolidation_none():
    plugin = made(defaultPreemptMinRuntime="20s")
    assert filtered(plugin, "reclaim") is None
    assert filtered(made(defaultReclaimMinRuntime="20s"), "reclaim") == [SAFE, 0, 0]
    assert filtered(made(defaultReclaimMinRuntime="20s"), "consolidate") is None


def units():
    return Units(
        job=np.array([0, 1, 1, 2]),
        queue=np.zeros(4, np.int64),
        amounts=np.zeros((4, 4), np.int64),
        is_core=np.array([True, False, True, True]),
        tasks=((0, 1), (3,), (2,), (4,)),
    )


def test_elastic_pods_may_go_and_cores_may_not():
    at, plugin = session_of(cluster(), 100.0), made(defaultPreemptMinRuntime="20s")
    claim = Claim("preempt", 3, 1, np.zeros(4, np.int64))
    every = np.ones(4, np.bool_)
    assert plugin.scenario_gate(at, claim, units(), every).tolist() == [SAFE, 0, SAFE, 0]
    only = np.array([False, True, True, True])
    assert plugin.scenario_gate(at, claim, units(), only).tolist() == [0, 0, SAFE, 0]


def test_the_gate_is_cheap():
    at, plugin = session_of(cluster(), 100.0), made(defaultReclaimMinRuntime="20s")
    claim, these = Claim("reclaim", 3, 1, np.zeros(4, np.int64)), units()
    every = np.ones(4, np.bool_)

    def took(call):
        start = time.thread_time()
        call()
        return time.thread_time() - start

    def best(call):
        return min(took(call) for _ in range(500))

    gate = best(lambda: plugin.scenario_gate(at, claim, these, every))
    assert gate < 8 * best(lambda: sum(range(500)))


@pytest.mark.parametrize("text", ["5", "soon", "-5s", "1h2", 5, True])
def test_what_is_no_duration_is_an_error(text):
    with pytest.raises(ValidationError, match="defaultReclaimMinRuntime"):
        made(defaultReclaimMinRuntime=text)


def test_an_unknown_method_is_an_error():
    with pytest.raises(ValidationError, match="'lca' or 'queue'"):
        made(reclaimResolveMethod="root")


def test_it_keeps_the_contract():
    check_plugin(MinRuntime, {"defaultPreemptMinRuntime": "1h", "defaultReclaimMinRuntime": "1h"})
