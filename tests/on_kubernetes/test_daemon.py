"""What a user of a cluster sees: the daemon in this process, an API server, a kubelet stand-in."""

import time

import pytest

from tests.on_kubernetes.looking import evicting
from tests.on_kubernetes.rig import elected
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(rig):
    """Two nodes of eight GPUs, two queues that deserve eight each."""
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("root", -1)
    rig.queue("a", 8, "root")
    rig.queue("b", 8, "root")
    rig.start_kubelet()
    return rig


@pytest.mark.fault("F104")
def test_gang_starts_whole_or_not_at_all(cluster):
    cluster.start().wait_leading()
    cluster.gang("big", "a", 17)
    # Once it was tried, between cycles.
    until(lambda: "; would help (tried 20" in cluster.condition("big-0").get("message", ""))
    cluster.gang("fits", "a", 16)
    placed = cluster.wait_placed(*(f"fits-{number}" for number in range(16)))
    assert len(placed) == 16
    condition = cluster.condition("big-0")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"]


@pytest.mark.fault("D78")
def test_pods_of_other_schedulers_are_left_alone_and_counted(cluster):
    cluster.pod("theirs", "a", 8, nodeName="n0", schedulerName="default-scheduler")
    cluster.pod("waiting", "a", 1, schedulerName="default-scheduler")
    cluster.start().wait_leading()
    cluster.gang("ours", "a", 8)
    placed = cluster.wait_placed(*(f"ours-{number}" for number in range(8)))
    assert {placed[f"ours-{number}"] for number in range(8)} == {"n1"}
    assert "waiting" not in placed


def test_gated_pods_wait_for_their_gates(cluster):
    cluster.start().wait_leading()
    cluster.pod("gated", "a", schedulingGates=[{"name": "x.io/later"}])
    cluster.pod("free", "a")
    assert "gated" not in cluster.wait_placed("free")
    path = f"{cluster.pods_path}/gated"
    cluster.must("PATCH", path, {"spec": {"schedulingGates": None}}, "application/merge-patch+json")
    cluster.wait_placed("gated")


def test_events_tell_people_what_was_done(cluster):
    cluster.start().wait_leading()
    cluster.pod("p", "a")
    node = cluster.wait_placed("p")["p"]
    path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
    event = until(lambda: next(iter(cluster.must("GET", path)["items"]), None))
    assert (event["reason"], event["note"]) == ("Scheduled", f"assigned to {node}")
    assert event["regarding"]["name"] == "p"
    assert [it for it in cluster.logs if it["event"] == "report_refused"] == []


def test_reclaim_gives_a_queue_what_it_deserves(cluster):
    cluster.start().wait_leading()
    for number in range(16):
        cluster.pod(f"a{number}", "a")
    cluster.wait_placed(*(f"a{number}" for number in range(16)))
    cluster.gang("b", "b", 8)
    placed = cluster.wait_placed(*(f"b-{number}" for number in range(8)))
    assert sum(name.startswith("a") for name in placed) == 8
    assert evicting(cluster, 8) == {"reclaim"}


def test_preempt_takes_from_lower_priorities_of_the_same_queue(cluster):
    for name, value in (("train-x", 50), ("urgent-x", 90)):
        cluster.must(
            "POST",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": f"{name}-{cluster.namespace}"}, "value": value},
        )
    low, high = f"train-x-{cluster.namespace}", f"urgent-x-{cluster.namespace}"
    cluster.start().wait_leading()
    cluster.gang("low", "a", 16, minimum=1, priorityClassName=low)
    cluster.wait_placed(*(f"low-{number}" for number in range(16)))
    cluster.gang("high", "a", 2, gpus=2, priorityClassName=high)
    placed = cluster.wait_placed("high-0", "high-1")
    assert sum(name.startswith("low") for name in placed) == 12


def test_consolidation_moves_pods_together(cluster):
    """Eight pods of one GPU, four on each node: a pod of eight needs one node for itself.

    They are of its own queue and priority, so nothing may be taken from them; they may be moved.
    """
    for number in range(8):
        cluster.pod(f"p{number}", "a", nodeName=f"n{number % 2}")
    daemon = cluster.start().wait_leading()
    # Nobody makes the moved pods anew here, as a controller would; the victims are what matters.
    cluster.pod("whole", "a", 8)
    placed = cluster.wait_placed("whole")
    assert sum(node == placed["whole"] for node in placed.values()) == 1
    assert evicting(cluster, 4) == {"consolidate"}
    assert daemon.error is None


def test_two_shards_keep_to_their_nodes(cluster, tmp_path):
    files = []
    for name in ("one", "two"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\n"
            f"metadata: {{name: {name}}}\nspec: {{partitionLabelValue: {name}}}\n",
            encoding="utf-8",
        )
        files.append(file)
        labels = {"kai.scheduler/node-pool": name}
        cluster.node(f"node-{name}", 4, labels)
        cluster.queue(f"queue-{name}", 4, labels=labels)
    daemon = cluster.start(shards=files, **elected()).wait_leading()
    for name in ("one", "two"):
        for number in range(6):
            cluster.pod(
                f"{name}{number}", f"queue-{name}", labels={"kai.scheduler/node-pool": name}
            )
    placed = until(lambda: len(cluster.placed()) == 8 and cluster.placed())
    assert all(node == f"node-{pod[:3]}" for pod, node in placed.items())
    leases = {leader.leadership.term.holder for leader in daemon.daemon.leaders}
    assert leases == {daemon.daemon.identity}


def test_observing_writes_nothing(cluster):
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/kaisched-default"
    cluster.ask("DELETE", lease)  # a real server has that of the tests before
    daemon = cluster.start(kubernetes={"observe": True}).wait_leading()
    cluster.pod("p", "a")
    until(lambda: [line for line in cluster.logs if line["event"] == "would_bind"])
    assert cluster.placed() == {}
    assert cluster.condition("p") == {}
    assert not cluster.ask("GET", lease).is_done
    assert daemon.error is None


def test_nothing_is_written_when_nothing_changes(cluster, server):
    """Quiet: an idle daemon renews its lease and does nothing else, for longer than its rounds."""
    cluster.start().wait_leading()
    cluster.pod("p", "a")
    cluster.pod("never", "a", 9)
    cluster.wait_placed("p")
    until(lambda: cluster.condition("never").get("reason") == "Unschedulable")

    def is_quiet():
        server.log.clear()
        time.sleep(2.5)
        writes = {"create", "update", "patch", "delete"}
        return not any(seen.verb in writes and seen.plural != "leases" for seen in server.log)

    until(is_quiet)
