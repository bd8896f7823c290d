"""The daemon and its file of usage history, in a process of its own that is killed."""

import json
import os
import subprocess
import sys
import time

from kaisched.core.usage import PARTS, UsageState
from kaisched.usage.history import Window
from kaisched.usage.sqlite import SqliteStore

MANIFESTS = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {{name: s}}
spec:
  usageDBConfig: {{connectionString: {path}, usageParams: {{windowSize: 1h, fetchInterval: 1s}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: n0}}
status: {{allocatable: {{cpu: 8, memory: 8Gi, nvidia.com/gpu: 4, pods: 20}}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: a}}
spec: {{resources: {{gpu: {{quota: 1}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, labels: {{kai.scheduler/queue: a}}}}
spec:
  schedulerName: kaisched
  nodeName: n0
  containers: [{{name: c, image: i, resources: {{requests: {{nvidia.com/gpu: 1}}}}}}]
status: {{phase: Running}}
"""


def run_until_it_has_turned(manifests, seconds):
    """Run the daemon this long after its first cycle, kill it, and return its log."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kaisched",
            "run",
            "-f",
            str(manifests),
            "--metrics-port",
            "0",
            "--health-port",
            "0",
            "--schedule-period",
            "100ms",
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAISCHED_LOG__LEVEL": "debug"},
    )
    events = []
    for line in process.stderr:
        events.append(json.loads(line))
        if events[-1]["event"] == "cycle_completed":
            break
    time.sleep(seconds)
    process.kill()
    killed_s = time.time()
    events += [json.loads(line) for line in process.stderr]
    process.stderr.close()
    process.wait()
    return events, killed_s


def test_a_killed_daemon_loses_no_more_than_one_sample(tmp_path):
    path, manifests = tmp_path / "usage.db", tmp_path / "cluster.yaml"
    manifests.write_text(MANIFESTS.format(path=path))
    for _ in range(2):
        events, killed_s = run_until_it_has_turned(manifests, 2.4)
        told = [event for event in events if event["event"] == "usage_changed"]
        assert [(event["state"], event["reasons"]) for event in told] == [("fresh", [])]
        store = SqliteStore(path, Window(size_s=3600.0), killed_s)
        usage = store.usage(killed_s, ["a"], ["gpu"])
        store.close()
        assert usage.state == UsageState.FRESH
        assert usage.age_s < 1.5
        assert usage.parts.tolist() == [[PARTS // 4]]
