"""What a daemon does first: it loads a large cluster, and it reclaims for the first time.

Each page of a list is decoded, its pods become rows of the store, and a snapshot ends it. Searches
for garbage are part of it; the longest is reported, of loading and of turns.
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

import msgspec

from kaisched.cluster.kubernetes.resources import ALL
from kaisched.cluster.store import StateStore
from kaisched.daemon import garbage
from kaisched.daemon.loop import Loop
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue
from tests.benchmarks.full import STARVED, add, make_full
from tests.benchmarks.harness import GPUS_OF_NODE, Daemon, Measured, Watch, calibrate, expect

PAGE = 500
_PODS = next(each for each in ALL if each.plural == "pods")


@contextmanager
def pauses() -> Iterator[list[float]]:
    """Collect how long each search for garbage takes, in seconds of its own thread."""
    found: list[float] = []

    def note(phase: str, info: dict[str, int]) -> None:
        del info
        found.append(-thread_time()) if phase == "start" else found.append(
            found.pop() + thread_time()
        )

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


def pod_of(at: int, queues: int, *, waits: bool = False) -> dict[str, Any]:
    """Return a pod of one GPU, that runs on its node or waits."""
    request = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    node = at // GPUS_OF_NODE
    return {
        "metadata": {
            "name": f"job-{at:06}-0",
            "namespace": "team",
            "uid": f"{at:032x}",
            "resourceVersion": str(at + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "kai.scheduler/queue": f"q{at % queues:03}",
                "kai.scheduler/preemptibility": "non-preemptible",
            },
        },
        "spec": {
            "schedulerName": "kaisched",
            "nodeName": "" if waits else f"n{node:05}",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/training:1",
                    "resources": {"limits": request, "requests": request},
                }
            ],
        },
        "status": {"phase": "Pending"}
        if waits
        else {
            "phase": "Running",
            "startTime": "2026-01-01T00:01:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        },
    }


def pages(pods: int, queues: int, running: int | None = None) -> Iterator[bytes]:
    """Yield the pages of a list of pods, of which the first run: by default all."""
    running = pods if running is None else running
    for first in range(0, pods, PAGE):
        rows = range(first, min(first + PAGE, pods))
        items = [pod_of(at, queues, waits=at >= running) for at in rows]
        yield msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})


def furnish(store: StateStore, nodes: int, queues: int) -> None:
    """Add empty nodes and queues."""
    for at in range(queues):
        meta = {"name": f"q{at:03}", "uid": f"q{at:03}"}
        spec = {"resources": {"gpu": {"quota": -1}}}
        store.upsert_queue(msgspec.convert({"metadata": meta, "spec": spec}, Queue))
    amounts = {"cpu": "256", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    for at in range(nodes):
        store.upsert_node(
            msgspec.convert({"metadata": {"name": f"n{at:05}"}, "status": status}, Node)
        )


def take_in(store: StateStore, listed: Iterable[bytes]) -> None:
    """Read pages of pods into a store, as the daemon does."""
    for page in listed:
        for pod in _PODS.read_list(page).objects:
            assert isinstance(pod, Pod)
            store.upsert_pod(pod)
        garbage.tend()


def load(repeat: int, *, pods: int, queues: int) -> Measured:
    """Time reading so many pods into a new store, up to its first snapshot."""
    watch, listed = Watch(), list(pages(pods, queues))
    longest = []

    def read() -> StateStore:
        store = StateStore()
        furnish(store, -(-pods // GPUS_OF_NODE), queues)
        take_in(store, listed)
        store.snapshot()
        garbage.settle()
        return store

    for _ in range(repeat):
        gc.unfreeze()
        garbage.begin()
        with pauses() as found:
            store = watch.time(read)
        longest.append(max(found, default=0.0))
        expect(len(store.snapshot().jobs.name) == pods, "pods are missing")
        del store
    cpu = watch.summary()["cpu_s"]
    return Measured(watch, {"pod_us": 1e6 * cpu / pods, "collection_s": max(longest)})


def first_reclaim(repeat: int, *, nodes: int) -> Measured:
    """Time the first cycle of a process that reclaims; count what it imports."""
    expect(Loop, "the daemon is not imported")
    calibrate()  # it imports what a daemon does not
    store = make_full(nodes)
    for at in range(2 * nodes):
        add(store, f"w{at:05}", STARVED, 1, 1)
    daemon, first, watch = Daemon(store), Watch(), Watch()
    before = set(sys.modules)
    daemon.cold_cycle(first)
    late = sorted(set(sys.modules) - before)
    for _ in range(repeat):
        daemon.cold_cycle(watch)
    detail = {"first_s": first.cpu[0], "late_imports": len(late), "late": late}
    return Measured(watch, detail)
