"""A cluster for end-to-end tests: an API server, a kubelet stand-in, and daemons in this process.

The server is ours, unless KAISCHED_TEST_KUBECONFIG names a real one.
"""

import itertools
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from kaisched.clock import SystemClock
from kaisched.cluster.kubernetes.access import Access, find_access
from kaisched.cluster.kubernetes.client import STRATEGIC, Client
from kaisched.config.loading import load_settings
from kaisched.daemon.on_kubernetes import KubernetesDaemon
from kaisched.errors import ClusterUnavailable
from kaisched_apiserver import ApiServer
from tests import objects
from tests.waiting import PATIENCE_S, until

KUBECONFIG = os.environ.get("KAISCHED_TEST_KUBECONFIG", "")
POOL = "kai.scheduler/node-pool"
RUN = "scheduling.run.ai"
KINDS = (
    (RUN, "v2", "queues", "Queue", "Cluster"),
    (RUN, "v2alpha2", "podgroups", "PodGroup", "Namespaced"),
    ("kai.scheduler", "v1", "schedulingshards", "SchedulingShard", "Cluster"),
    ("kai.scheduler", "v1alpha1", "topologies", "Topology", "Cluster"),
)
_numbers = itertools.count()
DEFAULTS = {
    "schedulePeriod": "100ms",
    "leaderElection": {"enabled": False},
    "kubernetes": {"reportsPerSecond": 500, "namespace": "default"},
}


def elected(lease="90s", renew="60s"):
    """Return the settings of a daemon with a lease, which only tests about leaders need.

    The lease outlasts a machine that stands still for a while, unless the test is about its end.
    """
    times = {"leaseDuration": lease, "renewDeadline": renew, "retryPeriod": "200ms"}
    return {"leaderElection": {"enabled": True, **times}}


