"""What people see: conditions of pods, statuses of pod groups and queues, events.

Written after everything that matters more, only on change, seldom, and left out rather than piled
up: what is not written now differs still after the next cycle.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kaisched.clock import Clock, monotonic_s
from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.client import JSON, MERGE, STRATEGIC, Client
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.outbox import Outbox
from kaisched.cluster.kubernetes.pods import Note, path_of
from kaisched.cluster.kubernetes.report import Report
from kaisched.cluster.kubernetes.statuses import GroupAmounts, queue_statuses, says, stamped
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.framework.records import CycleResult, DecisionRecord
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

POD, GROUP, QUEUE, EVENT, AMOUNTS = range(5)
"""What is written, the most urgent first."""
ROUND_S: Final = 1.0
"""Differences are looked for no more often than this."""
AGAIN_S: Final = {POD: 30.0, GROUP: 30.0, QUEUE: 2.0, AMOUNTS: 5.0}
"""One object is written no more often than this."""
REPAIR_S: Final = 600.0
"""What was written and is not there is written again after so long: it was lost, or overwritten."""
MOST_WAITING: Final = 500
MOST_AMOUNTS: Final = 100
"""No more is put behind so many reports that can wait best."""
MOST_MESSAGE: Final = 1024
CONTROLLER: Final = "kaisched"
_UNSCHEDULABLE: Final = "UnschedulableOnNodePool"
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
        counts: Counts | None = None,
    ) -> None:
        """Have said nothing yet.

        Args:
            client: asks the server.
            outbox: of its own, so that nothing that matters waits behind a report.
            clock: stamps conditions and events.
            store: whose pods are reported on.
            node_pool: named in the conditions of pod groups.
            counts: what became of the reports is counted here.

        """
        self._client, self._outbox, self._clock = client, outbox, clock
        self._counts = counts or Counts()
        self._store, self._node_pool = store, node_pool or "default"
        self._said: dict[str, tuple[str, str]] = {}
        """Pending pod to (UID, message) of its condition, as the server has it."""
        self._served: dict[tuple[int, str], Any] = {}
        """(QUEUE or GROUP, key) to its status, as the server has it."""
        self._marked: dict[str, None] = {}
        """Pod groups of which the server says that our nodes could not take them."""
        self._written: dict[tuple[int, str], tuple[Any, float]] = {}
        """(what, key) to (what was last written, when)."""
        self._last_s = -ROUND_S
        self._amounts = GroupAmounts()
        self._fresh: dict[str, None] = {}
        self._ripening: list[str] = []
        """Pod groups that are new: whose pods came first says nothing of its amounts yet."""
        self._late: dict[str, dict[str, Any]] = {}
        """Pod groups whose amounts are to be written yet."""
        self._queues_seen: tuple[int, object] | None = None
        """(revision, faults) of which all queues say what they should."""

    def tell(self, change: Change) -> None:
        """Note what an object says already; from any thread."""
        obj = change.obj
        if isinstance(obj, Pod):
            self._tell_pod(obj, is_gone=change.is_gone)
        elif isinstance(obj, Queue | PodGroup):
            kind = QUEUE if isinstance(obj, Queue) else GROUP
            key = obj.name if isinstance(obj, Queue) else obj.key
            if change.is_gone:
                self._served.pop((kind, key), None)
                self._marked.pop(key, None)
                return
            if kind == GROUP and (kind, key) not in self._served:
                self._fresh[key] = None
            self._served[kind, key] = msgspec.to_builtins(obj.status)
            if isinstance(obj, PodGroup):
                said = obj.status.scheduling_conditions
                if any(it.node_pool == self._node_pool for it in said):
                    self._marked[key] = None
                else:
                    self._marked.pop(key, None)

    def _tell_pod(self, pod: Pod, *, is_gone: bool) -> None:
        if is_gone or pod.spec.node_name:
            self._said.pop(pod.key, None)
            return
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
                self._said[pod.key] = (pod.metadata.uid, condition.message)

    def note(self, note: Note) -> None:
        """Make an event, if there is time for it; from any thread."""
        if self._outbox.waiting < MOST_WAITING:
            self._put(EVENT, "POST", *self._event(note), JSON)

    def after(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Report on a cycle."""
        now_s = monotonic_s()
        if now_s - self._last_s < ROUND_S or result.stats.abandoned:
            return
        self._last_s = now_s
        self._forget(now_s)
        self._queues(snapshot, result, now_s)
        waiting = set()
        for record in result.records:
            if self._outbox.waiting >= MOST_WAITING:
                return
            waiting.add(record.pod_group)
            self._pods_of(record, now_s)
            if self._store.is_declared(record.pod_group):
                self._group(record.pod_group, [self._condition(record)], now_s)
        for job in list(self._marked):
            if job not in waiting:
                self._group(job, [], now_s)
        self._groups_amounts(snapshot, now_s)

    def _forget(self, now_s: float) -> None:
        """Pods say themselves what was written last; of the others, those that are gone."""
        self._written = {
            key: it
            for key, it in self._written.items()
            if now_s - it[1] <= (AGAIN_S[POD] if key[0] == POD else REPAIR_S)
        }

    def _is_due(self, kind: int, key: str, wanted: Any, now_s: float) -> bool:
        """Tell whether something is new and the last old enough; if so it counts as written."""
        before, at_s = self._written.get((kind, key), (None, -REPAIR_S))
        if wanted == before or now_s - at_s < AGAIN_S[kind]:
            return False
        self._written[kind, key] = wanted, now_s
        return True

    def _is_said(self, what: int, key: str, wanted: dict[str, Any], now_s: float) -> bool:
        """Tell whether the server says so, and nothing else is on its way to it."""
        before, at_s = self._written.get((what, key), (wanted, now_s))
        if before != wanted and now_s - at_s < AGAIN_S[what]:
            return False
        return says(self._served.get((QUEUE if what == QUEUE else GROUP, key)), wanted)

    # -- pods and pod groups ---------------------------------------------------------------------

    def _pods_of(self, record: DecisionRecord, now_s: float) -> None:
        message = self._message(record)
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
            self._put(POD, "PATCH", path_of(key, "status"), body, STRATEGIC)
            self.note(Note(key, uid, "FailedScheduling", "Scheduling", message, is_warning=True))

    def _message(self, record: DecisionRecord) -> str:
        """Return why a job waits; what is wrong with it, if anything, stands behind."""
        fault = self._store.fault_of(record.pod_group)
        return (f"{record.message}: {fault}" if fault else record.message)[:MOST_MESSAGE]

    def _condition(self, record: DecisionRecord) -> dict[str, str]:
        return {
            "type": _UNSCHEDULABLE,
            "nodePool": self._node_pool,
            "reason": record.reason,
            "message": self._message(record),
            "status": "True",
            "transitionID": "0",
        }

    def _group(self, job: str, ours: list[dict[str, str]], now_s: float) -> None:
        """Say why our nodes could not take a pod group; what others say of theirs is kept."""
        said = self._served.get((GROUP, job)) or {}
        theirs = [
            it
            for it in said.get("schedulingConditions", ())
            if it.get("nodePool", "") != self._node_pool
        ]
        wanted = {"schedulingConditions": [*theirs, *ours]}
        is_said = self._is_said(GROUP, job, wanted, now_s)
        if not is_said and self._is_due(GROUP, job, wanted, now_s):
            self._put_group(GROUP, job, wanted)

    def _put_group(self, kind: int, job: str, status: dict[str, Any]) -> None:
        namespace, _, name = job.partition("/")
        path = f"{_POD_GROUPS}/{namespace}/podgroups/{name}/status"
        self._put(kind, "PATCH", path, {"status": status}, MERGE)

    def _groups_amounts(self, snapshot: Snapshot, now_s: float) -> None:
        """Say what pod groups ask for and hold: no decision and nobody in a hurry waits for it."""
        # One that came while the snapshot was taken is in the next one for sure.
        ripe, self._ripening = self._ripening, list(self._fresh)
        for job in self._ripening:
            self._fresh.pop(job, None)
        store = self._store
        rows = [row for job in ripe if (row := store.row_of_job(job)) >= 0]
        self._late.update(self._amounts.changed(snapshot, store.is_declared, rows))
        for job, wanted in list(self._late.items()):
            if self._outbox.waiting >= MOST_AMOUNTS:
                return
            is_settled = not store.is_declared(job) or self._is_said(AMOUNTS, job, wanted, now_s)
            if not is_settled and self._is_due(AMOUNTS, job, wanted, now_s):
                self._put_group(AMOUNTS, job, wanted)
                is_settled = True
            if is_settled:
                del self._late[job]

    # -- queues ----------------------------------------------------------------------------------

    def _queues(self, snapshot: Snapshot, result: CycleResult, now_s: float) -> None:
        faults = self._store.queue_faults()
        now = (snapshot.revision, faults)
        if now == self._queues_seen:
            return
        is_settled = True
        for name, wanted in queue_statuses(snapshot, result.shares, faults):
            if self._is_said(QUEUE, name, wanted, now_s):
                continue
            is_settled = False
            if self._is_due(QUEUE, name, wanted, now_s):
                said = self._served.get((QUEUE, name))
                status = stamped(wanted, said, self._now("%Y-%m-%dT%H:%M:%SZ"))
                self._put(QUEUE, "PATCH", f"{_QUEUES}/{name}/status", {"status": status}, MERGE)
        self._queues_seen = now if is_settled else None

    def _put(
        self, rank: int, method: str, path: str, body: dict[str, Any], content_type: str
    ) -> None:
        work = Report(self._client, method, path, body, content_type, self._counts)
        self._outbox.put(rank, work)

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
