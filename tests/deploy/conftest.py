"""A daemon on an API server, and a Prometheus that scrapes it; all end with the tests."""

import json
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched_apiserver import ApiServer
from kaisched_apiserver.kubelets import Kubelets
from kaisched_apiserver.playground import add_kai_kinds, add_namespace, add_nodes, kubeconfig_of
from tests.contract.prometheus import Prometheus
from tests.deploy.manifests import DEPLOY, ROOT, documents
from tests.processes import ANY_PORTS, Daemon
from tests.waiting import PATIENCE_S, until

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {usageDBConfig: {clientType: memory, usageParams: {fetchInterval: 1s}}}
"""
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups",
    "Queue": "/apis/scheduling.run.ai/v2/queues",
}
ASTRAY = """
kind: Pod
apiVersion: v1
metadata: {name: astray, namespace: vision, labels: {kai.scheduler/queue: nobody}}
spec:
  schedulerName: kaisched
  containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
"""Its queue does not exist: one of the reasons that an alert asks for."""


def fill(server):
    """Two nodes and the example of two teams."""
    add_kai_kinds(server)
    for name in ("kaisched", "vision", "speech"):
        add_namespace(server, name)
    Kubelets(server, start_delay_s=0.0)
    add_nodes(server, 2, 8)
    client = Client(Access(server.url))
    example = (ROOT / "docs" / "examples" / "two-teams.yaml").read_text(encoding="utf-8")
    for obj in [*documents(example), *documents(ASTRAY)]:
        if obj["kind"] in PATHS:
            for container in obj["spec"].get("containers", ()):
                container.setdefault("image", "none")
            path = PATHS[obj["kind"]].format(obj["metadata"].get("namespace"))
            answer = client.call("POST", path, body=obj)
            assert answer.is_done, answer.text()


class Scraped(Daemon):
    """A daemon that has completed a cycle, and its metrics."""

    def __init__(self, folder, server):
        (folder / "kubeconfig").write_text(kubeconfig_of(server.url), encoding="utf-8")
        (folder / "shard.yaml").write_text(SHARD, encoding="utf-8")
        super().__init__(
            folder / "daemon.log",
            *("--cluster", "kubernetes", "--shard", folder / "shard.yaml", *ANY_PORTS),
            KUBECONFIG=str(folder / "kubeconfig"),
            KAISCHED_LEADER_ELECTION__LEASE_DURATION="90s",
            KAISCHED_LEADER_ELECTION__RENEW_DEADLINE="60s",
        )

    def start(self):
        until(lambda: self.said("cycle_completed"), what=f"a cycle, see {self.log},")
        self.port = self.ports()["/metrics"]

    def wait_for(self, text):
        """Scrape until it is there."""
        until(lambda: text in self.scrape())

    def scrape(self):
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as answer:
            return answer.read().decode()


class RuledPrometheus(Prometheus):
    """A server that scrapes the daemon and works out our rules, both every second."""

    def __init__(self, folder, target):
        super().__init__(folder)
        rules = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))
        for group in rules["groups"]:
            group["interval"] = "1s"
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [
                {"job_name": "kaisched", "static_configs": [{"targets": [target]}]},
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def query(self, expression):
        """The vector that an expression is; an error of Prometheus is one here."""
        words = urlencode({"query": expression})
        with urlopen(f"{self.url}/api/v1/query?{words}", timeout=PATIENCE_S) as answer:
            told = json.load(answer)
        assert told["status"] == "success"
        assert told["data"]["resultType"] == "vector"
        return told["data"]["result"]

    def wait_for(self, expression):
        until(lambda: self.query(expression), what=f"data for {expression}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with ApiServer() as server:
        fill(server)
        daemon = Scraped(tmp_path_factory.mktemp("daemon"), server)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.end()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, daemon):
    server = RuledPrometheus(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{daemon.port}")
    yield server.start()
    server.kill()
