"""kubectl works on the server; skipped where there is none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kaisched_apiserver.playground import Size, kubeconfig_of, playground

KUBECTL = shutil.which("kubectl")
PATIENCE_S = 60
EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "playground.yaml"
OBJECTS = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: lab}
spec: {resources: {gpu: {quota: 16, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team, labels: {kai.scheduler/queue: lab}}
spec:
  schedulerName: kaisched
  containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


@pytest.fixture
def kubectl(tmp_path):
    """Run kubectl on a furnished cluster; return what it prints."""
    with playground(Size(nodes=2, gpus_per_node=8, start_delay_s=0.05)) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig_of(server.url))

        def run(*words, text=None):
            done = subprocess.run(
                [KUBECTL, *words],
                check=False,
                input=text,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                env={**os.environ, "KUBECONFIG": str(path), "HOME": str(tmp_path)},
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run


def test_objects_are_applied_shown_changed_and_deleted(kubectl):
    assert "created" in kubectl("create", "namespace", "team")
    assert kubectl("apply", "-f", "-", text=OBJECTS).count("created") == 2
    assert kubectl("apply", "-f", "-", text=OBJECTS).count("unchanged") == 2
    changed = OBJECTS.replace("quota: 16", "quota: 8")
    assert "queue.scheduling.run.ai/lab configured" in kubectl("apply", "-f", "-", text=changed)
    quota = "jsonpath={.spec.resources.gpu.quota}"
    assert kubectl("get", "queue", "lab", "-o", quota) == "8"
    rows = kubectl("get", "pods", "-n", "team", "-o", "wide").splitlines()
    assert rows[0].split()[:3] == ["NAME", "READY", "STATUS"]
    assert rows[1].split()[:3] == ["p", "0/1", "Pending"]
    described = kubectl("describe", "pod", "p", "-n", "team")
    assert "nvidia.com/gpu:  1" in described
    assert "deleted" in kubectl("delete", "pod", "p", "-n", "team")
    assert "deleted" in kubectl("delete", "namespace", "team")


def test_server_side_apply_works(kubectl):
    kubectl("create", "namespace", "team")
    done = kubectl("apply", "--server-side", "-f", "-", text=OBJECTS)
    assert done.count("serverside-applied") == 2


def test_nodes_are_cordoned_and_drained(kubectl):
    assert "cordoned" in kubectl("cordon", "gpu-node-1")
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    run = ["run", "p", "--image=x", '--overrides={"spec":{"nodeName":"gpu-node-1"}}']
    kubectl(*run)
    assert "drained" in kubectl("drain", "gpu-node-1", "--force", "--grace-period=1")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_the_example_can_be_applied(kubectl):
    """docs/how-to/try-without-a-cluster.md: its namespaces come first in the same file."""
    assert kubectl("apply", "-f", str(EXAMPLE)).count("created") == 7
    assert "institute" in kubectl("get", "queues")
    assert "nvidia.com/gpu:  2" in kubectl("describe", "pod", "notebook", "-n", "robots")


def test_rights_and_kinds_can_be_asked_for(kubectl):
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    kinds = kubectl("api-resources", "--api-group=scheduling.run.ai")
    assert {"queues", "podgroups"} <= {line.split()[0] for line in kinds.splitlines()}
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_kinds_are_explained(kubectl):
    assert "What the queue deserves" in kubectl("explain", "queue.spec.resources.quota")
    assert "schedulerName" in kubectl("explain", "pod.spec")
    assert "knows none of their fields" in kubectl("explain", "configmap")
