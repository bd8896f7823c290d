"""The reporter and the loop's cycle on the embedded API server, without wire, threads or real time.

Watch events wait until they are delivered, binds may come late, and answers get lost: as told.
"""

from __future__ import annotations

import itertools
from collections import deque

import msgspec

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.client import JSON, MERGE, STRATEGIC, Answer
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS, why_waiting
from kaisched.cluster.kubernetes.statuses import GroupAmounts, matches, queue_statuses
from kaisched.cluster.kubernetes.write_queue import ReportQueue
from kaisched.cluster.store import StateStore, update
from kaisched.engine.policy import default_policy
from kaisched.errors import ClusterUnavailable
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.decode import decode_json
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched_apiserver.api import Api
from kaisched_apiserver.playground import kai_definitions
from kaisched_apiserver.requests import request_of
from tests import objects

TYPES = {"pods": Pod, "podgroups": PodGroup, "queues": Queue, "nodes": Node}
GROUP = "scheduling.run.ai"
RUN = f"/apis/{GROUP}"
TEAM = "/api/v1/namespaces/team"
QUEUES, GROUPS = f"{RUN}/v2/queues", f"{RUN}/v2alpha2/namespaces/team/podgroups"
NEVER, LOST, BUSY = "it never came", "the answer was lost", "the server is busy"


class Server:
    """The API server; ``trouble`` is what becomes of the next reports."""

    def __init__(self):
        self.api = Api(ManualClock(1.77e9))
        self.events, self.trouble, self.refused = deque(), deque(), 0
        for definition in kai_definitions():
            self.api.create("apiextensions.k8s.io", "customresourcedefinitions", definition)
        self.api.create("", "namespaces", {"metadata": {"name": "team"}})
        self.api.storage.listeners.append(self._heard)

    def _heard(self, collection, change):
        type_ = TYPES.get(collection.key[1])
        if type_ is not None and collection.key[0] != "scheduling.k8s.io":
            obj = decode_json(change.record.body, type_)
            self.events.append(Change(obj, is_gone=change.type == "DELETED"))

    def ask(self, method, path, body=None, content_type=JSON):
        data = msgspec.json.encode(body)
        answer = self.api.answer(request_of(method, path, data, content_type, "", ""))
        return Answer(answer.status, answer.body)

    def must(self, *request):
        answer = self.ask(*request)
        assert answer.is_done, (request, answer.text())
        return msgspec.json.decode(answer.data)

    def call(self, method, path, *, body=None, content_type=JSON):
        """Answer a report: trouble may come in between."""
        trouble = self.trouble.popleft() if self.trouble else ""
        if trouble == BUSY:
            return Answer(429, b"")
        if trouble == NEVER:
            raise ClusterUnavailable("no answer")
        answer = self.ask(method, path, body, content_type)
        self.refused += answer.code == 409
        if trouble == LOST:
            raise ClusterUnavailable("no answer")
        return answer


