"""What pods ask of their places holds on an API server, also over a restart in mid-work."""

from collections import Counter

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from tests.on_kubernetes.rig import KUBECONFIG
from tests.waiting import until

pytestmark = [pytest.mark.proportion, *([pytest.mark.real] if KUBECONFIG else [])]
ZONE = "topology.kubernetes.io/zone"
PODS = 30
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"


def test_a_backlog_is_spread_over_zones_though_the_scheduler_is_started_again(rig):
    """Zones of 32, 16 and 8 GPUs, maxSkew 1: 30 pods are ten each at most, and 8 in the last.

    So the last zone bounds the others to 9 each, and 4 of the 30 wait.
    """
    for zone, nodes in (("a", 4), ("b", 2), ("c", 1)):
        for number in range(nodes):
            rig.node(f"{zone}{number}", labels={ZONE: zone})
    rig.queue("team", quota=-1)
    rig.start_kubelet()
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    rig.start()
    for number in range(PODS):
        rig.pod(f"p{number}", "team", labels={"app": "spread"}, topologySpreadConstraints=[rule])
        if number == PODS // 2:
            rig.stop()
    rig.start()
    until(lambda: len(rig.placed()) == 26)
    counts = Counter(pod["spec"]["nodeName"][0] for pod in rig.pods().values() if placed(pod))
    assert counts == {"a": 9, "b": 9, "c": 8}
    until(lambda: any("maxSkew 1" in it for it in told(rig)))


def test_nothing_is_evicted_for_a_pod_that_never_preempts(rig):
    """Its queue deserves what another borrows: the same pod without the policy gets it."""
    rig.node("n", gpus=4)
    rig.queue("owner", quota=4)
    rig.queue("guest", quota=0)
    rig.start_kubelet()
    rig.start()
    for number in range(4):
        rig.pod(f"g{number}", "guest")
    until(lambda: len(rig.placed()) == 4)
    made = {"metadata": {"name": "polite"}, "value": 50, "preemptionPolicy": "Never"}
    rig.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
    rig.pod("polite", "owner", gpus=2, priorityClassName="polite", preemptionPolicy="Never")
    until(lambda: any("preemptionPolicy: Never" in it for it in told(rig)))
    assert len(rig.placed()) == 4
    rig.pod("owner", "owner", gpus=2)
    rig.wait_placed("owner")
    assert "polite" not in rig.placed()


def test_a_claim_gets_a_local_volume_before_its_pod_is_bound(rig):
    """Of volumes on two nodes the claim fits one; what the volume controller does, we do."""
    for name, size in (("n1", "10Gi"), ("n2", "20Gi")):
        rig.node(name, labels={"kubernetes.io/hostname": name})
        where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": rig.namespace,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        }
        rig.must("POST", VOLUMES, {"metadata": {"name": f"{rig.namespace}-{name}"}, "spec": spec})
        free = {"status": {"phase": "Available"}}
        rig.must("PATCH", f"{VOLUMES}/{rig.namespace}-{name}/status", free, MERGE)
    made = {"metadata": {"name": rig.namespace}, "provisioner": "kubernetes.io/no-provisioner"}
    rig.ask("POST", STORAGE, {**made, "volumeBindingMode": "WaitForFirstConsumer"})
    claims = CLAIMS.format(rig.pods_path.split("/")[-2])
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": rig.namespace,
        "resources": {"requests": {"storage": "15Gi"}},
    }
    claim = rig.must("POST", claims, {"metadata": {"name": "c"}, "spec": asked})
    rig.queue("team", quota=-1)
    rig.start_kubelet()
    rig.start()
    rig.pod("p", "team", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    small, large = (f"{VOLUMES}/{rig.namespace}-{node}" for node in ("n1", "n2"))
    reference = until(lambda: rig.must("GET", large)["spec"].get("claimRef"))
    assert reference["uid"] == claim["metadata"]["uid"]
    assert "claimRef" not in rig.must("GET", small)["spec"]
    assert not rig.placed()
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    rig.must(
        "PATCH",
        f"{claims}/c",
        {"metadata": done, "spec": {"volumeName": f"{rig.namespace}-n2"}},
        MERGE,
    )
    rig.must("PATCH", f"{claims}/c/status", {"status": {"phase": "Bound"}}, MERGE)
    rig.wait_placed("p")
    assert rig.pods()["p"]["spec"]["nodeName"] == "n2"


def placed(pod):
    return bool(pod["spec"].get("nodeName"))


def told(rig):
    """Return what the pods that wait are told."""
    return [
        condition.get("message", "")
        for pod in rig.pods().values()
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled"
    ]
