"""What somebody has to do something about is said once, with the fix, and then waited for."""

import time

import pytest

from kaisched_apiserver.faults import Fault
from tests.on_kubernetes.test_daemon import cluster
from tests.waiting import until

pytestmark = pytest.mark.slow
__all__ = ["cluster"]
SHARDS = "/apis/kai.scheduler/v1/schedulingshards"
MERGE = "application/merge-patch+json"


def said(cluster, event):
    return [line for line in cluster.logs if line["event"] == event]


def shard(name, **spec):
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def shards(cluster):
    """The shards of a cluster of our own: others' would be served too."""
    cluster.must("POST", SHARDS, shard("default", kValue=0.5))
    yield SHARDS
    for name in ("default", "extra"):
        cluster.ask("DELETE", f"{SHARDS}/{name}")


def readiness(running):
    return next(it.text for it in running.daemon.ready() if it.name == "shards")


@pytest.mark.fault("E92")
def test_a_shard_that_changes_while_we_run_is_told(cluster, shards):
    running = cluster.start().wait_leading()
    assert readiness(running) == "as at the start"
    cluster.must("PATCH", f"{shards}/default", {"spec": {"kValue": 2.0}}, MERGE)
    (line,) = until(lambda: said(cluster, "shards_changed"))
    assert line["log_level"] == "warning"
    assert line["shards"] == ["default: spec.kValue"]
    assert "restart" in line["fix"]
    assert "default: spec.kValue" in readiness(running)
    cluster.must("POST", shards, shard("extra", partitionLabelValue="extra"))
    until(lambda: "extra: is new" in readiness(running))
    cluster.must("DELETE", f"{shards}/extra")
    cluster.must("PATCH", f"{shards}/default", {"spec": {"kValue": 0.5}}, MERGE)
    until(lambda: readiness(running) == "as at the start")
    cluster.must("DELETE", f"{shards}/default")
    until(lambda: "default: spec.kValue" in readiness(running))  # the default one would be served
    cluster.pod("p", "a")
    cluster.wait_placed("p")


def test_a_shard_that_is_made_where_there_was_none(cluster):
    running = cluster.start().wait_leading()
    try:
        cluster.must("POST", SHARDS, shard("default"))
        time.sleep(0.5)
        assert readiness(running) == "as at the start"
        cluster.must("PATCH", f"{SHARDS}/default", {"spec": {"kValue": 2.0}}, MERGE)
        until(lambda: "default: spec.kValue" in readiness(running))
    finally:
        cluster.ask("DELETE", f"{SHARDS}/default")


def test_a_missing_namespace_of_the_lease_is_named_with_the_fix(cluster):
    name = f"{cluster.namespace}-lease"
    running = cluster.start(kubernetes={"namespace": name})
    (line,) = until(lambda: said(cluster, "lease_refused"))
    assert line["log_level"] == "warning"
    assert line["fix"] == (
        f"create the namespace {name}, or set kubernetes.namespace to one that exists"
    )
    time.sleep(1.0)  # tried several times, said once
    assert len(said(cluster, "lease_refused")) == 1
    cluster.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    running.wait_leading()
    running.stop()
    cluster.ask("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize(
    ("verb", "words"),
    [("get", "give our account get on leases"), ("create", "create the Lease kaisched-default")],
)
def test_a_lease_we_may_not_have_is_named_with_the_fix(cluster, server, verb, words):
    fault = server.faults.add(Fault("status", verb=verb, plural="leases", code=403, times=None))
    running = cluster.start()
    (line,) = until(lambda: said(cluster, "lease_refused"))
    assert words in line["fix"]
    server.faults.remove(fault)
    running.wait_leading()
