"""What one process bears: ``python -m tests.benchmarks.scale [--nodes N] [--pods N] ...``.

Full nodes of 8 GPUs; all further pods wait. The pods are read from list pages, then turns of the
daemon are timed: in each of them some pods end and as many come, and reports go to a sink that
answers as a server would. Prints one JSON document.
"""

import argparse
import itertools
import json
import resource
from time import process_time
from typing import Any

import msgspec
import numpy as np

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.desired_reports import WEIGHTS
from kaisched.cluster.kubernetes.report_box import ReportBox
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.daemon import garbage
from kaisched.daemon.loop import Loop
from kaisched.engine.policy import default_policy
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.objects.pod import Pod
from kaisched.telemetry.metrics import CycleCollector
from tests.benchmarks.b14 import PER_SECOND, Server, without_logs
from tests.benchmarks.harness import GPUS_OF_NODE, calibrate, expect
from tests.benchmarks.loading import furnish, pages, pauses, pod_of, take_in


class Cluster:
    """A store that was read from list pages; what is decided is there at once."""

    def __init__(self, nodes: int, pods: int, queues: int) -> None:
        self.store, self.queues = StateStore(), queues
        self.changes: list[Change] = []
        self._numbers = itertools.count(pods)
        running = nodes * GPUS_OF_NODE
        self._ending = iter(range(running))
        furnish(self.store, nodes, queues)
        listed = pages(pods, queues, running)
        self.load_s = 0.0
        for page in listed:  # only reading is timed, not making the pages
            start_s = process_time()
            take_in(self.store, [page])
            self.load_s += process_time() - start_s

    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    def apply(self, binds: list[Bind], evictions: list[Evict], nominations: list[Nominate]) -> None:
        del nominations
        expect(not evictions, "a pod was evicted")
        for bind in binds:
            at = int(bind.pod.split("-")[1])
            told = pod_of(at, self.queues)
            told["spec"]["nodeName"] = bind.node
            self._change(told)

    def churn(self, count: int) -> None:
        """Let some pods end and as many come."""
        for at in itertools.islice(self._ending, count):
            pod = msgspec.convert(pod_of(at, self.queues), Pod)
            self.store.remove_pod(pod.key)
            self.changes.append(Change(pod, is_gone=True))
        for at in itertools.islice(self._numbers, count):
            self._change(pod_of(at, self.queues, waits=True))

    def _change(self, told: dict[str, Any]) -> None:
        pod = msgspec.convert(told, Pod)
        self.store.upsert_pod(pod)
        self.changes.append(Change(pod))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(nodes: int, pods: int, queues: int, turns: int, changes: int) -> dict[str, Any]:
    """Load a cluster and take turns on it; return the figures."""
    garbage.begin()
    with pauses() as while_loading:
        cluster = Cluster(nodes, pods, queues)
        garbage.settle()
    loaded_mib = peak_mib()
    now_s = 0.0
    box, clock = ReportBox(WEIGHTS, now=lambda: now_s), ManualClock(1.77e9)
    reporter = Reporter(Server(), box, clock, cluster.store)
    loop = Loop(
        cluster, cluster, default_policy(), clock, CycleCollector(),
        period_s=1.0, after=lambda turn: reporter.after(turn.snapshot, turn.result),
    )  # fmt: skip
    cpu = []
    with pauses() as in_turns:
        for _ in range(turns):
            now_s += 1.0
            cluster.churn(changes)
            start_s = process_time()
            for change in cluster.changes:
                reporter.tell(change)
            expect(loop.turn(), "a turn failed")
            garbage.tend()
            cpu.append(process_time() - start_s)
            cluster.changes.clear()
            for _ in range(PER_SECOND):
                reporter.step()
    return {
        "nodes": nodes, "pods": pods, "queues": queues, "changes": changes,
        "load_s": cluster.load_s, "loaded_mib": loaded_mib, "peak_mib": peak_mib(),
        "first_turn_s": cpu[0], "turn_s": float(np.median(cpu[2:])), "p99_turn_s": max(cpu[2:]),
        "longest_search_loading_s": max(while_loading),
        "longest_search_s": max(in_turns, default=0.0),
        "calibration_us": 1e6 * calibrate(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--pods", type=int, default=500_000)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--changes", type=int, default=100)
    with without_logs():
        print(json.dumps(measure(**vars(parser.parse_args())), indent=1))


if __name__ == "__main__":
    main()
