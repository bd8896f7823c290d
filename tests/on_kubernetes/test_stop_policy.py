"""Holding and draining a queue, and the kill switch, as an administrator does it."""

import pytest

from tests.on_kubernetes.looking import evicting
from tests.on_kubernetes.rig import RUN
from tests.waiting import until

pytestmark = pytest.mark.slow
MERGE = "application/merge-patch+json"


@pytest.fixture
def cluster(rig):
    rig.node("n0")
    rig.queue("a", 4)
    rig.queue("b", 4)
    rig.start_kubelet()
    return rig


def stop(cluster, policy):
    path = f"/apis/{RUN}/v2/queues/a"
    cluster.must("PATCH", path, {"spec": {"stopPolicy": policy}}, MERGE)


def test_a_queue_is_held_drained_and_opened_again(cluster):
    cluster.start().wait_leading()
    cluster.pod("x", "a")
    cluster.wait_placed("x")
    stop(cluster, "Hold")
    cluster.pod("y", "a")
    message = until(lambda: cluster.condition("y").get("message"))
    assert message == "queue a is on hold: stopPolicy"
    assert set(cluster.placed()) == {"x"}
    stop(cluster, "HoldAndDrain")
    until(lambda: "x" not in cluster.pods(), what="the drain")
    assert evicting(cluster, 1) == {"drain"}
    stop(cluster, "None")
    cluster.wait_placed("y")


def test_the_kill_switch_keeps_what_runs(cluster):
    daemon = cluster.start(evictions=False).wait_leading()
    for number in range(8):
        cluster.pod(f"y{number}", "b")
    cluster.wait_placed(*(f"y{number}" for number in range(8)))
    cluster.gang("x", "a", 4)
    message = until(lambda: cluster.condition("x-0").get("message"))
    assert "the shard may not evict so many pods within the hour" in message
    assert len(cluster.placed()) == 8
    (leader,) = daemon.daemon.leaders
    assert leader.collector.published.evictions_left == 0
