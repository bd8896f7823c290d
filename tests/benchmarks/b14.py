"""B14: the daemon's own turn with very many jobs waiting, reports and all.

The loop, the store and the reporter are those of the daemon; the API server is a sink that counts
what it is sent and answers as a server would. Nothing waits: time is the benchmark's own, a second
from turn to turn, and in each of them as many reports go out as are allowed a second. What is tried
for advice between turns is told apart.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import process_time
from typing import Any

import msgspec
import numpy as np
import structlog

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS
from kaisched.cluster.kubernetes.write_queue import ReportQueue
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.daemon import garbage
from kaisched.daemon.loop import Loop
from kaisched.engine.policy import default_policy
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.cycle import run_cycle
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.framework.memory import Memory
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.telemetry.metrics import CycleCollector
from kaisched.view.jobs import Wanted, jobs_document
from kaisched.view.paths import Part
from kaisched.view.publisher import Publisher
from kaisched.view.reading import ALL, Reading
from tests.benchmarks.harness import GPUS_OF_NODE, Measured, Watch, expect
from tests.benchmarks.loading import pauses

GANG, GANGS_OF = 4, 4
"""Every fourth job is a gang of so many pods, with a pod group."""
CHURN = 20
PER_SECOND = 100
_SIZES = [(gpus, 4 * gpus) for gpus in (1, 2, 4, 8)]


class Server:
    """Counts what it is sent, and answers with the object as it would be."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.version = 1

    def call(self, method: str, path: str, *, body: Any = None, content_type: str = "") -> Answer:
        del content_type
        self.sent["event" if method == "POST" else path.split("/")[-3]] += 1
        self.version += 1
        *_, where, plural, name, _ = ("", *path.split("/"))
        meta = {"name": name, "resourceVersion": str(self.version), "uid": name}
        if plural != "queues":
            meta["namespace"] = where
        told = {"metadata": meta, "spec": {}, "status": (body or {}).get("status", {})}
        return Answer(200, msgspec.json.encode(told))


class Cluster:
    """A store fed with objects; what is decided is there at once."""

    def __init__(self) -> None:
        self.store = StateStore()
        self.handle: Callable[[Change], None] = lambda _: None
        self.running: dict[str, Pod] = {}
        self.waiting: dict[str, Pod] = {}
        self._version = itertools.count(1)

    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    def apply(self, binds: list[Bind], evictions: list[Evict], nominations: list[Nominate]) -> None:
        del nominations
        expect(not evictions, "somebody was evicted")
        for bind in binds:
            self.run(self.waiting.pop(bind.pod), bind.node)

    def run(self, pod: Pod, node: str) -> None:
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        status = msgspec.structs.replace(pod.status, phase="Running")
        pod = msgspec.structs.replace(pod, spec=spec, status=status, metadata=self._next(pod))
        self.running[pod.key] = pod
        self.take_in(pod)

    def come(self, pod: Pod) -> None:
        self.waiting[pod.key] = pod
        self.take_in(pod)

    def take_in(self, pod: Pod) -> None:
        self.store.upsert_pod(pod)
        self.handle(Change(pod))

    def end(self, count: int) -> None:
        for key in list(itertools.islice(self.running, count)):
            pod = self.running.pop(key)
            self.store.remove_pod(key)
            self.handle(Change(pod, is_gone=True))

    def _next(self, pod: Pod) -> Any:
        return msgspec.structs.replace(pod.metadata, resource_version=str(next(self._version)))


def pod_of(name: str, queue: str, gpus: int, cpu: int, at: int, group: str = "") -> Pod:
    request = {"nvidia.com/gpu": str(gpus), "cpu": str(cpu), "memory": "4Gi"}
    told = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": f"2026-01-{1 + at // 86400:02}T{at // 3600 % 24:02}:00:00Z",
            "labels": {
                "kai.scheduler/queue": queue,
                "kai.scheduler/preemptibility": "non-preemptible",
            },
            "annotations": {"pod-group-name": group} if group else {},
        },
        "spec": {
            "schedulerName": "kaisched",
            "containers": [{"name": "main", "resources": {"limits": request, "requests": request}}],
        },
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(told, Pod)


