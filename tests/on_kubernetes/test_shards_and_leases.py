"""What somebody has to do something about is said once, with the fix, and then waited for."""

import time

import pytest
from prometheus_client import generate_latest

from kaisched.telemetry.metrics import registry_of
from kaisched_apiserver.connection import Fault
from tests.contract.prometheus import free_port
from tests.on_kubernetes.rig import elected
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


def usable(cluster, shards, name="default"):
    """The status of a shard that says whether it is usable, and the condition itself."""
    status = cluster.must("GET", f"{shards}/{name}").get("status") or {}
    found = [it for it in status.get("conditions", ()) if it["type"] == "Usable"]
    return status, found[0] if found else {}


def test_a_shard_with_an_error_counts_as_it_was_usable_last(cluster, shards):
    """An edit that no plugin can read: status and event say so, a restart does not end."""
    running = cluster.start().wait_leading()
    until(lambda: usable(cluster, shards)[1].get("status") == "True")
    wrong = {"spec": {"plugins": {"zzz": {"enabled": True}}, "kValu": 3}}
    cluster.must("PATCH", f"{shards}/default", wrong, MERGE)
    status, condition = until(
        lambda: (it := usable(cluster, shards))[1].get("status") == "False" and it
    )
    assert "spec.kValu: unknown key" in condition["message"]
    assert "spec.plugins.zzz: no such plugin" in condition["message"]
    assert status["lastUsableSpec"] == {"kValue": 0.5}
    (line,) = until(lambda: said(cluster, "shard_wrong"))
    assert (line["log_level"], len(line["err"])) == ("error", 2)
    assert readiness(running).startswith("default is wrong: ")
    until(lambda: events_of(cluster, "ShardWrong"))
    cluster.stop()
    again = cluster.start().wait_leading()
    assert "default is wrong" in readiness(again)
    assert again.daemon.leaders[0].name == "default"
    cluster.must("PATCH", f"{shards}/default", {"spec": {"plugins": None, "kValu": None}}, MERGE)
    until(lambda: usable(cluster, shards)[1]["status"] == "True")
    until(lambda: readiness(again) == "as at the start")
    assert len(events_of(cluster, "ShardWrong")) == 1


def events_of(cluster, reason):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    return [it for it in cluster.must("GET", path)["items"] if it["reason"] == reason]


def test_a_shard_that_was_never_usable_ends_the_start(cluster, shards):
    cluster.must("POST", shards, shard("extra", partitionLabelValue="extra", kValu=1))
    running = cluster.start()
    until(lambda: running.error)
    assert "spec.kValu: unknown key" in str(running.error)
    assert usable(cluster, shards, "extra")[1]["status"] == "False"


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
    running = cluster.start(kubernetes={"namespace": name}, **elected())
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
    running = cluster.start(**elected())
    (line,) = until(lambda: said(cluster, "lease_refused"))
    assert words in line["fix"]
    server.faults.remove(fault)
    running.wait_leading()


def test_a_server_of_usage_history_that_is_gone_has_a_condition(cluster, shards):
    """Told once in the log, and by metric, probe and condition; work goes on."""
    usage = {
        "clientType": "prometheus",
        "connectionString": f"http://127.0.0.1:{free_port()}",
        "usageParams": {"waitTimeout": 0},
        "healthProbe": {"interval": "1s", "timeout": "1s", "maxRetries": 0},
    }
    cluster.must("PATCH", f"{shards}/default", {"spec": {"usageDBConfig": usage}}, MERGE)
    running = cluster.start().wait_leading()

    def told():
        status = cluster.must("GET", f"{shards}/default").get("status") or {}
        return [
            (it["status"], it["reason"], it["message"])
            for it in status.get("conditions", ())
            if it["type"] == "UsageServerReachable"
        ]

    why = "127.0.0.1 did not answer: Connection refused"
    assert until(told) == [("False", "NoAnswer", why)]
    until(lambda: said(cluster, "usage_server_changed"))
    assert until(
        lambda: [it.text for it in running.daemon.ready() if it.name == "usage-server"]
    ) == [why]
    text = generate_latest(registry_of(running.daemon.leaders[0].collector)).decode()
    assert "kaisched_usage_server_state 0.0" in text
    cluster.pod("p", "a")
    cluster.wait_placed("p")
