"""Workloads of eight operators through the API: started whole, evicted by role, restarted, scaled.

Also on a real server, with KAISCHED_TEST_KUBECONFIG.
"""

import time

import pytest

from tests.on_kubernetes.operators import OPERATORS, JobSets, LeaderWorkerSets, Spark
from tests.waiting import until

pytestmark = pytest.mark.slow
ELASTIC = [it for it in OPERATORS if it not in (JobSets, LeaderWorkerSets, Spark)]


def of(kind):
    return kind.__name__


def nothing_starts(cluster, names):
    time.sleep(0.6)
    return not set(names) & cluster.placed().keys()


@pytest.mark.parametrize("kind", [it for it in OPERATORS if it is not Spark], ids=of)
def test_it_starts_whole_or_not_at_all(cluster, kind):
    """Three pods of a node each, and two nodes: none starts before there is a third node."""
    operator = kind(cluster, 8)
    cluster.start().wait_leading()
    operator.start()
    assert nothing_starts(cluster, operator.names)
    cluster.node("n2")
    cluster.wait_placed(*operator.names)


def test_executors_do_not_start_before_their_driver(cluster):
    """The driver alone is needed: it asks for more than there is until a node comes."""
    operator = Spark(cluster, 9)
    cluster.start().wait_leading()
    operator.start()
    assert nothing_starts(cluster, operator.names)
    for at in range(3):
        cluster.node(f"large-{at}", 9)
    cluster.wait_placed(*operator.names)


class Exclusive(JobSets):
    """Each Job has a rack of its own; its other pods are made once the first has a node."""

    exclusive = "rack"


def test_the_pods_of_exclusive_jobs_follow_their_first_one(rig):
    """Two Jobs and two racks: the first pods start together, each in its rack, then the rest."""
    racks = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    for name, rack in racks.items():
        rig.node(name, labels={"rack": rack})
    rig.queue("a", 32)
    rig.start_kubelet()
    rig.start().wait_leading()
    operator = Exclusive(rig, 8)
    operator.start()
    placed = rig.wait_placed(*operator.names)
    where = {name.split("-")[1]: racks[node] for name, node in placed.items()}
    assert sorted(where.values()) == ["a", "b"]
    rig.wait_placed(*operator.follow(where))


@pytest.mark.parametrize("kind", OPERATORS, ids=of)
def test_it_is_restarted_and_scaled(cluster, kind):
    """Its pods start again in their new form, and those that run stay where they are."""
    operator = kind(cluster, 2)
    cluster.start().wait_leading()
    operator.start()
    cluster.wait_placed(*operator.names)
    until(lambda: {it["status"]["phase"] for it in cluster.pods().values()} == {"Running"})
    before = cluster.placed()
    new = operator.restart()
    after = cluster.wait_placed(*new)
    stays = set(operator.names) - set(new)
    assert {name: after[name] for name in stays} == {name: before[name] for name in stays}
    new = operator.grow()
    cluster.wait_placed(*operator.names)
    if new:
        operator.shrink()
        time.sleep(0.5)
    assert set(operator.names) <= cluster.placed().keys()


@pytest.fixture
def borrowed(rig):
    """Two full nodes of eight GPUs of which queue a deserves none, and b all."""
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("a", 0)
    rig.queue("b", 16)
    rig.start_kubelet()
    return rig


def starts_full(rig, operator, **spare):
    """Start the daemon and a workload that fills the nodes; return its pods."""
    rig.start().wait_leading()
    operator.start(**spare)
    rig.wait_placed(*operator.names)
    return set(operator.names)


def left_after(rig, name, names, gpus=4):
    """Claim GPUs for queue b; return those of some pods that stay."""
    rig.pod(name, "b", gpus)
    placed = rig.wait_placed(name)
    return names & placed.keys()


@pytest.mark.parametrize("kind", ELASTIC, ids=of)
def test_a_worker_above_the_minimum_goes_first_and_then_the_rest_together(borrowed, kind):
    operator = kind(borrowed, 4)
    names = starts_full(borrowed, operator, spare=1)
    left = left_after(borrowed, "c1", names)
    assert len(left) == 3
    assert operator.head in left
    assert left_after(borrowed, "c2", left) == set()


def test_executors_go_one_by_one_before_their_driver(borrowed):
    operator = Spark(borrowed, 4)
    names = starts_full(borrowed, operator, spare=3)
    for number in (3, 2, 1):
        names = left_after(borrowed, f"c{number}", names)
        assert len(names) == number
        assert operator.head in names
    assert left_after(borrowed, "c0", names) == set()


@pytest.mark.parametrize("kind", [JobSets, LeaderWorkerSets], ids=of)
def test_what_has_no_pods_above_its_minimum_goes_whole(borrowed, kind):
    operator = kind(borrowed, 4)
    names = starts_full(borrowed, operator)
    assert left_after(borrowed, "c1", names, 8) == set()