class Bench:
    """A full cluster with jobs waiting, and the daemon's loop on it."""

    def __init__(self, nodes: int, queues: int, jobs: int) -> None:
        self.server, self.now_s = Server(), 0.0
        self.report_queue = ReportQueue(WEIGHTS, now=lambda: self.now_s)
        self.cluster, self.advice = Cluster(), StandingAdvice()
        clock = ManualClock(1.77e9)
        self.reporter = Reporter(
            self.server,
            self.report_queue,
            clock,
            self.cluster.store,  # type: ignore[arg-type]
            advice=self.advice,
        )
        self.cluster.handle = self.reporter.handle
        self.queues = [f"q{at:04}" for at in range(queues)]
        self.rng = np.random.default_rng(14)
        self.numbers = itertools.count()
        self.furnish(nodes)
        for _ in range(jobs):
            self.job()
        garbage.begin()  # as the daemon does
        self.tell_s: list[float] = []
        self.send_s: list[float] = []
        self.advise_s: list[float] = []
        self.turned: Any = None
        self.collector = CycleCollector()
        self.loop = Loop(
            self.cluster,
            self.cluster,
            default_policy(),
            clock,
            self.collector,
            period_s=1.0,
            after=self.report,
        )

    def furnish(self, nodes: int) -> None:
        store = self.cluster.store
        gpus = nodes * GPUS_OF_NODE
        for name in self.queues:
            quota = {"gpu": {"quota": -1}}
            told = {"metadata": {"name": name, "uid": name}, "spec": {"resources": quota}}
            queue = msgspec.convert(told, Queue)
            store.upsert_queue(queue)
            self.reporter.handle(Change(queue))
        amounts = {"cpu": "256", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
        for at in range(nodes):
            ready = [{"type": "Ready", "status": "True"}]
            told = {
                "metadata": {"name": f"n{at:04}"},
                "status": {"allocatable": amounts, "conditions": ready},
            }
            store.upsert_node(msgspec.convert(told, Node))
        for at in range(gpus):
            queue = self.queues[at % len(self.queues)]
            pod = pod_of(f"r{at:05}", queue, 1, 1, 0)
            self.cluster.run(pod, f"n{at // GPUS_OF_NODE:04}")

    def job(self, *, is_single: bool = False) -> None:
        """Let a job come: a pod by itself, or a gang with its group."""
        at = next(self.numbers)
        name, queue = f"w{at:05}", self.queues[int(self.rng.integers(len(self.queues)))]
        gpus, cpu = _SIZES[int(self.rng.integers(len(_SIZES)))]
        if at % GANGS_OF or is_single:
            self.cluster.come(pod_of(name, queue, gpus, cpu, at))
            return
        meta = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"}
        told = {
            "metadata": meta,
            "spec": {"queue": queue, "minMember": GANG, "preemptibility": "non-preemptible"},
        }
        group = msgspec.convert(told, PodGroup)
        self.cluster.store.upsert_pod_group(group)
        self.reporter.handle(Change(group))
        for member in range(GANG):
            self.cluster.come(pod_of(f"{name}-{member}", queue, gpus, cpu, at, name))

    def report(self, turn: Any) -> None:
        self.turned = turn
        start_s = process_time()
        self.reporter.after(turn.snapshot, turn.result)
        self.tell_s.append(process_time() - start_s)

    def churn(self) -> None:
        """Let a second pass, in which some pods end and as many come."""
        self.now_s += 1.0
        self.cluster.end(CHURN)
        for _ in range(CHURN):
            self.job(is_single=True)

    def cycle(self, watch: Watch) -> None:
        """End and add some pods, then time the turn and what is written until the next one."""
        self.churn()
        turn = watch.time(self.loop.cycle)
        garbage.tend()  # as the loop's own thread does after each turn
        expect(turn is not None and not turn.result.failures, "the turn failed")
        pending = self.collector.published.pending
        expect(sum(pending.values()) == len(turn.result.records), "not every job is counted")
        start_s = process_time()
        for _ in range(PER_SECOND):
            if not self.reporter.step():
                break
        self.send_s.append(process_time() - start_s)
        start_s = process_time()
        self.advice.find(turn.result)
        self.advise_s.append(process_time() - start_s)


@contextmanager
def without_logs() -> Iterator[None]:
    """Log nothing: a line for each turn is not what is timed."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


def turn(repeat: int, *, nodes: int, queues: int, jobs: int) -> Measured:
    """Time turns of a loop with jobs waiting; what is written in between is told apart."""
    first, watch = Watch(), Watch()
    with without_logs(), pauses() as found:
        bench = Bench(nodes, queues, jobs)
        bench.cycle(first)
        bench.cycle(first)
        found.clear()
        for _ in range(repeat):
            bench.cycle(watch)
    expect(bench.server.sent, "nothing was reported")
    cpu = sorted(watch.cpu)
    detail = {
        "first_s": first.cpu[0],
        "p99_cpu_s": cpu[math.ceil(0.99 * len(cpu)) - 1],
        "collection_s": max(found, default=0.0),
        "report_s": float(np.median(bench.tell_s[2:])),
        "send_s": float(np.median(bench.send_s[2:])),
        "advise_s": float(np.mean(bench.advise_s[2:])),
        "trials": bench.advice.trials,
        "advised": sum(bool(told.text) for told in bench.advice.told.values()),
        "sent": dict(sorted(bench.server.sent.items())),
    }
    return Measured(watch, detail)


def view(repeat: int, *, nodes: int, queues: int, jobs: int) -> Measured:
    """Time what taking the live view adds to such turns, and a page of it on the side."""
    watch, publisher = Watch(), Publisher("default")
    took_s: list[float] = []
    page_s: list[float] = []
    with without_logs():
        bench = Bench(nodes, queues, jobs)
        for number in range(2 + repeat):
            aside = Watch()
            bench.cycle(aside)
            take = partial(
                publisher.take, bench.turned.result, cycle=number, time_s=0.0, duration_s=0.0
            )
            (watch if number > 1 else Watch()).time(take)
            took_s.append(aside.cpu[0])
        for _ in range(3):
            start_s = process_time()
            reading = Reading(publisher.view)  # type: ignore[arg-type]
            document = jobs_document(reading, Wanted(part=Part(0, 100)), ALL, {})
            page_s.append(process_time() - start_s)
    waits = len(bench.turned.result.records)
    expect(sum(document["reasons"].values()) == waits, "the view lacks jobs that wait")
    part = float(np.median(watch.cpu)) / float(np.median(took_s[2:]))
    return Measured(watch, {"part_of_turn": part, "page_s": float(np.median(page_s))})


def allocate(repeat: int, *, nodes: int, queues: int, jobs: int) -> Measured:
    """Time the cycle of such turns with allocate alone."""
    first, watch = Watch(), Watch()
    policy, memory = default_policy(), Memory()
    policy = replace(policy, actions=tuple(it for it in policy.actions if it.name == "allocate"))
    with without_logs():
        bench = Bench(nodes, queues, jobs)
        for number in range(2 + repeat):
            bench.churn()
            snapshot = bench.cluster.snapshot()
            result, memory = (watch if number > 1 else first).time(
                partial(run_cycle, snapshot, None, policy, 1.77e9 + number, memory)
            )
            expect(len(result.binds), "nothing was placed")
            bench.cluster.apply(list(result.binds), [], [])
    return Measured(watch, {"first_s": first.cpu[0]})
