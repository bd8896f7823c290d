"""What the benchmark runs on: an API server with kubelets, and the daemon, each in a process."""

import multiprocessing
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kaisched.cluster.embedded.apiserver import ApiServer
from kaisched.cluster.embedded.apiserver.furnish import (
    add_kai_kinds,
    add_namespace,
    add_nodes,
    kubeconfig_of,
)
from kaisched.cluster.embedded.apiserver.kubelets import Kubelets
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from tests.on_kubernetes.rig import RUN

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TICKS = os.sysconf("SC_CLK_TCK")


def pod_of(name, queue, group=""):
    """A pod of one GPU."""
    container = {"name": "main", "image": "none"}
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "metadata": {
            "name": name,
            "labels": {"kai.scheduler/queue": queue},
            "annotations": {"pod-group-name": group} if group else {},
        },
        "spec": {"schedulerName": "kaisched", "containers": [container]},
    }


def _serve(pipe, nodes):
    """Serve until told to end; between requests, say how many pods there are, or make some."""
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_namespace(server, NAMESPACE)
        Kubelets(server, start_delay_s=0.0, stop_delay_s=0.0)
        add_nodes(server, nodes, 8)
        pods = server.api.storage.collection(("", "pods"))

        def bound(prefix):
            """How many pods have a node, of those whose name begins so."""
            return sum(
                bool(it.fields["spec.nodeName"])
                for it in pods.records.values()
                if it.name.startswith(prefix)
            )

        def make(names, queues):
            for number, name in enumerate(names):
                pod = pod_of(name, queues[number % len(queues)])
                pod["metadata"]["namespace"] = NAMESPACE
                server.api.create("", "pods", pod)

        pipe.send(server.url)
        while (request := pipe.recv()) is not None:
            what, *words = request
            pipe.send(server.call(lambda w=what, v=words: {"bound": bound, "make": make}[w](*v)))


class Cluster:
    """The server, as the benchmark sees it."""

    def __init__(self, pipe):
        self._pipe = pipe
        self.url = pipe.recv()
        self.client = Client(Access(self.url), connections=8, timeout_s=30.0)

    def bound(self, prefix):
        self._pipe.send(("bound", prefix))
        return self._pipe.recv()

    def make(self, names, queues):
        """Create pods in the server, without HTTP: for those that are not what is timed."""
        self._pipe.send(("make", names, queues))
        self._pipe.recv()

    def uids(self):
        """Name to UID of all pods."""
        answer = self.client.call("GET", PODS)
        items = msgspec.json.decode(answer.data)["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def must(self, method, path, body):
        answer = self.client.call(method, path, body=body)
        assert answer.is_done, answer.text()

    def queue(self, name, quota, parent=""):
        resources = {"gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1}}
        self.must(
            "POST",
            f"/apis/{RUN}/v2/queues",
            {
                "apiVersion": f"{RUN}/v2",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"parentQueue": parent, "resources": resources},
            },
        )

    def group(self, name, queue, minimum):
        self.must(
            "POST",
            f"/apis/{RUN}/v2alpha2/namespaces/{NAMESPACE}/podgroups",
            {
                "apiVersion": f"{RUN}/v2alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": {"queue": queue, "minMember": minimum},
            },
        )


@contextmanager
def cluster_of(nodes):
    """A cluster of empty nodes with eight GPUs each."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, nodes))
    process.start()
    try:
        yield Cluster(here)
    finally:
        here.send(None)
        process.join()


class Process:
    """The daemon as it is deployed: ``kaisched run`` with default settings."""

    def __init__(self, process, log):
        self._process, self.log = process, log

    def said(self, event):
        assert self._process.poll() is None, self.log.read_text(encoding="utf-8")[-2000:]
        return f'"event": "{event}"' in self.log.read_text(encoding="utf-8")

    @property
    def cpu_s(self):
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8")
        user, system = fields.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS

    @property
    def peak_mb(self):
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def daemon_on(cluster, folder):
    """``kaisched run`` on a cluster."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    kubeconfig.write_text(kubeconfig_of(cluster.url), encoding="utf-8")
    line = ["run", "--cluster", "kubernetes", "--metrics-port", "0", "--health-port", "0"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KAISCHED_")}
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "kaisched", *line, "--log-format", "json"],
            env={**environment, "KUBECONFIG": str(kubeconfig)},
            stderr=stderr,
        )
    try:
        yield Process(process, log)
    finally:
        process.terminate()
        process.wait(30)