class Cluster:
    """The server, the store, cycles and the reporter, in a time of their own."""

    def __init__(self, nodes=2, queues=("a", "b")):
        self.now_s, self.server = 100.0, Server()
        self.report_queue = ReportQueue(WEIGHTS, now=lambda: self.now_s)
        self.store = StateStore()
        self.clock = self.server.api.clock
        self.begin()
        self.late, self.cycles, self.memory, self.cycle = [], 0, Memory(), None
        self.policy = default_policy()
        self.numbers = itertools.count()
        amounts = {"cpu": "256", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
        for at in range(nodes):
            status = {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            self.server.api.create(
                "", "nodes", {"metadata": {"name": f"n{at:03}"}, "status": status}
            )
            untainted = {"spec": {"taints": None}}  # a new node is born with one
            self.server.must("PATCH", f"/api/v1/nodes/n{at:03}", untainted, MERGE)
        for name in queues:
            spec = {"resources": {"gpu": {"quota": 4, "limit": -1, "overQuotaWeight": 1}}}
            self.server.must("POST", QUEUES, {"metadata": {"name": name}, "spec": spec})
        self.deliver()

    def begin(self):
        """Let a process begin to report: the first one, or another after it."""
        self.advice = StandingAdvice()
        self.reporter = Reporter(
            self.server, self.report_queue, self.clock, self.store, advice=self.advice
        )
        for group, plural in (("", "pods"), (GROUP, "podgroups"), (GROUP, "queues")):
            for record in self.server.api.storage.collection((group, plural)).records.values():
                self.reporter.handle(Change(decode_json(record.body, TYPES[plural])))

    # -- what happens ----------------------------------------------------------------------------

    def pod(self, name, queue, gpus, group=""):
        self.server.must("POST", f"{TEAM}/pods", objects.pod(name, queue, gpus, group=group))

    def group(self, name, queue, minimum):
        self.server.must("POST", GROUPS, objects.group(name, queue, minimum))

    def delete(self, name):
        self.server.ask("DELETE", f"{TEAM}/pods/{name}", {"gracePeriodSeconds": 0})

    def overwrite(self, path, status):
        kind = STRATEGIC if "/pods/" in path else MERGE
        self.server.ask("PATCH", f"{path}/status", {"status": status}, kind)

    # -- what we do ------------------------------------------------------------------------------

    def snapshot(self):
        return self.store.snapshot()

    def apply(self, binds, evictions, nominations):
        for bind in binds:
            self.store.assume_bound(bind.pod, bind.node)
            self.late.append(bind)
        for evict in evictions:
            self.store.assume_evicted(evict.pod, 0.0)
            self.late.append(evict)

    def bind(self, most=None):
        """Let binds and evictions that were decided reach the server."""
        for intent in self.late[:most]:
            name = intent.pod.partition("/")[2]
            if hasattr(intent, "beneficiary"):
                self.delete(name)
                continue
            body = {
                "metadata": {"name": name, "uid": intent.uid},
                "target": {"kind": "Node", "name": intent.node},
            }
            self.server.ask("POST", f"{TEAM}/pods/{name}/binding", body)
        del self.late[:most]

    def deliver(self, most=None):
        """Let what the watch has to tell arrive."""
        count = len(self.server.events) if most is None else min(most, len(self.server.events))
        for _ in range(count):
            change = self.server.events.popleft()
            update(self.store, change.obj, is_gone=change.is_gone)
            self.reporter.handle(change)

    def next_cycle(self):
        self.cycle = next_cycle(self, self, self.policy, None, self.clock, self.memory)
        self.memory = self.cycle.memory
        self.reporter.after(self.cycle.snapshot, self.cycle.result)

    def write(self, most=100_000):
        """Write what is due, and return how much that was."""
        return next((at for at in range(most) if not self.reporter.step()), most)

    def pass_time(self, seconds, per_second=100_000):
        """Let everything go its way for a while: events at once, a cycle every half second."""
        for _ in range(round(seconds / 0.1)):
            self.now_s += 0.1
            self.bind()
            self.deliver()
            self.cycles += 1
            if self.cycles % 5 == 0:
                self.next_cycle()
            self.write(per_second // 10)
            self.deliver()

    # -- what is so ------------------------------------------------------------------------------

    def counts(self):
        """Return how many reports the server has taken."""
        return self.reporter._desired._counts.read().get(("report", "done"), (0,))[0]

    def objects(self, group, plural):
        records = self.server.api.storage.collection((group, plural)).records
        return [record.object() for record in records.values()]

    def wrong(self):
        """Return what does not say what it should, as of the last cycle."""
        snapshot, result = self.cycle.snapshot, self.cycle.result
        why = {record.pod_group: record for record in result.records}
        return [
            *self._wrong_pods(why),
            *self._wrong_queues(snapshot, result),
            *self._wrong_groups(snapshot, why),
        ]

    def _wrong_pods(self, why):
        messages = {
            key: self.reporter._message(record)
            for job, record in why.items()
            for key, _ in self.store.pending_pods(job)
        }
        for pod in self.objects("", "pods"):
            name = pod["metadata"]["name"]
            conditions = pod["status"].get("conditions", ())
            said = next((it for it in conditions if it["type"] == "PodScheduled"), {})
            if pod["spec"].get("nodeName"):
                if said.get("status") != "True" or said.get("reason") or said.get("message"):
                    yield f"pod {name} has a node and says {said}"
            elif said.get("message") != messages.get(f"team/{name}"):
                yield f"pod {name} says {said}, not {messages.get(f'team/{name}')}"

    def _wrong_queues(self, snapshot, result):
        wanted = dict(queue_statuses(snapshot, result.shares, self.store.declared.queue_faults()))
        for queue in self.objects(GROUP, "queues"):
            name = queue["metadata"]["name"]
            if not matches(queue.get("status"), wanted[name]):
                yield f"queue {name} says {queue.get('status')}, not {wanted[name]}"

    def _wrong_groups(self, snapshot, why):
        amounts = dict(GroupAmounts().changed(snapshot, self.store.members.is_declared))
        for group in self.objects(GROUP, "podgroups"):
            job = f"team/{group['metadata']['name']}"
            said = group.get("status") or {}
            ours = [
                it for it in said.get("schedulingConditions", ()) if it.get("nodePool") == "default"
            ]
            for it in ours:
                it.pop("lastTransitionTime")
                if not it.pop("transitionID").isdecimal():
                    yield f"group {job} has no number in {it}"
            expected = []
            if job in why:
                message = self.reporter._message(why[job])
                expected = [why_waiting("default", why[job].reason, message, why[job].numbers)]
            if ours != expected:
                yield f"group {job} says {ours}, not {expected}"
            if job in amounts and not matches(said, amounts[job]):
                yield f"group {job} says {said}, not {amounts[job]}"
