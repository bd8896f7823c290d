"""What people see: conditions of pods and pod groups, status of queues, events.

Written after everything that matters more, only on change, seldom, and left out rather than piled
up: what is not written now differs still after the next cycle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kaisched.clock import Clock, monotonic_s
from kaisched.cluster.kubernetes.client import JSON, MERGE, STRATEGIC, Answer, Client
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.outbox import Outbox
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import Note, is_passing, path_of
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.core.tree import roll_up
from kaisched.errors import ClusterUnavailable
from kaisched.framework.records import CycleResult, DecisionRecord, QueueShare
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

POD, GROUP, QUEUE, EVENT = range(4)
ROUND_S: Final = 1.0
"""Differences are looked for no more often than this."""
AGAIN_S: Final = 30.0
"""A pod or pod group whose text changes is written no more often than this."""
QUEUE_AGAIN_S: Final = 2.0
"""The same for queues, of which there are few."""
MOST_WAITING: Final = 500
MOST_MESSAGE: Final = 1024
CONTROLLER: Final = "kaisched"
_UNITS: Final = {"cpu": ("cpu", "m"), "memory": ("memory", "Mi"), "gpu": ("nvidia.com/gpu", "m")}
_NOTHING: Final = repr([])
_POD_GROUPS: Final = f"/apis/{PodGroup.API_VERSION}/namespaces"
_QUEUES: Final = f"/apis/{Queue.API_VERSION}/queues"


class Reporter:
    """Compares what objects say with what was decided, in the loop's thread."""

    def __init__(
        self,
        client: Client,
        outbox: Outbox,
        clock: Clock,
        store: StateStore,
        *,
        node_pool: str = "",
    ) -> None:
        """Have said nothing yet.

        Args:
            client: asks the server.
            outbox: of its own, so that nothing that matters waits behind a report.
            clock: stamps conditions and events.
            store: whose pods are reported on.
            node_pool: named in the conditions of pod groups.

        """
        self._client, self._outbox, self._clock = client, outbox, clock
        self._store, self._node_pool = store, node_pool
        self._said: dict[str, tuple[str, str]] = {}
        """Pending pod to (UID, message) of its condition, as the server has it."""
        self._written: dict[tuple[int, str], tuple[str, float]] = {}
        """(kind, key) to (what was last written, when)."""
        self._last_s = -ROUND_S

    def tell(self, change: Change) -> None:
        """Note what a pod says already; from any thread."""
        pod = change.obj
        if not isinstance(pod, Pod):
            return
        if change.is_gone or pod.spec.node_name:
            self._said.pop(pod.key, None)
            return
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
                self._said[pod.key] = (pod.metadata.uid, condition.message)

    def note(self, note: Note) -> None:
        """Make an event, if there is time for it; from any thread."""
        if self._outbox.waiting < MOST_WAITING:
            self._outbox.put(EVENT, Report(self._client, "POST", *self._event(note)))

    def after(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Report on a cycle."""
        now_s = monotonic_s()
        if now_s - self._last_s < ROUND_S or result.stats.abandoned:
            return
        self._last_s = now_s
        self._forget(now_s - AGAIN_S)
        self._queues(snapshot, result.shares, now_s)
        for record in result.records:
            if self._outbox.waiting >= MOST_WAITING:
                return
            self._pods_of(record, now_s)
            if self._store.is_declared(record.pod_group):
                condition = self._condition(record)
                self._group(record.pod_group, [condition], now_s)
        waiting = {record.pod_group for record in result.records}
        for kind, key in [key for key in self._written if key[0] == GROUP]:
            if key not in waiting and self._written[kind, key][0] != _NOTHING:
                self._group(key, [], now_s)

    def _forget(self, due_s: float) -> None:
        """Pods say themselves what was written last; of the others only we know."""
        self._written = {
            key: it for key, it in self._written.items() if key[0] != POD or it[1] > due_s
        }

    def _is_due(self, kind: int, key: str, text: str, now_s: float) -> bool:
        """Tell whether a text is new and the last one old enough; if so it counts as written."""
        before, at_s = self._written.get((kind, key), ("", -AGAIN_S))
        if text == before or now_s - at_s < (QUEUE_AGAIN_S if kind == QUEUE else AGAIN_S):
            return False
        self._written[kind, key] = text, now_s
        return True

    # -- pods and pod groups ---------------------------------------------------------------------

    def _pods_of(self, record: DecisionRecord, now_s: float) -> None:
        message = record.message[:MOST_MESSAGE]
        for key, uid in self._store.pending_pods(record.pod_group):
            if self._said.get(key) == (uid, message) or not self._is_due(POD, key, message, now_s):
                continue
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": self._now("%Y-%m-%dT%H:%M:%SZ"),
            }
            body = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
            path = path_of(key, "status")
            self._outbox.put(POD, Report(self._client, "PATCH", path, body, STRATEGIC))
            self.note(Note(key, uid, "FailedScheduling", "Scheduling", message, is_warning=True))

    def _condition(self, record: DecisionRecord) -> dict[str, str]:
        return {
            "type": "UnschedulableOnNodePool",
            "nodePool": self._node_pool or "default",
            "reason": record.reason,
            "message": record.message[:MOST_MESSAGE],
            "status": "True",
            "transitionID": "0",
        }

    def _group(self, job: str, conditions: list[dict[str, str]], now_s: float) -> None:
        if self._is_due(GROUP, job, repr(conditions), now_s):
            namespace, _, name = job.partition("/")
            path = f"{_POD_GROUPS}/{namespace}/podgroups/{name}/status"
            body = {"status": {"schedulingConditions": conditions}}
            self._outbox.put(GROUP, Report(self._client, "PATCH", path, body, MERGE))

    # -- queues ----------------------------------------------------------------------------------

    def _queues(self, snapshot: Snapshot, shares: Sequence[QueueShare], now_s: float) -> None:
        children: dict[str, list[str]] = {}
        for share in shares:
            children.setdefault(share.parent or "", []).append(share.name)
        firm = roll_up(snapshot.allocated_non_preemptible, snapshot.queues.tree)
        names = snapshot.axis.names
        for share in shares:
            row = snapshot.queues.row_of_name.get(share.name)
            if row is None:
                continue
            held = {name: int(firm[at, row]) for at, name in enumerate(names)}
            status = {
                "allocated": quantities(share.allocated),
                "allocatedNonPreemptible": quantities(held),
                "requested": quantities(share.requested),
                "childQueues": sorted(children.get(share.name, ())),
            }
            if self._is_due(QUEUE, share.name, repr(status), now_s):
                path = f"{_QUEUES}/{share.name}/status"
                body = {"status": status}
                self._outbox.put(QUEUE, Report(self._client, "PATCH", path, body, MERGE))

    # -- events ----------------------------------------------------------------------------------

    def _event(self, note: Note) -> tuple[str, dict[str, Any]]:
        namespace, _, name = note.pod.partition("/")
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name[:200]}.", "namespace": namespace},
            "eventTime": self._now("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": f"{CONTROLLER}-{os.uname().nodename}"[:128],
            "action": note.action,
            "reason": note.reason,
            "note": note.text[:MOST_MESSAGE],
            "type": "Warning" if note.is_warning else "Normal",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": namespace,
                "name": name,
                "uid": note.uid,
            },
        }
        return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body

    def _now(self, form: str) -> str:
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime(form)


class Report:
    """One report to be written; after a few failures it is left out."""

    def __init__(
        self,
        client: Client,
        method: str,
        path: str,
        body: dict[str, Any],
        content_type: str = JSON,
    ) -> None:
        """Keep what is needed."""
        self._client, self._method, self._path, self._body = client, method, path, body
        self._content_type = content_type
        self._pauses, self._tries = Pauses(), 3

    def send(self) -> float | None:
        """Write it."""
        passing("status.before_patch")
        self._tries -= 1
        try:
            answer = self._client.call(
                self._method, self._path, body=self._body, content_type=self._content_type
            )
        except ClusterUnavailable:
            answer = Answer(503, b"")
        passing("status.after_patch")
        if is_passing(answer) and self._tries:
            return self._pauses.next_s(answer.retry_after_s)
        return None

    def drop(self, why: str) -> None:
        """Leave it out."""


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts in base units as Kubernetes quantities, without those that are zero."""
    found = {}
    for name, amount in amounts.items():
        shown, unit = _UNITS.get(name, (name, ""))
        if unit == "m" and amount % 1000 == 0:
            amount, unit = amount // 1000, ""  # noqa: PLW2901 - the same amount, shorter
        if amount > 0 and name != "pods":
            found[shown] = f"{amount}{unit}"
    return found
