"""What people see: conditions of pods, statuses of pod groups and queues, events.

After a cycle it is worked out here what objects should say; the desk has it written, and sees to it
that it arrives. What that costs a turn is bounded: jobs are told apart by their reasons, in arrays,
and only those whose reason is new are written out at once, the others in turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from kaisched.clock import Clock
from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.desired_reports import (
    AMOUNTS,
    GROUP,
    POD,
    QUEUE,
    DesiredReports,
    Write,
)
from kaisched.cluster.kubernetes.lone_pods import LonePods
from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.kubernetes.report_box import ReportBox
from kaisched.cluster.kubernetes.seen import SeenObjects, key_of
from kaisched.cluster.kubernetes.statuses import GroupAmounts, QueueStatuses
from kaisched.cluster.kubernetes.stuck_pods import StuckPods
from kaisched.cluster.kubernetes.waiting_jobs import WaitingJobs
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.framework.advice.advice import is_same, is_sentence
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.report.records import CycleResult, DecisionRecord
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

ROUND_S: Final = 0.5
"""What waiting jobs say is worked out no more often than this."""
MOST_RECORDS: Final = 100
"""Of so many jobs a round: more could not be written in the meantime."""
MOST_BEHIND: Final = 1000
"""While so much is waiting to be written, only jobs with a new reason are looked at."""
MOST_MESSAGE: Final = 1024
CONTROLLER: Final = "kaisched"
_UNSCHEDULABLE: Final = "UnschedulableOnNodePool"


class Reporter:
    """Compares what objects say with what was decided, in the loop's thread."""

    def __init__(
        self,
        client: Client,
        box: ReportBox,
        clock: Clock,
        store: StateStore,
        *,
        node_pool: str = "",
        counts: Counts | None = None,
        advice: StandingAdvice | None = None,
    ) -> None:
        """Have said nothing yet.

        Args:
            client: asks the server.
            box: keeps what is to be written.
            clock: stamps conditions and events.
            store: whose pods are reported on.
            node_pool: named in the conditions of pod groups.
            counts: what became of the reports is counted here.
            advice: what was found that would help waiting jobs.

        """
        self._clock, self._store, self._box = clock, store, box
        self._node_pool = node_pool or "default"
        self._seen = SeenObjects(store, self._node_pool)
        self._writers = DesiredReports(
            client, box, self._seen,
            stamp=lambda: self._now("%Y-%m-%dT%H:%M:%SZ"),
            on_told=self._told, counts=counts or Counts(),
        )  # fmt: skip
        self.step: Callable[[], bool] = self._writers.step
        """Writes what is due next; from any thread."""
        self._last_s = -ROUND_S
        self._advice = advice or StandingAdvice()
        self._jobs = WaitingJobs(store.is_declared)
        self._pods: dict[str, list[str]] = {}
        """The pods of each job of which something is wished."""
        self._stuck, self._alone = StuckPods(), LonePods()
        self._amounts, self._statuses = GroupAmounts(), QueueStatuses()
        self._ripening: list[str] = []
        """Pod groups that are new: whose pods came first says nothing of its amounts yet."""

    def tell(self, change: Change) -> None:
        """Note what an object says already; from any thread."""
        obj = change.obj
        if isinstance(obj, Pod | PodGroup | Queue):
            self._writers.tell(obj, key_of(obj), is_gone=change.is_gone)

    def note(self, note: Note) -> None:
        """Make an event, if there is time for it; from any thread."""
        self._writers.note(self._event(note))

    def _told(self, pod: str, uid: str, message: str) -> None:
        self.note(Note(pod, uid, "FailedScheduling", "Scheduling", message, is_warning=True))

    def after(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Report on a cycle."""
        for bind in result.binds:
            self._writers.withdraw(POD, f"pods/{bind.pod}")
        if not result.stats.abandoned:
            for note in (*self._stuck.after(self._store, result), *self._alone.after(self._store)):
                self.note(note)
        self._writers.mend()
        now_s = self._box.now()
        if now_s - self._last_s < ROUND_S or result.stats.abandoned:
            return
        self._last_s = now_s
        self._queues(snapshot, result)
        self._jobs_that_wait(snapshot, result)
        self._groups_amounts(snapshot)

    # -- jobs that wait --------------------------------------------------------------------------

    def _jobs_that_wait(self, snapshot: Snapshot, result: CycleResult) -> None:
        records, names = result.records, snapshot.jobs.name
        for job in self._jobs.heed(snapshot, records):
            for key in self._pods.pop(job, ()):
                self._writers.withdraw(POD, key)
            self._group(job, [])
        for job in list(self._seen.marked):  # other threads change it
            if not self._jobs.waits(job):
                self._group(job, [])
        with_old = self._box.waiting < MOST_BEHIND
        for row in self._jobs.next_rows(MOST_RECORDS, with_old=with_old):
            record, job = records.record(row), names[row]
            message = self._message(record, self._advice.words(records.session, row, record))
            self._pods_of(job, message)
            if self._store.is_declared(job):
                self._group(job, [self._condition(record.reason, message)])

    def _pods_of(self, job: str, message: str) -> None:
        pods = {f"pods/{key}": uid for key, uid in self._store.pending_pods(job)}
        for key in self._pods.get(job, ()):
            if key not in pods:
                self._writers.withdraw(POD, key)
        self._pods[job] = list(pods)
        for key, uid in pods.items():
            self._writers.wish(POD, key, (uid, message))

    def _message(self, record: DecisionRecord, advice: str | None = None) -> str:
        """Return why a job waits, what is wrong with it, and what would help, if that is known."""
        fault = self._store.fault_of(record.pod_group)
        message = f"{record.message}: {fault}" if fault else record.message
        before = self._found_before(record.pod_group, f"{message}; ")
        if advice is None or (before and is_same(advice, before)):
            advice = before
        if advice and len(message) + len("; ") + len(advice) <= MOST_MESSAGE:
            return f"{message}; {advice}"  # half of it could say something else
        return message[:MOST_MESSAGE]

    def _found_before(self, job: str, begin: str) -> str:
        """Return what a job is told already, maybe by another process, if it waits as it did."""
        pods = self._pods.get(job) or [f"pods/{key}" for key, _ in self._store.pending_pods(job)]
        for pod in pods[:1]:
            seen = self._seen.get(pod)
            said = seen.status if seen is not None else None
            if isinstance(said, str) and said.startswith(begin) and is_sentence(said[len(begin) :]):
                return said[len(begin) :]
        return ""

    def _condition(self, reason: str, message: str) -> dict[str, str]:
        return {
            "type": _UNSCHEDULABLE,
            "nodePool": self._node_pool,
            "reason": reason,
            "message": message,
            "status": "True",
            "transitionID": "0",
        }

    def _group(self, job: str, ours: list[dict[str, str]]) -> None:
        """Say why our nodes could not take a pod group; what others say of theirs is kept."""
        if self._store.is_declared(job):
            self._writers.wish(GROUP, f"podgroups/{job}", (self._node_pool, ours))

    # -- amounts ---------------------------------------------------------------------------------

    def _groups_amounts(self, snapshot: Snapshot) -> None:
        """Say what pod groups ask for and hold: no decision and nobody in a hurry waits for it."""
        # One that came while the snapshot was taken is in the next one for sure.
        ripe, self._ripening = self._ripening, list(self._seen.fresh)
        for job in self._ripening:
            self._seen.fresh.pop(job, None)
        store = self._store
        rows = [row for job in ripe if (row := store.row_of_job(job)) >= 0]
        for job, wanted in self._amounts.changed(snapshot, store.is_declared, rows):
            self._writers.wish(AMOUNTS, f"podgroups/{job}", wanted)

    def _queues(self, snapshot: Snapshot, result: CycleResult) -> None:
        faults = self._store.queue_faults()
        for name, wanted in self._statuses.changed(snapshot, result.shares, faults):
            self._writers.wish(QUEUE, f"queues/{name}", wanted)

    # -- events ----------------------------------------------------------------------------------

    def _event(self, note: Note) -> Write:
        namespace, _, name = note.pod.partition("/")
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name[:200]}-", "namespace": namespace},
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
        return Write(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)

    def _now(self, form: str) -> str:
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime(form)
