"""What people are told of pods that do not end, who waited for their room, and lost owners."""

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from tests.laws.reported import TEAM, Cluster
from tests.unit.cluster.kubernetes.test_reports import condition


def events(cluster):
    """(Pod, reason) to what is said, for each event once."""
    found = [
        ((it["involvedObject"]["name"], it["reason"]), it["message"])
        for it in cluster.objects("", "events")
        if it["reason"] in {"StuckTerminating", "PromiseVoid", "OwnerNotRead"}
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.fault("D70")
@pytest.mark.fault("F97")
def test_a_pod_that_does_not_end_and_who_waited_for_it_are_told_once():
    cluster = Cluster(nodes=1)
    cluster.pod("p", "a", 8)
    cluster.pass_time(1.0)
    cluster.pod("waits", "a", 8)
    cluster.server.must("DELETE", f"{TEAM}/pods/p", {"gracePeriodSeconds": 60})
    cluster.overwrite(f"{TEAM}/pods/waits", {"nominatedNodeName": "n000"})
    cluster.pass_time(1.0)
    wall_s = cluster.clock.now_s()
    cluster.store.find_stuck(0.0, wall_s)
    cluster.pass_time(1.0)
    assert [it.pod for it in cluster.cycle.result.nominations] == ["team/waits"]
    assert events(cluster) == {}
    cluster.store.find_stuck(150.0, wall_s)
    cluster.pass_time(1.0)
    assert cluster.cycle.result.nominations == []
    told = events(cluster)
    assert set(told) == {("p", "StuckTerminating"), ("waits", "PromiseVoid")}
    assert told["p", "StuckTerminating"].startswith("its deletion was requested 2m30s ago and it")
    assert "deletion of pod team/p there was requested 2m30s ago" in told["waits", "PromiseVoid"]
    cluster.pass_time(2.0)
    assert events(cluster) == told


@pytest.mark.fault("F97")
def test_nobody_is_told_that_a_promise_is_void_that_is_kept():
    cluster = Cluster(nodes=1)
    for name, gpus in (("p", 4), ("q", 4)):
        cluster.pod(name, "a", gpus)
    cluster.pass_time(1.0)
    cluster.pod("waits", "a", 4)
    for name in "pq":
        cluster.server.must("DELETE", f"{TEAM}/pods/{name}", {"gracePeriodSeconds": 30})
    cluster.overwrite(f"{TEAM}/pods/waits", {"nominatedNodeName": "n000"})
    cluster.pass_time(1.0)
    cluster.store.find_stuck(0.0, cluster.clock.now_s())
    cluster.store.facts.stuck.forget("team/q")  # that one is clocked from later on
    cluster.store.find_stuck(150.0, cluster.clock.now_s())
    cluster.pass_time(1.0)
    assert [it.pod for it in cluster.cycle.result.nominations] == ["team/waits"]
    assert set(events(cluster)) == {("p", "StuckTerminating")}


@pytest.mark.fault("D67")
def test_a_pod_that_waited_for_its_owner_in_vain_is_told_once():
    cluster = Cluster(nodes=1)
    cluster.pod("p", "a", 1)
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "t", "uid": "u"}
    patch = {"metadata": {"ownerReferences": [owner | {"controller": True}]}}
    cluster.server.must("PATCH", f"{TEAM}/pods/p", patch, MERGE)
    cluster.deliver()
    cluster.store.let_go(0.0)
    cluster.pass_time(1.0)
    said = condition(cluster, "p")
    assert said["reason"] == "Unschedulable"
    assert (
        said["message"]
        == "its owner PyTorchJob t is not read yet; ownerWait of the shard bounds this"
    )
    assert events(cluster) == {}
    cluster.store.let_go(120.0)
    cluster.pass_time(2.0)
    ((key, text),) = events(cluster).items()
    assert key == ("p", "OwnerNotRead")
    assert text.startswith("its owner PyTorchJob t was not read within 2m: ")
    assert condition(cluster, "p")["status"] == "True"


@pytest.mark.fault("I138")
def test_a_pod_that_could_not_be_bound_hears_why_once_while_others_take_the_room():
    cluster = Cluster(nodes=1)
    why = "it could not be bound to node n000: 422 Invalid: not today"
    cluster.pod("p", "a", 8)
    cluster.deliver()
    uid = cluster.store.pods.version_of("team/p")[0]
    told = f"{why}; it is tried again, more rarely each time"
    for begun_s in (1000.0, 2000.0):
        cluster.store.assume_bound("team/p", "n000")
        cluster.store.hold_back("team/p", begun_s, uid, why)
        cluster.pass_time(2.0)
        assert condition(cluster, "p")["message"] == told
        cluster.store.let_go(begun_s + 400.0)
    said = [it["message"] for it in cluster.objects("", "events")]
    assert [text for text in said if "could not" in text] == [told]
