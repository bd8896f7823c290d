"""Streams of all that the API says, one a kind, from the start and at every revision."""

import threading
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from kaisched.cluster.kubernetes.client import JSON, RefusedError
from kaisched.errors import ClusterUnavailable
from tests.chaos import facts

KINDS = {
    "pods": ("/api/v1/pods", facts.pod_of),
    "nodes": ("/api/v1/nodes", facts.node_of),
    "podgroups": ("/apis/scheduling.run.ai/v2alpha2/podgroups", facts.group_of),
    "queues": ("/apis/scheduling.run.ai/v2/queues", facts.queue_of),
    "leases": ("/apis/coordination.k8s.io/v1/namespaces/kaisched/leases", facts.lease_of),
}
IDLE_S = 90.0
_GONE = 410


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object. ``facts`` is how it was last if it is deleted."""

    order: int
    """The revision; of what a list told after a gap, the list's own."""
    at_s: float
    """When it was heard, monotonic."""
    kind: str
    is_deleted: bool
    facts: Any


class ExpiredError(Exception):
    """The version to go on from is forgotten."""


class Stream:
    """Lists a kind once and watches it; after a gap it lists again and tells the differences.

    ``sink`` is called for every event, from the stream's thread.
    """

    def __init__(self, client, kind, sink, end, kinds=KINDS):
        self.kind = kind
        self.path, self._read = kinds[kind]
        self.version = 0
        """All up to here has been told."""
        self.is_up = False
        self.gaps = 0
        self._client, self._sink, self._end = client, sink, end
        self._known = {}
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind}", daemon=True)

    def start(self):
        self._thread.start()
        return self

    def _run(self):
        while not self._end.is_set():
            try:
                if self.version == 0:
                    self._list()
                self._watch()
            except ExpiredError:
                self.gaps += 1
                self.version = 0
            except (ClusterUnavailable, RefusedError, msgspec.DecodeError):
                self._end.wait(0.2)
            finally:
                self.is_up = False

    def _list(self):
        answer = self._client.call("GET", self.path, timeout_s=60.0)
        if not answer.is_done:
            raise ClusterUnavailable(answer.text())
        found = msgspec.json.decode(answer.data)
        order, now_s = int(found["metadata"]["resourceVersion"]), time.monotonic()
        items = {}
        for obj in found["items"]:
            read = self._read(obj)
            items[read.key] = read
        # All of it is of one moment, so all of it has the one revision.
        for key, read in list(self._known.items()):
            if key not in items or items[key].uid != read.uid:
                self._handle(Event(order, now_s, self.kind, True, read))
        for key, read in items.items():
            if self._known.get(key) != read:
                self._handle(Event(order, now_s, self.kind, False, read))
        self.version = order

    def _watch(self):
        query = {
            "watch": "true",
            "resourceVersion": str(self.version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "240",
        }
        try:
            stream = self._client.stream(self.path, query, JSON, IDLE_S)
        except RefusedError as wrong:
            if wrong.answer.code == _GONE:
                raise ExpiredError from wrong
            raise
        self.is_up, rest = True, b""
        try:
            for chunk in stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        self._take(msgspec.json.decode(line))
                if self._end.is_set():
                    break
        finally:
            stream.close()

    def _take(self, told):
        obj = told["object"]
        if told["type"] == "ERROR":
            if obj.get("code") == _GONE:
                raise ExpiredError
            raise ClusterUnavailable(str(obj.get("message")))
        order = int(obj["metadata"]["resourceVersion"])
        if told["type"] != "BOOKMARK":
            is_deleted = told["type"] == "DELETED"
            self._handle(Event(order, time.monotonic(), self.kind, is_deleted, self._read(obj)))
        self.version = max(self.version, order)

    def _handle(self, event):
        if event.is_deleted:
            self._known.pop(event.facts.key, None)
        else:
            self._known[event.facts.key] = event.facts
        self._sink(event)


class Sorter:
    """Puts the events of all streams in the order of their revisions, a little late.

    Streams tell at their own pace. What is older than ``lag_s`` is in order, but for what a stream
    that is down will tell yet: nothing past its last version is handed out.
    """

    def __init__(self, lag_s=4.0):
        self.lag_s = lag_s
        self.late = 0
        """Events that came after a later one had been handed out."""
        self._waiting, self._lock, self._last = [], threading.Lock(), 0

    def put(self, event):
        with self._lock:
            self._waiting.append(event)

    def ready(self, until_s, streams=()):
        """Return the events that are in order: those heard until then."""
        most = min((it.version for it in streams if not it.is_up), default=None)
        with self._lock:
            ripe, rest = [], []
            for it in self._waiting:
                is_ripe = it.at_s <= until_s and (most is None or it.order <= most)
                (ripe if is_ripe else rest).append(it)
            self._waiting = rest
        ripe.sort(key=lambda it: it.order)
        self.late += sum(it.order < self._last for it in ripe)
        if ripe:
            self._last = max(self._last, ripe[-1].order)
        return ripe
