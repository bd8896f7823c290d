"""An API server of pods in plain values, for machines that try everything in any order.

It knows nothing of stores: it keeps pods, does binds and evictions as Kubernetes does, keeps what
the watch of each pod has yet to tell, and loses answers when it is told to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import PODS
from kaisched.cluster.state import as_json
from kaisched.errors import ClusterUnavailable
from tests.contract.clusters import pod

ENDED = ("Succeeded", "Failed")
FATES = (
    "",
    "",
    "lost before",
    "lost after",
    "busy",
    "trouble before",
    "trouble after",
    "overtaken",
)


@dataclass(frozen=True)
class PodAt:
    """A pod at one version."""

    name: str
    uid: str
    gpus: int
    version: int
    node: str = ""
    phase: str = "Pending"
    is_leaving: bool = False
    is_gated: bool = False
    is_elsewhere: bool = False
    """Its label of the node pool names another one."""
    mark: int = 0
    """Some label of no meaning."""
    group: str = ""
    nominated: str = ""

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    @property
    def may_be_bound(self) -> bool:
        return not (self.node or self.is_leaving or self.is_gated or self.has_ended)

    def obj(self):
        labels = {"kai.scheduler/node-pool": "other"} if self.is_elsewhere else {}
        labels |= {"mark": str(self.mark)} if self.mark else {}
        times = {"deletionTimestamp": "2026-03-01T00:00:00Z"} if self.is_leaving else {}
        return pod(
            self.name,
            "a",
            self.gpus,
            where=self.node,
            phase=self.phase,
            uid=self.uid,
            labels=labels,
            annotations={"pod-group-name": self.group} if self.group else {},
            metadata={"resourceVersion": str(self.version), **times},
            spec={"schedulingGates": [{"name": "wait"}]} if self.is_gated else {},
            status={"nominatedNodeName": self.nominated} if self.nominated else {},
        )


class Server:
    """Pods, and what their watch has yet to tell."""

    def __init__(self):
        self.pods = {}
        self.told = {}
        """What the watch has told last, by name."""
        self.news = {}
        self.version = 0
        self.fates = []
        """Of the next requests, the first first; without any, requests fare well."""
        self.overtake = lambda name: None
        """Lets the watch tell all it has of a pod."""

    def create(self, name, gpus, **rest):
        self.version += 1
        self._put(PodAt(name, f"uid-{self.version}", gpus, self.version, **rest))

    def change(self, name, **what):
        self.version += 1
        self._put(replace(self.pods[name], version=self.version, **what))

    def remove(self, name):
        gone = self.pods.pop(name)
        self.news.setdefault(name, deque()).append((gone, True))

    def _put(self, pod):
        self.pods[pod.name] = pod
        self.news.setdefault(pod.name, deque()).append((pod, False))

    # -- the watch -------------------------------------------------------------------------------

    def next_of(self, name):
        """Return the next change that the watch of a pod tells."""
        seen, is_gone = self.news[name].popleft()
        if not self.news[name]:
            del self.news[name]
        return self._change_of(seen, is_gone=is_gone)

    def listed(self):
        """Yield what a fresh list has that was not told, and forget what the watch would tell."""
        self.news.clear()
        for name in sorted(self.told.keys() | self.pods.keys()):
            if name not in self.pods:
                yield self._change_of(self.told[name], is_gone=True)
            elif self.told.get(name) != self.pods[name]:
                yield self._change_of(self.pods[name], is_gone=False)

    def _change_of(self, seen, *, is_gone):
        if not is_gone:
            self.told[seen.name] = seen
            return Change(seen.obj())
        self.told.pop(seen.name, None)
        return Change(PODS.stub("ns", seen.name, seen.uid), is_gone=True)

    # -- requests --------------------------------------------------------------------------------

    def call(self, verb, path, body=None, content_type=""):
        """Do what is asked, as the client does it."""
        del content_type
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "lost before":
            raise ClusterUnavailable("no answer")
        if fate == "busy":
            return Answer(429, b"{}")
        if fate == "trouble before":
            return Answer(503, b"{}")
        name, _, part = path.partition("/pods/")[2].partition("/")
        answer = self._answer(verb, part, name, body or {})
        if fate == "lost after":
            raise ClusterUnavailable("no answer")
        if fate == "overtaken":
            self.overtake(name)
        return Answer(504, b"{}") if fate == "trouble after" else answer

    def _answer(self, verb, part, name, body):
        found = self.pods.get(name)
        if found is None:
            return Answer(404, b"{}")
        if verb == "GET":
            return Answer(200, as_json(found.obj()))
        options, metadata = body.get("deleteOptions", {}), body.get("metadata", {})
        uid = options.get("preconditions", {}).get("uid") or metadata.get("uid")
        if uid != found.uid:
            return Answer(409, b'{"message": "UID in precondition"}')
        if part == "status":
            self.change(name, nominated=body["status"]["nominatedNodeName"])
        elif part == "binding":
            if not found.may_be_bound:
                return Answer(409, b'{"message": "it cannot be assigned"}')
            self.change(name, node=body["target"]["name"], nominated="")
        elif not options.get("dryRun"):
            self.evict(name)
        return Answer(201, b"{}")

    def evict(self, name):
        """Delete a pod: one on a node goes when its kubelet says so."""
        if self.pods[name].node and not self.pods[name].has_ended:
            if not self.pods[name].is_leaving:
                self.change(name, is_leaving=True)
        else:
            self.remove(name)
