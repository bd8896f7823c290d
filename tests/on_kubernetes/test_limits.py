"""Limits hold at every revision of the API, however slowly victims are evicted and leave."""

import threading

import pytest

from kaisched.cluster.kubernetes.client import MERGE, Client
from kaisched_apiserver import Fault
from tests.chaos.checker import Checker
from tests.chaos.watching import KINDS, Sorter, Stream
from tests.on_kubernetes.rig import KUBECONFIG
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,  # evictions are held up for tenths of a second, and pods take their time
    pytest.mark.proportion,
    *([pytest.mark.real] if KUBECONFIG else []),
]
SIZE = 120 if KUBECONFIG else 24
"""The GPUs of the limit where many pods have one each; it is a multiple of 8."""
WATCHED = ("pods", "queues")
LOW, HIGH = "train", "build-preemptible"


class Watch:
    """All that the API says of pods and queues, in order, judged in the end."""

    def __init__(self, rig):
        self._sorter, self._end = Sorter(), threading.Event()
        client = Client(rig.access, connections=len(WATCHED) + 1, timeout_s=60.0)
        self._streams = [
            Stream(client, kind, self._sorter.put, self._end, KINDS).start() for kind in WATCHED
        ]
        until(lambda: all(it.is_up for it in self._streams))

    def breaches(self, rig):
        """Return what is wrong up to now: up to a change of a pod that is made for it."""
        path = f"{rig.pods_path}/{next(iter(rig.placed()))}"
        changed = rig.must("PATCH", path, {"metadata": {"labels": {"seen": "yes"}}}, MERGE)
        version = int(changed["metadata"]["resourceVersion"])
        pods = next(it for it in self._streams if it.kind == "pods")
        until(lambda: pods.version >= version)
        self._end.set()
        checker = Checker()
        checker.take(self._sorter.ready(float("inf")))
        assert checker.cluster.queues
        assert checker.cluster.pods
        return [f"{it.subject}: {it.text}" for it in checker.breaches]


@pytest.fixture
def cluster(rig):
    """Nodes for twice what the limits allow; a pod takes half a second to leave."""
    for number in range(2 * SIZE // 8):
        rig.node(f"n{number}")
    for name, value in ((LOW, 50), (HIGH, 75)):
        made = {"metadata": {"name": name}, "value": value}
        rig.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
    if rig.server is not None:
        rig.server.faults.add(Fault(subresource="eviction", delay_s=0.2, times=None))
    rig.leave_s, rig.watch = 0.5, Watch(rig)
    rig.start_kubelet()
    return rig


def fill(rig, count, queue):
    """Let so many pods of one GPU run in a queue, on all nodes alike."""
    for number in range(count):
        node = rig.nodes[number % len(rig.nodes)]
        rig.pod(f"{queue}-{number}", queue, priorityClassName=LOW, nodeName=node)
    until(lambda: all(pod["status"]["phase"] == "Running" for pod in rig.pods().values()))


def placed(rig, count, queue, priority=LOW):
    """Ask for so many pods of one GPU, and wait until they are placed."""
    names = [f"{priority}-{number}" for number in range(count)]
    for name in names:
        rig.pod(name, queue, priorityClassName=priority)
    rig.wait_placed(*names)


def test_one_large_pod_takes_the_limit_of_its_parent(cluster):
    """Eight pods hold it all; whoever deserves it waits for them, though other nodes are idle."""
    cluster.node("idle")
    cluster.queue("top", 8, limit=8)
    cluster.queue("a", 0, "top")
    cluster.queue("b", 8, "top")
    fill(cluster, 8, "a")
    cluster.start().wait_leading()
    cluster.pod("large", "b", 8, priorityClassName=LOW)
    cluster.wait_placed("large")
    assert cluster.watch.breaches(cluster) == []
    assert set(cluster.placed()) == {"large"}


def test_single_pods_take_half_of_the_limit_of_their_parent(cluster):
    cluster.queue("top", SIZE, limit=SIZE)
    cluster.queue("a", 0, "top")
    cluster.queue("b", SIZE // 2, "top")
    fill(cluster, SIZE, "a")
    cluster.start().wait_leading()
    placed(cluster, SIZE // 2, "b")
    assert cluster.watch.breaches(cluster) == []
    assert len(cluster.placed()) == SIZE


def test_higher_priorities_take_half_of_the_limit_of_their_queue(cluster):
    cluster.queue("a", SIZE, limit=SIZE)
    fill(cluster, SIZE, "a")
    cluster.start().wait_leading()
    placed(cluster, SIZE // 2, "a", HIGH)
    assert cluster.watch.breaches(cluster) == []
    assert len(cluster.placed()) == SIZE


def test_a_queue_above_a_limit_that_was_lowered_is_told_and_nothing_more_starts(cluster):
    cluster.queue("a", 0, limit=8)
    fill(cluster, 4, "a")
    cluster.start().wait_leading()
    path = "/apis/scheduling.run.ai/v2/queues/a"
    lower = {"spec": {"resources": {"gpu": {"quota": 0, "limit": 3, "overQuotaWeight": 1}}}}
    cluster.must("PATCH", path, lower, MERGE)

    def told():
        conditions = cluster.must("GET", path).get("status", {}).get("conditions", [])
        return next((it for it in conditions if it["type"] == "OverLimit"), {})

    until(lambda: told().get("status") == "True")
    assert told()["message"].startswith("it holds gpu 4 of a limit of 3: nothing")
    cluster.pod("more", "a", priorityClassName=LOW)
    why = "queue a: gpu 4 held + 1 asked is over its limit of 3"
    until(lambda: cluster.condition("more").get("message", "").startswith(why))
    cluster.delete_pod("a-0")
    until(lambda: told().get("status") == "False")
    assert "more" not in cluster.placed()
