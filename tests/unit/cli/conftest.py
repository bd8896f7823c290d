"""A small cluster as manifests, and a command line in the same process."""

import pytest
import structlog

from kaisched.cli import live
from kaisched.cli.app import run_line
from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.engine.planning import plan, read_plan_input
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.view.publisher import Publisher

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


CROWD = (
    NODE % "n0"
    + NODE % "n1"
    + QUEUE % ("root", "", 16, -1)
    + QUEUE % ("a", "root", 4, 6)
    + QUEUE % ("b", "root", 8, -1)
    + POD % ("a-0", "a", "kaisched", 4)
    + POD % ("a-1", "a", "kaisched", 4)
    + POD % ("a-2", "a", "kaisched", 4)
    + POD % ("b-0", "b", "kaisched", 16)
)


@pytest.fixture(scope="module")
def live_files(tmp_path_factory):
    """A queue at its limit with two jobs that wait, and a job that fits nowhere."""
    file = tmp_path_factory.mktemp("crowd") / "crowd.yaml"
    file.write_text(CROWD, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def published(live_files):
    """The view of the cycle that `plan` runs on these files, as a loop would publish it."""
    result = plan(read_plan_input([str(live_files)], None)).cycles[0]
    advice = StandingAdvice()
    advice.find(result)
    publisher = Publisher("default", advice)
    publisher.inquiries.ring = lambda: publisher.inquiries.answer(result)
    publisher.take(result, cycle=7, time_s=1.7e9, duration_s=0.0125)
    return publisher


@pytest.fixture(scope="module")
def url(published):
    """The address of a server of that view."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    server = Server([view_listener(ViewListener(port=0), lambda: [published], None)])
    yield f"http://127.0.0.1:{server.port}"
    server.close()
    structlog.configure(**before)


@pytest.fixture
def rested(published, monkeypatch, tmp_path):
    """The loop has time for readers, and no other scheduler or cluster of this machine is asked."""
    published.inquiries._rests_until_s = 0.0
    monkeypatch.setattr(live, "NEAR", "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (live.VARIABLE, live.TOKEN, "KUBECONFIG", "KAISCHED_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
