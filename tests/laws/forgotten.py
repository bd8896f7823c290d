"""A leader and a standby of a shard in which everything goes in the end, and what they keep.

They are on the embedded API server, without wire, threads or real time.
"""

import gc
import sys
import types
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import msgspec
import structlog

from kaisched.cluster import rowstore
from kaisched.cluster.kubernetes import binder, cluster, evictor, pods
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS
from kaisched.cluster.kubernetes.write_queue import ReportQueue
from kaisched.cluster.store import StateStore
from kaisched.daemon.loop import Loop
from kaisched.engine.policy import default_policy
from kaisched.objects.pod import PersistentVolume, PersistentVolumeClaim, StorageClass
from kaisched.telemetry.metrics import CycleCollector
from tests import objects
from tests.laws.reported import GROUPS, MERGE, QUEUES, STRATEGIC, TEAM, Server

TIMED = (binder, cluster, evictor, pods)
STOPS = (types.ModuleType, type, types.FrameType, types.CodeType)
AMOUNTS = {"cpu": "256", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
READY = {
    "allocatable": AMOUNTS,
    "capacity": AMOUNTS,
    "conditions": [{"type": "Ready", "status": "True"}],
}


@contextmanager
def _without_logs():
    """Keep no lines: they name what is gone."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


class WriteQueue:
    """Keeps writes until they are sent, the lower rank first."""

    def __init__(self, clock_s):
        self._clock_s, self._due = clock_s, []

    def put(self, rank, work, delay_s=0.0):
        self._due.append((self._clock_s() + delay_s, rank, work))
        return True

    def send(self):
        while due := [it for it in self._due if it[0] <= self._clock_s()]:
            taken = min(due, key=lambda it: it[1])
            self._due.remove(taken)
            again_s = taken[2].send()
            if again_s is not None:
                self.put(taken[1], taken[2], again_s)


class Process:
    """What a process keeps of a shard."""

    def __init__(self, world):
        leadership, store = Leadership(), StateStore()
        leadership.renew(1e12, "us", 1, "kaisched-default")
        clock, server = world.server.api.clock, world
        self.write_queue = WriteQueue(lambda: world.now_s)
        self.report_queue = ReportQueue(WEIGHTS, now=lambda: world.now_s)
        self.cluster = KubernetesCluster(
            server, leadership, self.write_queue, clock, store, note=self._note
        )
        self.reporter = Reporter(
            server, self.report_queue, clock, store, counts=self.cluster.counts
        )
        self.collector = CycleCollector()
        self.loop = Loop(
            self.cluster,
            self.cluster,
            default_policy(),
            clock,
            self.collector,
            period_s=1.0,
            after=self._after,
        )
        self._world = world

    def _note(self, note):
        self.reporter.note(note)

    def _after(self, turn):
        self._world.between()
        self.cluster.remember(turn.memory.facts)
        self.reporter.after(turn.snapshot, turn.result)

    def handle(self, change):
        self.reporter.handle(change)
        self.cluster.handle(change)


class World:
    """Both, the server, and who makes and ends things."""

    def __init__(self):
        self.now_s, self.server = 1000.0, Server()
        self.stack = ExitStack()
        for module in TIMED:
            self.stack.enter_context(patch.object(module, "monotonic_s", lambda: self.now_s))
        self.stack.enter_context(patch.object(rowstore, "_SLACK", 2))
        self.stack.enter_context(_without_logs())
        self.leader, self.standby = Process(self), Process(self)
        self.between = lambda: None
        """What happens while a cycle is under way."""
        self.doomed = set()
        """Paths of objects that go as soon as something was written to them."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    # -- the server ------------------------------------------------------------------------------

    def call(self, method, path, *, body=None, content_type="application/json"):
        """Answer a request; of some objects the watch tells the end before the answer is there."""
        answer = self.server.call(method, path, body=body, content_type=content_type)
        owner = path.removesuffix("/status")
        if method == "PATCH" and answer.is_done and owner in self.doomed:
            self.doomed.discard(owner)
            self._delete(owner)
            self.deliver()
        return answer

    def deliver(self):
        while self.server.events:
            self.handle(self.server.events.popleft())

    def handle(self, change):
        self.leader.handle(change)
        self.standby.handle(change)

    def pass_time(self, seconds, step_s):
        """Let turns be taken, writes be sent, and kubelets do what they do."""
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            self.server.api.clock.sleep(step_s)
            self.deliver()
            assert self.leader.loop.cycle() is not None
            assert not self.leader.cluster.bad_news
            self.leader.write_queue.send()
            while self.leader.reporter.step():
                pass
            self.deliver()
            self.standby.cluster.catch_up()
            self._be_kubelets()

    def _be_kubelets(self):
        for pod in self.all("pods"):
            path = f"{TEAM}/pods/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                self._delete(path)
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                self._say(path, {"phase": "Running"})

    def _delete(self, path):
        answer = self.server.ask("DELETE", path, {"gracePeriodSeconds": 0})
        assert answer.is_done or answer.code == 404, answer.text()

    def _say(self, path, status):
        self.server.ask("PATCH", f"{path}/status", {"status": status}, STRATEGIC)

    def all(self, plural, group=""):
        records = self.server.api.storage.collection((group, plural)).records
        return [it.object() for it in list(records.values())]

    # -- what users make -------------------------------------------------------------------------

    def node(self, name):
        self.server.api.create("", "nodes", {"metadata": {"name": name}, "status": READY})
        self.server.must("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)

    def queue(self, name, quota):
        self.server.must("POST", QUEUES, objects.queue(name, quota))

    def group(self, name, queue, minimum):
        self.server.must("POST", GROUPS, objects.group(name, queue, minimum))

    def pod(self, name, queue, gpus, group="", **labels):
        labels["made-for"] = name
        pod = objects.pod(name, queue, gpus, group=group, labels=labels)
        self.server.must("POST", f"{TEAM}/pods", pod)

    def storage(self, tag, *, is_gone=False):
        claim = {
            "metadata": {"name": tag, "namespace": "team"},
            "spec": {"volumeName": tag, "storageClassName": tag},
        }
        made = (
            (PersistentVolumeClaim, claim),
            (PersistentVolume, {"metadata": {"name": tag}}),
            (StorageClass, {"metadata": {"name": tag}, "provisioner": tag}),
        )
        for type_, told in made:
            self.handle(Change(msgspec.convert(told, type_), is_gone=is_gone))

    def end(self, *, has_succeeded=()):
        """Let all pods go, and their groups."""
        for name in has_succeeded:
            self._say(f"{TEAM}/pods/{name}", {"phase": "Succeeded"})
        self.deliver()
        for pod in self.all("pods"):
            path = f"{TEAM}/pods/{pod['metadata']['name']}"
            self._delete(path)
        for group in self.all("podgroups", "scheduling.run.ai"):
            self._delete(f"{GROUPS}/{group['metadata']['name']}")

    def end_of(self, *queues, nodes=()):
        for name in queues:
            self._delete(f"{QUEUES}/{name}")
        for name in nodes:
            self._delete(f"/api/v1/nodes/{name}")

    # -- what is remembered ----------------------------------------------------------------------

    def reachable(self, *, with_modules):
        """Yield (object, how it is reached) of all that the processes, or our modules, keep."""
        roots = [(self.leader, "leader"), (self.standby, "standby")]
        for name, module in sys.modules.items() if with_modules else ():
            if name.partition(".")[0] in {"kaisched", "kaisched_plugins"}:
                roots += [(it, f"{name}.{key}") for key, it in vars(module).items()]
        seen = {id(self), id(self.server), id(self.server.api.clock)}
        return _walk(roots, seen)


def _walk(roots, seen):
    line = list(roots)
    while line:
        it, way = line.pop()
        if id(it) in seen or isinstance(it, STOPS):
            continue
        seen.add(id(it))
        yield it, way
        line += [(part, f"{way} > {type(it).__qualname__}") for part in _parts_of(it)]


def _parts_of(it):
    if isinstance(it, types.FunctionType):
        return [*(it.__closure__ or ()), *(it.__defaults__ or ())]
    if isinstance(it, dict):
        return [*it.keys(), *it.values()]
    return gc.get_referents(it)