def definition(group, version, plural, kind, scope):
    """A definition that takes anything, with a status apart."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": anything, "status": anything},
                        }
                    },
                }
            ],
        },
    }


class Rig:
    """One cluster, and what tests do to it."""

    def __init__(self):
        self.server = None
        if KUBECONFIG:
            self.access = find_access(Path(KUBECONFIG))
        else:
            self.server = ApiServer().start()
            self.access = Access(self.server.url)
        self.client = Client(self.access, connections=8, timeout_s=PATIENCE_S)
        self.namespace = f"t{os.getpid()}-{next(_numbers)}"
        self.nodes = []
        self.queues = []
        self.daemons = []
        self.leave_s = 0.0
        """How long pods take to leave."""
        self._leaving = {}
        self._end = threading.Event()
        self._kubelet = threading.Thread(target=self._run_kubelet, daemon=True)
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for row in KINDS:
            self.ask(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(*row)
            )
        for group, version, plural, *_ in KINDS:
            until(lambda p=f"/apis/{group}/{version}/{plural}": self.ask("GET", p).is_done)

    def close(self):
        self.stop()
        self._end.set()
        if self._kubelet.is_alive():
            self._kubelet.join()
        if self.server is not None:
            self.server.stop()
            return
        self.ask("DELETE", f"{self.pods_path}?gracePeriodSeconds=0")
        for name in self.nodes:
            self.ask("DELETE", f"/api/v1/nodes/{name}")
        for name in self.queues:
            self.ask("DELETE", f"/apis/{RUN}/v2/queues/{name}")
        self.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")

    # -- requests --------------------------------------------------------------------------------

    def ask(self, method, path, body=None, content_type="application/json"):
        return self.client.call(method, path, body=body, content_type=content_type)

    def must(self, method, path, body=None, content_type="application/json"):
        answer = self.ask(method, path, body, content_type)
        assert answer.is_done, (method, path, answer.text())
        return msgspec.json.decode(answer.data)

    @property
    def pods_path(self):
        return f"/api/v1/namespaces/{self.namespace}/pods"

    # -- objects ---------------------------------------------------------------------------------

    def node(self, name, gpus=8, labels=None):
        self.nodes.append(name)
        self.must("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels or {}}})
        objects.make_ready(self.must, name, gpus)

    def queue(self, name, quota=0, parent="", **spec):
        self.queues.append(name)
        self.must("POST", objects.QUEUES, objects.queue(name, quota, parent, **spec))

    def group(self, name, queue, minimum, **spec):
        path = objects.groups_path(self.namespace)
        self.must("POST", path, objects.group(name, queue, minimum, **spec))

    def pod(self, name, queue, gpus=1, **spec):
        self.must("POST", self.pods_path, objects.pod(name, queue, gpus, **spec))

    def gang(self, name, queue, pods, *, minimum=None, gpus=1, labels=None, **spec):
        self.group(name, queue, pods if minimum is None else minimum, labels=labels, **spec)
        for number in range(pods):
            self.pod(f"{name}-{number}", queue, gpus, group=name, labels=labels)

    def delete_pod(self, name):
        self.must("DELETE", f"{self.pods_path}/{name}", {"gracePeriodSeconds": 0})

    # -- looking ---------------------------------------------------------------------------------

    def pods(self):
        answer = until(lambda: (got := self.ask("GET", self.pods_path)).is_done and got)
        found = msgspec.json.decode(answer.data)
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def placed(self):
        """Pod to node, of those that have one and are not leaving."""
        return {
            name: pod["spec"]["nodeName"]
            for name, pod in self.pods().items()
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        }

    def wait_placed(self, *names, seconds=PATIENCE_S):
        return until(
            lambda: set(names) <= self.placed().keys() and self.placed(),
            seconds,
            f"placing {names}",
        )

    def condition(self, name, type_="PodScheduled"):
        conditions = self.pods()[name]["status"].get("conditions", [])
        return next((it for it in conditions if it["type"] == type_), {})

    # -- running things --------------------------------------------------------------------------

    def start(self, shards=(), access=None, **settings):
        """Start a daemon in a thread of this process and return it once it leads."""
        merged = {}
        for source in (DEFAULTS, settings):
            for key, value in source.items():
                if isinstance(value, dict):
                    for inner, it in value.items():
                        merged[f"{key}.{inner}"] = ("a test", it)
                else:
                    merged[key] = ("a test", value)
        merged["cluster"] = ("a test", "kubernetes")
        if shards:
            merged["shards"] = ("a test", tuple(shards))
        settings = load_settings(flags=merged).settings
        client = Client(access or self.access, connections=40, timeout_s=PATIENCE_S)
        daemon = Running(KubernetesDaemon(settings, SystemClock(), client))
        self.daemons.append(daemon)
        return daemon

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()
        self.daemons.clear()

    def start_kubelet(self):
        """Let bound pods run, and pods that leave be gone."""
        self._kubelet.start()

    def _run_kubelet(self):
        client = Client(self.access, connections=2, timeout_s=PATIENCE_S)
        while not self._end.wait(0.03):
            with suppress(ClusterUnavailable):
                answer = client.call("GET", self.pods_path)
                if not answer.is_done:
                    continue
                for pod in msgspec.json.decode(answer.data)["items"]:
                    self._tend(client, pod)

    def _tend(self, client, pod):
        path = f"{self.pods_path}/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            since_s = self._leaving.setdefault(pod["metadata"]["uid"], time.monotonic())
            if time.monotonic() - since_s < self.leave_s:
                return
            client.call("DELETE", path, body={"gracePeriodSeconds": 0})
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            client.call(
                "PATCH",
                f"{path}/status",
                body={"status": {"phase": "Running"}},
                content_type=STRATEGIC,
            )


class Running:
    """A daemon in a thread."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.daemon.run()
        except Exception as error:  # noqa: BLE001 - the test asks for it
            self.error = error

    @property
    def has_ended(self):
        return not self._thread.is_alive()

    def wait_leading(self, seconds=PATIENCE_S):
        until(
            lambda: self.daemon.leaders and all(it.is_leading for it in self.daemon.leaders),
            seconds,
            "leading",
        )
        return self

    def stop(self):
        self.daemon.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
