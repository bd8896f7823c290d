"""What one process bears: ``python -m tests.benchmarks.scale [--nodes N] [--pods N] ...``.

Full nodes of 8 GPUs; all further pods wait. The pods are read from list pages, then turns of the
daemon are timed: in each of them some pods end and as many come, and reports go to a sink that
answers as a server would. ``--shards N`` does so with N clusters of that size, whose loops have a
thread each; a round is a turn of every shard. Prints one JSON document.
"""

import argparse
import itertools
import json
import resource
from concurrent.futures import ThreadPoolExecutor
from time import process_time, thread_time
from typing import Any

import msgspec
import numpy as np

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS
from kaisched.cluster.kubernetes.write_queue import ReportQueue
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


class Shard:
    """A loaded cluster with the daemon's loop and reporter on it."""

    def __init__(self, nodes: int, pods: int, queues: int) -> None:
        self.cluster = Cluster(nodes, pods, queues)
        self.now_s = 0.0
        report_queue, clock = ReportQueue(WEIGHTS, now=lambda: self.now_s), ManualClock(1.77e9)
        self.reporter = Reporter(Server(), report_queue, clock, self.cluster.store)
        self.loop = Loop(
            self.cluster,
            self.cluster,
            default_policy(),
            clock,
            CycleCollector(),
            period_s=1.0,
            after=lambda turn: self.reporter.after(turn.snapshot, turn.result),
        )

    def churn(self, changes: int) -> None:
        """Send the reports of the last turn, then let a second pass in which pods come and go."""
        for _ in range(PER_SECOND):
            self.reporter.step()
        self.now_s += 1.0
        self.cluster.churn(changes)

    def cycle(self) -> float:
        """Take what has changed and a turn; return seconds of processor time."""
        start_s = thread_time()
        for change in self.cluster.changes:
            self.reporter.handle(change)
        expect(self.loop.cycle(), "a turn failed")
        self.cluster.changes.clear()
        garbage.tend()  # as the loop's own thread does after each turn
        return thread_time() - start_s


def measure(
    nodes: int, pods: int, queues: int, turns: int, changes: int, shards: int
) -> dict[str, Any]:
    """Load clusters and take turns on all of them, each in its thread; return the figures."""
    garbage.begin()
    with pauses() as while_loading:
        loaded = [Shard(nodes, pods, queues) for _ in range(shards)]
        garbage.settle()
    loaded_mib = peak_mib()
    rounds, each = [], []
    with pauses() as in_turns, ThreadPoolExecutor(shards) as threads:
        for _ in range(turns):
            for shard in loaded:
                shard.churn(changes)
            start_s = process_time()
            each.append(list(threads.map(Shard.turn, loaded)))
            rounds.append(process_time() - start_s)
    return {
        "nodes": nodes,
        "pods": pods,
        "queues": queues,
        "changes": changes,
        "shards": shards,
        "load_s": sum(shard.cluster.load_s for shard in loaded),
        "loaded_mib": loaded_mib,
        "peak_mib": peak_mib(),
        "first_round_s": rounds[0],
        "turn_s": float(np.median(each[2:])),
        "most_turn_s": float(np.max(each[2:])),
        "round_s": float(np.median(rounds[2:])),
        "most_round_s": max(rounds[2:]),
        "longest_search_loading_s": max(while_loading),
        "longest_search_s": max(in_turns, default=0.0),
        "calibration_us": 1e6 * calibrate(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--pods", type=int, default=500_000)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--shards", type=int, default=1)
    with without_logs():
        print(json.dumps(measure(**vars(parser.parse_args())), indent=1))


if __name__ == "__main__":
    main()
