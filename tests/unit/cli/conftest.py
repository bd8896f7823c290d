"""A small cluster as manifests, and a command line in the same process."""

import pytest

from kaisched.cli.app import run_line

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", resources: {gpu: {quota: %s, limit: %s}}}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team, labels: {kai.scheduler/queue: %s}}
spec:
  schedulerName: %s
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "%s"}}}]
---"""


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("COLUMNS", "KAISCHED_CONFIG", "KAISCHED_METRICS__PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manifests(tmp_path):
    """Two nodes, a tree of queues; a pod that fits, one over the limit, one too big."""
    file = tmp_path / "cluster.yaml"
    file.write_text(
        NODE % "n0"
        + NODE % "n1"
        + QUEUE % ("root", "", -1, -1)
        + QUEUE % ("a", "root", 4, 6)
        + QUEUE % ("b", "root", 8, -1)
        + POD % ("a-0", "a", "kaisched", 4)
        + POD % ("a-1", "a", "kaisched", 4)
        + POD % ("b-0", "b", "kai-scheduler", 16)
        + POD % ("other", "b", "default-scheduler", 1),
        encoding="utf-8",
    )
    return file


@pytest.fixture
def run(capsys):
    """Run a command line; returns (exit code, stdout, stderr)."""

    def run(*line):
        code = run_line([str(word) for word in line])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run
