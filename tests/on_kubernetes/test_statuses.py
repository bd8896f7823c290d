"""What queues and pod groups say of themselves, as ``kubectl get -o yaml`` shows it."""

import time

import pytest

from tests.on_kubernetes.rig import RUN
from tests.on_kubernetes.test_daemon import cluster
from tests.waiting import until

pytestmark = pytest.mark.slow
__all__ = ["cluster"]
NONE = {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}


def amounts(gpus):
    return {**NONE, "nvidia.com/gpu": str(gpus)}


def queue(cluster, name):
    return cluster.must("GET", f"/apis/{RUN}/v2/queues/{name}").get("status", {})


def group(cluster, name):
    path = f"/apis/{RUN}/v2alpha2/namespaces/{cluster.namespace}/podgroups/{name}"
    return cluster.must("GET", path).get("status", {})


def condition(cluster, name, type_="Ready"):
    conditions = queue(cluster, name).get("conditions", ())
    return next((it for it in conditions if it["type"] == type_), {})


def test_queues_and_pod_groups_say_how_they_are(cluster):
    cluster.start().wait_leading()
    cluster.gang("g", "a", 4)
    cluster.gang("big", "a", 32)
    cluster.wait_placed("g-0", "g-1", "g-2", "g-3")
    until(lambda: queue(cluster, "a").get("allocated") == amounts(4))
    # The gang of 32 would not fit if nothing else ran: it counts for no share, and that is told.
    until(lambda: "gpu 32 " in condition(cluster, "a", "Unschedulable").get("message", ""))
    status = queue(cluster, "a")
    assert status["requested"] == amounts(4)
    assert condition(cluster, "a", "Unschedulable")["reason"] == "GangNoRoom"
    assert status["allocatedNonPreemptible"] == amounts(0)
    assert queue(cluster, "root")["childQueues"] == ["a", "b"]
    assert {it["type"]: it["status"] for it in status["conditions"]} == {
        "Ready": "True",
        "Orphan": "False",
        "OverQuota": "False",
        "OverLimit": "False",
        "OverSubscribed": "False",
        "Unschedulable": "True",
    }
    conditions = until(lambda: group(cluster, "big").get("schedulingConditions"))
    assert conditions[0]["type"] == "UnschedulableOnNodePool"


def test_a_pod_group_says_what_it_asks_for_and_holds(cluster):
    cluster.start().wait_leading()
    cluster.gang("g", "a", 4)
    cluster.gang("firm", "b", 2, gpus=2, preemptibility="non-preemptible")
    cluster.wait_placed("g-0", "g-1", "g-2", "g-3", "firm-0", "firm-1")
    held = {"requested": amounts(4), "allocated": amounts(4)}
    until(
        lambda: (
            group(cluster, "g").get("resourcesStatus")
            == {**held, "allocatedNonPreemptible": amounts(0)}
        )
    )
    until(
        lambda: (
            group(cluster, "firm").get("resourcesStatus")
            == {**held, "allocatedNonPreemptible": amounts(4)}
        )
    )
    for number in range(4):
        cluster.delete_pod(f"g-{number}")
    # What is no longer held is said to be nothing; a merge patch would leave what it does not name.
    until(lambda: group(cluster, "g")["resourcesStatus"]["allocated"] == NONE)
    until(lambda: queue(cluster, "a")["allocated"] == NONE)


def test_a_pod_group_that_comes_after_its_pods_says_so_too(cluster):
    cluster.start().wait_leading()
    cluster.pod("g-0", "a", group="g")
    until(lambda: cluster.condition("g-0").get("reason"))
    cluster.group("g", "a", 2)
    until(lambda: group(cluster, "g").get("resourcesStatus", {}).get("requested") == amounts(1))


def test_a_group_that_has_found_room_is_no_longer_said_to_wait(cluster):
    cluster.pod("block", "b", 8, nodeName="n0")
    cluster.start().wait_leading()
    cluster.gang("g", "a", 2, gpus=8)
    until(lambda: group(cluster, "g").get("schedulingConditions"))
    theirs = {"type": "UnschedulableOnNodePool", "nodePool": "other", "status": "True"}
    ours = group(cluster, "g")["schedulingConditions"]
    path = f"/apis/{RUN}/v2alpha2/namespaces/{cluster.namespace}/podgroups/g/status"
    body = {"status": {"schedulingConditions": [theirs, *ours]}}
    cluster.must("PATCH", path, body, "application/merge-patch+json")
    cluster.stop()  # whoever leads next did not write it itself
    cluster.delete_pod("block")
    cluster.start().wait_leading()
    cluster.wait_placed("g-0", "g-1")
    until(lambda: group(cluster, "g")["schedulingConditions"] == [theirs])


