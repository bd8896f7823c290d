"""Disruption budgets end to end: the search asks for what the server will grant, the first time."""

import msgspec
import pytest

from kaisched_apiserver.connection import Fault
from kaisched_apiserver.controllers import Controllers
from tests.on_kubernetes.looking import events
from tests.waiting import until

pytestmark = pytest.mark.slow
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def cluster(rig, server):
    """A node of four GPUs that queue a holds; it deserves two of them, and so does queue b."""
    Controllers(server)
    rig.node("n0", gpus=4)
    rig.queue("root", -1)
    rig.queue("a", 2, "root")
    rig.queue("b", 2, "root")
    for name in ("p0", "p1", "p2", "p3"):
        rig.pod(name, "a", nodeName="n0", labels={"app": name})
    rig.start_kubelet()
    until(lambda: all(pod["status"]["phase"] == "Running" for pod in rig.pods().values()))
    for name in ("p0", "p1", "p2", "p3"):
        rig.must("PATCH", f"{rig.pods_path}/{name}/status", {"status": READY}, STRATEGIC)
    return rig


@pytest.fixture
def always(tmp_path):
    """A shard in which budgets protect borrowed GPUs too."""
    kind = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    file = tmp_path / "shard.yaml"
    shard = {**kind, "metadata": {"name": "default"}, "spec": {"disruptionBudgets": "always"}}
    file.write_bytes(msgspec.yaml.encode(shard))
    return [file]


def guard(cluster, name, pods, *, at_least):
    path = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
    only = {"matchExpressions": [{"key": "app", "operator": "In", "values": pods}]}
    spec = {"minAvailable": at_least, "selector": only}
    cluster.must("POST", path, {"metadata": {"name": name}, "spec": spec})

    def is_counted():
        status = cluster.must("GET", f"{path}/{name}").get("status", {})
        return status.get("currentHealthy") == len(pods)

    until(is_counted)


def refused(server):
    return [
        (it.name, it.status)
        for it in server.log
        if it.subresource == "eviction" and it.status >= 400
    ]


def evicted(cluster):
    return {line["pod"].partition("/")[2] for line in events(cluster, "pod_evicted")}


def test_reclaim_takes_another_pod_than_the_protected_one_at_once(cluster, server, always):
    guard(cluster, "guard", ["p3", "p2"], at_least=2)
    cluster.start(always).wait_leading()
    cluster.gang("w", "b", 2)
    cluster.wait_placed("w-0", "w-1")
    assert evicted(cluster) == {"p0", "p1"}
    assert refused(server) == []


def test_a_budget_gives_one_pod_and_the_rest_comes_from_elsewhere(cluster, server, always):
    guard(cluster, "guard", ["p3", "p2"], at_least=1)
    cluster.start(always).wait_leading()
    cluster.gang("w", "b", 2)
    cluster.wait_placed("w-0", "w-1")
    assert evicted(cluster) == {"p3", "p1"}
    assert refused(server) == []


def test_a_claim_waits_with_the_reason_until_the_budget_is_gone(cluster, server, always):
    guard(cluster, "guard", ["p0", "p1", "p2", "p3"], at_least=4)
    cluster.start(always).wait_leading()
    cluster.pod("w", "b")
    until(lambda: "disruption budget" in cluster.condition("w").get("message", ""))
    assert refused(server) == []
    path = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets/guard"
    cluster.must("DELETE", path)
    cluster.wait_placed("w")
    assert evicted(cluster) == {"p3"}


def test_budgets_of_a_tenant_do_not_keep_what_it_has_borrowed(cluster, server):
    """Two of the four are borrowed; the other two stay, whatever queue b still wants."""
    guard(cluster, "guard", ["p0", "p1", "p2", "p3"], at_least=4)
    cluster.start().wait_leading()
    cluster.gang("w", "b", 2)
    cluster.wait_placed("w-0", "w-1")
    assert evicted(cluster) == {"p2", "p3"}
    assert "disruption budget does not hold" in events(cluster, "pod_evicted")[0]["reason"]
    cluster.pod("more", "b")
    until(lambda: cluster.condition("more").get("message", ""))
    assert evicted(cluster) == {"p2", "p3"}


def test_where_victims_are_deleted_budgets_do_not_count(cluster, server):
    guard(cluster, "guard", ["p0", "p1", "p2", "p3"], at_least=4)
    cluster.start(kubernetes={"evictionMode": "delete"}).wait_leading()
    cluster.pod("w", "b")
    cluster.wait_placed("w")
    assert evicted(cluster) == {"p3"}


def test_without_the_right_to_read_budgets_the_server_still_has_the_last_word(
    cluster, server, always
):
    """What it refuses is not asked for again for a while."""
    guard(cluster, "guard", ["p3"], at_least=1)
    server.faults.add(Fault("status", plural="poddisruptionbudgets", code=403, times=None))
    cluster.start(always).wait_leading()
    cluster.pod("w", "b")
    until(lambda: refused(server))
    (told,) = [it for it in events(cluster, "kind_unreadable") if "budgets" in it["needs"]]
    assert told["needs"] == "get, list and watch on poddisruptionbudgets.policy"
    assert evicted(cluster) == set()
