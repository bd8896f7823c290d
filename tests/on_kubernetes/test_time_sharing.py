"""History from a real Prometheus, which has it from our own exporter: who had much gets less."""

import json
import os
import subprocess
import sys
import time

import pytest

from kaisched_apiserver.furnish import kubeconfig_of
from tests.contract.prometheus import Prometheus, free_port, needs_prometheus
from tests.on_kubernetes.rig import KUBECONFIG
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_prometheus]
SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {{name: default}}
spec:
  kValue: 1.0
  usageDBConfig:
    clientType: prometheus
    connectionString: {url}
    usageParams:
      windowSize: 2m
      halfLifePeriod: 1m
      fetchInterval: 1s
      stalenessPeriod: 30s
      waitTimeout: 1s
      extraParams:
        queryResolution: 1s
        gpuCapacityMetric: kaisched_capacity_gpus
        cpuCapacityMetric: kaisched_capacity_cpu_cores
        memoryCapacityMetric: kaisched_capacity_memory_bytes
"""


@pytest.fixture
def cluster(rig):
    """One node, two queues of the same weight and no quota."""
    rig.node("n0", 8)
    rig.queue("a")
    rig.queue("b")
    rig.start_kubelet()
    return rig


@pytest.fixture
def prometheus(tmp_path):
    target = f"127.0.0.1:{free_port()}"
    scrape = f'{{job_name: kaisched, static_configs: [{{targets: ["{target}"]}}]}}'
    server = Prometheus(tmp_path / "prometheus", scrape)
    server.target = target
    yield server.start()
    server.kill()


@pytest.fixture
def log(cluster, prometheus, tmp_path):
    """What a daemon says, which is scraped and asks what was scraped."""
    kubeconfig, shard = tmp_path / "kubeconfig", tmp_path / "shard.yaml"
    kubeconfig.write_text(kubeconfig_of(cluster.access.host), encoding="utf-8")
    shard.write_text(SHARD.format(url=prometheus.url), encoding="utf-8")
    variables = {
        "KUBECONFIG": KUBECONFIG or str(kubeconfig),
        "KAISCHED_CLUSTER": "kubernetes",
        "KAISCHED_KUBERNETES__NAMESPACE": "default",
        "KAISCHED_SCHEDULE_PERIOD": "200ms",
        "KAISCHED_LEADER_ELECTION__LEASE_DURATION": "90s",
        "KAISCHED_LEADER_ELECTION__RENEW_DEADLINE": "60s",
        "KAISCHED_METRICS__PORT": prometheus.target.rpartition(":")[2],
        "KAISCHED_HEALTH__PORT": "0",
        "KAISCHED_LOG__FORMAT": "json",
        "KAISCHED_SHARDS": str(shard),
    }
    # The daemon takes what begins with KAISCHED_ for a setting.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("KAISCHED_")}
    path = tmp_path / "log"
    with path.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "kaisched", "run"],
            env={**inherited, **variables},
            stderr=stream,
        )
    yield lambda: [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if line.endswith("\n")
    ]
    process.terminate()
    process.wait(60)


def placed(cluster, queue):
    return sum(name.startswith(queue) for name in cluster.placed())


def test_who_has_had_all_gives_way_to_who_had_nothing(cluster, log):
    """By their weights each queue has a fair share of four GPUs. One has had all eight so far."""
    for number in range(12):
        cluster.pod(f"a{number}", "a")
    until(lambda: placed(cluster, "a") == 8, 60)
    until(lambda: [it for it in log() if it["event"] == "usage_changed" and it["state"] == "fresh"]
          or time.sleep(0.2), 60)  # fmt: skip
    time.sleep(5.0)  # a history of some seconds
    for number in range(12):
        cluster.pod(f"b{number}", "b")
    until(lambda: placed(cluster, "b") >= 6, 60)
    evicted = [line for line in log() if line["event"] == "pod_evicted"]
    assert {line["action"] for line in evicted} == {"reclaim"}
    assert all("/a" in line["pod"] for line in evicted)