def test_a_group_says_its_reasons_as_kai_does(cluster):
    cluster.queue("firm", 0)
    cluster.queue("narrow", 4, resources={"gpu": {"quota": 4, "limit": 1}})
    cluster.start().wait_leading()
    cluster.gang("firm", "firm", 1, preemptibility="non-preemptible")
    cluster.gang("narrow", "narrow", 2)
    cluster.gang("lost", "nobody", 1)

    def said(name):
        entries = group(cluster, name).get("schedulingConditions", ())
        return [it for entry in entries for it in entry["reasons"]]

    for name, reason in (
        ("firm", "NonPreemptibleOverQuota"),
        ("narrow", "OverLimit"),
        ("lost", "QueueDoesNotExist"),
    ):
        (found,) = until(lambda it=name: said(it))
        assert found["reason"] == reason
        assert found["message"]
    details = said("narrow")[0]["details"]["queueDetails"]
    assert details["name"] == "narrow"
    assert details["podGroupRequestedResources"] == {"nvidia.com/gpu": "2"}
    assert details["queueResourceLimits"] == {"nvidia.com/gpu": "1"}


def test_a_queue_that_is_of_no_use_says_why(cluster):
    cluster.queue("lost", 4, "nobody")
    cluster.queue("below", 4, "lost")
    cluster.queue("ring-1", 4, "ring-2")
    cluster.queue("ring-2", 4, "ring-1")
    cluster.queue("idle", 0, "root", limit=0)
    cluster.start().wait_leading()
    cluster.pod("inner", "root")
    cluster.pod("starved", "idle")
    for name, words in (
        ("lost", "nobody"),
        ("below", "lost"),
        ("ring-1", "ring-1 -> ring-2 -> ring-1"),
    ):
        until(lambda n=name: condition(cluster, n))
        assert condition(cluster, name)["reason"] == "ParentUnusable"
        assert condition(cluster, name)["status"] == "False"
        assert words in condition(cluster, name)["message"]
        assert condition(cluster, name, "Orphan")["status"] == "True"
    until(lambda: condition(cluster, "root").get("reason") == "NotLeaf")
    # Its pod is larger than the queue may ever hold: it asks for no share, which is told.
    until(lambda: condition(cluster, "idle", "Unschedulable").get("status") == "True")
    assert condition(cluster, "idle", "Unschedulable")["reason"] == "OverLimit"
    assert "gpu 1" in condition(cluster, "idle", "Unschedulable")["message"]


def test_a_condition_keeps_its_time_while_its_status_stays(cluster):
    cluster.start().wait_leading()
    since = until(lambda: condition(cluster, "a").get("lastTransitionTime"))
    over = condition(cluster, "a", "OverQuota")
    assert over["status"] == "False"
    time.sleep(1.1)  # times are written in whole seconds
    for number in range(10):
        cluster.pod(f"p{number}", "a")
    until(lambda: condition(cluster, "a", "OverQuota")["status"] == "True")
    assert condition(cluster, "a", "OverQuota")["lastTransitionTime"] > over["lastTransitionTime"]
    assert condition(cluster, "a")["lastTransitionTime"] == since


def test_what_is_said_already_is_not_written_again_after_a_restart(cluster, server):
    cluster.start().wait_leading()
    cluster.gang("g", "a", 2)
    cluster.wait_placed("g-0", "g-1")
    until(lambda: group(cluster, "g").get("resourcesStatus", {}).get("allocated") == amounts(2))
    until(lambda: queue(cluster, "a").get("allocated") == amounts(2))
    until(lambda: all(queue(cluster, it).get("saturation") == "100%" for it in ("a", "root")))
    cluster.stop()
    server.log.clear()
    cluster.start().wait_leading()
    time.sleep(2.5)
    written = {it.plural for it in server.log if it.verb in {"create", "update", "patch", "delete"}}
    assert written == set()


def test_our_own_reports_start_no_cycle_and_change_no_snapshot(cluster):
    daemon = cluster.start(schedulePeriod="1h").wait_leading()
    cluster.gang("g", "a", 2)
    cluster.wait_placed("g-0", "g-1")
    leader = daemon.daemon.leaders[0]

    def state():
        leader.cluster.snapshot()
        return leader.loop.cycles, leader.cluster.store.rows.revision

    def is_quiet():
        before = state()
        time.sleep(1.0)
        return state() == before

    until(is_quiet)
    before = state()
    for name in ("a", "b", "root"):
        path = f"/apis/{RUN}/v2/queues/{name}/status"
        body = {"status": {"allocated": {"nvidia.com/gpu": "77"}}}
        cluster.must("PATCH", path, body, "application/merge-patch+json")
    time.sleep(0.5)
    assert state() == before
