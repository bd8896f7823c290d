"""What the benchmark runs on: an API server with kubelets, and the daemon, each in a process."""

import multiprocessing
import time
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice

import msgspec

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.objects.labels import RUN_SECONDS
from kaisched_apiserver import ApiServer
from kaisched_apiserver.kubelets import Kubelets
from kaisched_apiserver.playground import add_kai_kinds, add_namespace, add_nodes, kubeconfig_of
from kaisched_apiserver.requests import request_of
from kaisched_apiserver.storage import encode
from tests import objects
from tests.on_kubernetes.attacks import ATTACKS
from tests.on_kubernetes.attacks import NAMESPACE as HOSTILE
from tests.processes import ANY_PORTS, Daemon

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_GAP_S, _LIFE_S = 0.1, 3
"""Between two pods of a course, and how long each of them runs."""
_PATIENCE_S = 15.0
_GLANCE_S = 0.005
_AT_ONCE = 20


def _course(server, pods, prefix, queues, count):
    """Create pods one after the other and return how long each waited for its node.

    All is done and seen in the server's process: what is measured is the daemon. A pod that has
    no node when all patience is over has waited until then.
    """
    waits, born = [], {}

    def glance():
        now_s = time.monotonic()
        done = [
            name for name in born if pods.records[f"{NAMESPACE}/{name}"].fields["spec.nodeName"]
        ]
        waits.extend(now_s - born.pop(name) for name in done)

    def create(name, queue):
        pod = objects.pod(name, queue)
        pod["metadata"]["namespace"] = NAMESPACE
        pod["metadata"]["annotations"][RUN_SECONDS] = str(_LIFE_S)
        born[name] = time.monotonic()
        server.api.create("", "pods", pod)

    begin_s = time.monotonic()
    number, end_s = 0, begin_s + count * _GAP_S + _PATIENCE_S
    while time.monotonic() < end_s and (number < count or born):
        if number < count and time.monotonic() >= begin_s + number * _GAP_S:
            name, queue = f"{prefix}{number}", queues[number % len(queues)]
            server.call(lambda n=name, q=queue: create(n, q))
            number += 1
        server.call(glance)
        time.sleep(_GLANCE_S)
    now_s = time.monotonic()
    return [*waits, *(now_s - born_s for born_s in born.values())], len(born)


def _serve(pipe, nodes):
    """Serve until told to end; between requests, say how many pods there are, or make some."""
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_namespace(server, NAMESPACE)
        add_namespace(server, HOSTILE)
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
                pod = objects.pod(name, queues[number % len(queues)])
                pod["metadata"]["namespace"] = NAMESPACE
                server.api.create("", "pods", pod)

        attacks = {}

        def attack(name):
            """Create the next objects of an attack, and return how many these were."""
            created = 0
            for path, obj in islice(attacks.setdefault(name, ATTACKS[name]()), _AT_ONCE):
                request = request_of("POST", path, encode(obj), "application/json", "", "")
                answer = server.api.answer(request)
                assert answer.status == HTTPStatus.CREATED, answer.body
                created += 1
            return created

        done = {"bound": bound, "make": make, "attack": attack}
        pipe.send(server.url)
        while (request := pipe.recv()) is not None:
            what, *words = request
            if what == "course":
                pipe.send(_course(server, pods, *words))
                continue
            pipe.send(server.call(lambda w=what, v=words: done[w](*v)))


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

    def attack(self, name):
        """Create the objects of an attack, a few at a time so that others are served between."""
        count, created = 0, -1
        while created:
            self._pipe.send(("attack", name))
            created = self._pipe.recv()
            count += created
        return count

    def course(self, prefix, queues, count):
        """Return the seconds that pods waited for a node, and how many got none."""
        self._pipe.send(("course", prefix, queues, count))
        return self._pipe.recv()

    def uids(self):
        """Name to UID of all pods."""
        answer = self.client.call("GET", PODS)
        items = msgspec.json.decode(answer.data)["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def must(self, method, path, body):
        answer = self.client.call(method, path, body=body)
        assert answer.is_done, answer.text()

    def queue(self, name, quota, parent=""):
        self.must("POST", objects.QUEUES, objects.queue(name, quota, parent))

    def group(self, name, queue, minimum):
        self.must("POST", objects.groups_path(NAMESPACE), objects.group(name, queue, minimum))


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


@contextmanager
def daemon_on(cluster, folder):
    """``kaisched run`` on a cluster, with default settings as it is deployed."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(cluster.url), encoding="utf-8")
    words = ("--cluster", "kubernetes", *ANY_PORTS)
    daemon = Daemon(folder / "log", *words, KUBECONFIG=str(kubeconfig))
    try:
        yield daemon
    finally:
        daemon.end()
