"""History from a real Prometheus, which has it from our own exporter: who had much gets less.

Days of the feature's stories are seconds here: the window is two minutes.
"""

import time

import pytest

from kaisched.cluster.kubernetes.client import STRATEGIC
from kaisched_apiserver.playground import kubeconfig_of
from tests.contract.prometheus import Prometheus, free_port, needs_prometheus
from tests.on_kubernetes.rig import KUBECONFIG
from tests.processes import Daemon
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_prometheus]
QUIET_S = 12.0
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
    daemon = Daemon(
        tmp_path / "log",
        KUBECONFIG=KUBECONFIG or str(kubeconfig),
        KAISCHED_CLUSTER="kubernetes",
        KAISCHED_KUBERNETES__NAMESPACE="default",
        KAISCHED_SCHEDULE_PERIOD="200ms",
        KAISCHED_LEADER_ELECTION__ENABLED="false",
        KAISCHED_METRICS__PORT=prometheus.target.rpartition(":")[2],
        KAISCHED_HEALTH__PORT="0",
        KAISCHED_LOG__FORMAT="json",
        KAISCHED_SHARDS=str(shard),
    )
    yield daemon.events
    daemon.end(60.0)


def placed(cluster, queue):
    return sum(name.startswith(queue) for name in cluster.placed())


def wait_fresh(log):
    until(
        lambda: (
            [it for it in log() if it["event"] == "usage_changed" and it["state"] == "fresh"]
            or time.sleep(0.2)
        ),
        60,
    )


def is_running(pod):
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


class Jobs:
    """Jobs of one pod, which end after their time; of each queue some always wait."""

    def __init__(self, cluster, backlog):
        self.cluster = cluster
        self.backlog = backlog
        """Queue to the GPUs of a job, the seconds that it runs, and how many wait."""
        self.names = {queue: [] for queue in backlog}
        self.ended = []
        self.ran_s = {}
        """Job to how long it has run."""
        self._worked_s = {}
        self._seen_s = time.monotonic()

    def step(self):
        """Count what has run since the last step, end what has run for its time, and add jobs."""
        time.sleep(0.1)
        pods, now_s = self.cluster.pods(), time.monotonic()
        passed_s, self._seen_s = now_s - self._seen_s, now_s
        for queue, (gpus, run_s, waiting) in self.backlog.items():
            names = self.names[queue]
            for name in names:
                if name in pods and is_running(pods[name]):
                    self._run(name, passed_s, run_s)
            begun = sum(name in self.ran_s or name not in pods for name in names)
            for number in range(len(names), begun + waiting):
                names.append(f"{queue}-{number}")
                self.cluster.pod(names[-1], queue, gpus)

    def _run(self, name, passed_s, run_s):
        self.ran_s[name] = self.ran_s.get(name, 0.0) + passed_s
        # A machine that stood still has done nothing, and nobody has seen it.
        self._worked_s[name] = self._worked_s.get(name, 0.0) + min(passed_s, 1.0)
        if self._worked_s[name] >= run_s:
            self.cluster.must(
                "PATCH",
                f"{self.cluster.pods_path}/{name}/status",
                {"status": {"phase": "Succeeded"}},
                STRATEGIC,
            )
            self.ended.append(name)

    def running(self):
        """Return how many jobs run, as the server has it."""
        return sum(is_running(pod) for pod in self.cluster.pods().values())

    def evicted(self):
        """Return the jobs that are gone or leave, as the server has it."""
        pods = self.cluster.pods()
        return [
            name
            for names in self.names.values()
            for name in names
            if name not in pods or "deletionTimestamp" in pods[name]["metadata"]
        ]


def test_who_has_had_all_gives_way_to_who_had_nothing(cluster, log):
    """By their weights each queue has a fair share of four GPUs. One has had all eight so far."""
    cluster.node("n0", 8)
    cluster.queue("a")
    cluster.queue("b")
    for number in range(12):
        cluster.pod(f"a{number}", "a")
    until(lambda: placed(cluster, "a") == 8, 60)
    wait_fresh(log)
    time.sleep(5.0)  # a history of some seconds
    for number in range(12):
        cluster.pod(f"b{number}", "b")
    until(lambda: placed(cluster, "b") >= 6, 60)
    evicted = [line for line in log() if line["event"] == "pod_evicted"]
    assert {line["action"] for line in evicted} == {"reclaim"}
    assert all("/a" in line["pod"] for line in evicted)


def test_two_queues_of_whole_node_jobs_take_turns(cluster, log):
    """Shares are a GPU each, and every job needs both: who used less is next, no job is evicted."""
    cluster.node("n0", 2)
    cluster.queue("a")
    cluster.queue("b")
    wait_fresh(log)
    jobs = Jobs(cluster, {"a": (2, 3.0, 2), "b": (2, 3.0, 2)})
    until(lambda: jobs.step() or len(jobs.ended) >= 8, what="eight jobs")
    had = {"a": 0.0, "b": 0.0}
    for name in jobs.ended:
        had[name[0]] += 2 * jobs.ran_s[name]
    assert abs(had["a"] - had["b"]) <= 2 * max(jobs.ran_s.values()), jobs.ended
    assert jobs.evicted() == []


def test_a_burst_of_a_quiet_queue_ends(cluster, log):
    """A tenth of 10 GPUs is due to a queue, and twice that after it had nothing for 12 seconds.

    Its job of 2 GPUs evicts two others, and after some 4 seconds its share is one GPU again. What
    it is owed lasts for 12, so the job ends.
    """
    cluster.node("n0", 10)
    for name, weight in (("t", 9), ("q", 1)):
        cluster.queue(name, weight=weight)
    wait_fresh(log)
    jobs = Jobs(cluster, {"t": (1, 4.5, 10)})
    until(lambda: jobs.step() or jobs.running() == 10, what="a busy queue")
    quiet_until_s = time.monotonic() + QUIET_S
    until(lambda: jobs.step() or time.monotonic() >= quiet_until_s, what="a time of quiet")
    until(lambda: jobs.step() or jobs.running() == 10, what="a busy queue")
    assert jobs.evicted() == []
    asked_s = time.monotonic()
    cluster.pod("q-0", "q", 2)
    cluster.wait_placed("q-0")  # meanwhile nothing ends: only evictions make room
    evicted = jobs.evicted()
    assert len(evicted) == 2
    jobs.names["q"], jobs.backlog["q"] = ["q-0"], (2, 8.0, 0)
    until(lambda: jobs.step() or "q-0" in jobs.ended or jobs.evicted() != evicted)
    # On a machine that stood still for so long it may have had all that it was owed.
    assert jobs.evicted() == evicted or time.monotonic() - asked_s > QUIET_S
