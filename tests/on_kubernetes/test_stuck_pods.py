"""A pod that does not end, on an API server: it is told, and another room is sought."""

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from tests.on_kubernetes.looking import assert_no_overcommit, events
from tests.on_kubernetes.test_workloads import shard_file
from tests.waiting import until

pytestmark = [pytest.mark.fault("D70"), pytest.mark.fault("F97")]


def told(cluster):
    items = cluster.server.api.storage.collection(("", "events")).records.values()
    found = [record.object() for record in items]
    return {(it["involvedObject"]["name"], it["reason"]) for it in found}


def test_a_claim_is_served_elsewhere_when_its_victim_does_not_end(rig, server, tmp_path):
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("root", -1)
    rig.queue("a", 0, "root")
    rig.queue("b", 8, "root")
    for number in range(2):
        rig.pod(f"v{number}", "a", 8, nodeName=f"n{number}")
    keep = {"metadata": {"finalizers": ["example.com/wait"]}}
    rig.must("PATCH", f"{rig.pods_path}/v0", keep, MERGE)
    rig.start_kubelet()
    until(lambda: all(pod["status"]["phase"] == "Running" for pod in rig.pods().values()))
    file = shard_file(tmp_path, args={"stuck-in-releasing-threshold": "300ms"})
    daemon = rig.start(shards=[file]).wait_leading()
    rig.delete_pod("v0")
    until(lambda: daemon.daemon.leaders[0].collector.published.stuck == 1)
    rig.pod("w", "b", 8)
    assert rig.wait_placed("w")["w"] == "n1"
    assert {line["pod"].partition("/")[2] for line in events(rig, "pod_evicted")} == {"v1"}
    assert_no_overcommit(rig)
    until(lambda: ("v0", "StuckTerminating") in told(rig))
