"""B16: how late is a renewal of the lease, while the process that leads is as busy as can be?

A time is that of one renewal, from when it was due until the API server, a process of its own, has
answered. Renewals come fifty times as often as in earnest.
"""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import process_time, sleep
from typing import Any

import msgspec
import numpy as np
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.leader_election import LeaseTimes
from kaisched.cluster.kubernetes.lease_process import LeaseProcess
from kaisched.cluster.kubernetes.resources import PODS
from tests.benchmarks.b2 import make_store
from tests.benchmarks.harness import Daemon, Measured, Watch, calibrate, expect
from tests.on_kubernetes.bench_cluster import cluster_of

_RETRY_S = 0.04
_RENEW_S = 60.0
"""A renewal that is later is no number any more; nothing shorter, or a machine that stood still for
ten seconds would end the measurement in place of showing in it."""
_AT_A_TIME = 34
"""Renewals that a repetition stands for."""


def _pod(number: int) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    return {
        "metadata": {
            "name": f"p{number:06}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "labels": {"kai.scheduler/queue": f"q{number % 1000:04}", "app": "train"},
            "annotations": {"pod-group-name": f"w{number // 5:05}"},
            "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {"f:containers": {}}}}] * 2,
        },
        "spec": {
            "schedulerName": "kaisched",
            "nodeName": f"n{number % 5000:05}",
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "env": [{"name": f"E{at}", "value": "v" * 20} for at in range(8)],
                    "resources": {"limits": amounts, "requests": amounts},
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pages(pods: int, size: int) -> Iterator[bytes]:
    for first in range(0, pods, size):
        items = [_pod(number) for number in range(first, min(first + size, pods))]
        yield msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})


def _lists(pods: int, size: int) -> Callable[[], object]:
    """Return what reads a whole list and keeps it until the next one is there."""
    pages, known = list(_pages(pods, size)), []

    def read() -> None:
        listed = [obj for page in pages for obj in PODS.read_list(page).objects]
        expect(len(listed) == pods, "pods are missing")
        known[:] = listed

    return read


def _cycles(backlog: dict[str, int]) -> Callable[[], object]:
    daemon = Daemon(make_store(**backlog))
    return lambda: len(daemon.cold_cycle(Watch()).binds)


@contextmanager
def _busy(calls: list[Callable[[], object]], burners: int) -> Iterator[list[int]]:
    """Call each again and again, in a thread for each; yield how often each was called."""
    end, times = threading.Event(), [0] * len(calls)

    def repeat(at: int) -> None:
        while not end.is_set():
            calls[at]()
            times[at] += 1

    threads = [threading.Thread(target=repeat, args=(at,)) for at in range(len(calls))]
    line = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(line) for _ in range(burners)]
    try:
        for thread in threads:
            thread.start()
        yield times
    finally:
        end.set()
        for other in others:
            other.kill()
            other.wait()
        for thread in threads:
            thread.join()


def renewals(
    repeat: int, *, backlog: dict[str, int], pods: int, page: int, burners: int
) -> Measured:
    calls = [_cycles(backlog)] if backlog else []
    calls += [_lists(pods, page)] if pods else []
    gc.collect()
    gc.freeze()  # as the daemon does once it knows the cluster
    late: list[float] = []
    lost: list[str] = []
    with cluster_of(0) as cluster, capture_logs() as said:
        leases = LeaseProcess(
            cluster.client,
            namespace="kaisched",
            identity="b16",
            times=LeaseTimes(1.5 * _RENEW_S, _RENEW_S, _RETRY_S),
        )
        leases.start()
        won = threading.Event()
        candidate = leases.candidate(
            "kaisched-b16", on_won=won.set, on_lost=lost.append, on_renewed=late.append
        )
        candidate.start()
        expect(won.wait(120), "the lease was not taken")
        with _busy(calls, burners) as times:
            cpu_s = process_time()
            while not lost and (len(late) < repeat * _AT_A_TIME or not all(times)):
                sleep(0.05)
            cpu_s = process_time() - cpu_s
        candidate.stop()
        with suppress(OSError):
            leases.close()
    expect(not lost, f"{''.join(lost)}: {said[-5:]}")
    watch = Watch(late, [cpu_s / len(late)], [calibrate()])
    detail = {
        "renewals": len(late),
        "calls": times,
        "p999_s": float(np.percentile(late, 99.9, method="higher")),
        "most_s": max(late),
    }
    return Measured(watch, detail)
