"""Reports for users: conditions of pods, statuses of pod groups and queues, events.

After a cycle the reporter computes the desired statuses of objects; :class:`DesiredReports` writes
them until they arrive. The cost per turn is bounded: the reasons of jobs are compared in arrays,
and only jobs with a new reason are written out at once, the others in turn.
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
    SHARES,
    DesiredReports,
)
from kaisched.cluster.kubernetes.group_amounts import GroupAmounts
from kaisched.cluster.kubernetes.group_conditions import (
    PoolWord,
    is_told_of_running,
    pool_of,
    pools_known,
    why_waiting,
)
from kaisched.cluster.kubernetes.lone_pods import LonePods
from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.kubernetes.queue_shares import QueueShares
from kaisched.cluster.kubernetes.report_box import ReportBox
from kaisched.cluster.kubernetes.report_writes import Write
from kaisched.cluster.kubernetes.run_times import EndingJobs
from kaisched.cluster.kubernetes.seen import SeenObjects, key_of
from kaisched.cluster.kubernetes.statuses import QueueStatuses
from kaisched.cluster.kubernetes.stuck_pods import StuckPods
from kaisched.cluster.kubernetes.waiting_jobs import WaitingJobs
from kaisched.cluster.store import StateStore
from kaisched.core.snapshot import Snapshot
from kaisched.framework.advice.advice import is_same, is_sentence
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.report.records import DecisionRecord
from kaisched.framework.report.result import CycleResult
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

ROUND_S: Final = 0.5
"""The messages of waiting jobs are computed no more often than this."""
MOST_RECORDS: Final = 100
"""Messages computed per round: more could not be written in the meantime."""
MOST_BEHIND: Final = 1000
"""While so many reports wait to be written, only jobs with a new reason get a message."""
MOST_MESSAGE: Final = 1024
CONTROLLER: Final = "kaisched"


class Reporter:
    """Computes the desired status of objects after each cycle, in the loop's thread."""

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
        """Begin without reports.

        Args:
            client: sends the reports.
            box: queue of the reports.
            clock: gives the times in conditions and events.
            store: has the pods to be reported on.
            node_pool: name of our node pool in the conditions of pod groups.
            counts: counts the outcomes of the reports.
            advice: changes that would help waiting jobs.

        """
        self._clock, self._store, self._box = clock, store, box
        self._node_pool = node_pool or "default"
        self._seen = SeenObjects(store, self._node_pool)
        self._desired = DesiredReports(
            client,
            box,
            self._seen,
            stamp=lambda: self._now("%Y-%m-%dT%H:%M:%SZ"),
            on_reported=self._on_reported,
            counts=counts or Counts(),
        )
        self.step: Callable[[], bool] = self._desired.step
        """Writes the next report that is due; from any thread."""
        self._last_s = -ROUND_S
        self._advice = advice or StandingAdvice()
        self._jobs = WaitingJobs(store.members.is_declared)
        self._pods: dict[str, list[str]] = {}
        """The pods of each job that have a desired status."""
        self._stuck, self._alone, self._ending = StuckPods(), LonePods(), EndingJobs()
        self._amounts, self._statuses, self._shares = GroupAmounts(), QueueStatuses(), QueueShares()
        self._ripening: list[str] = []
        """New pod groups: their amounts are reported in the next round, with their pods."""

    def tell(self, change: Change) -> None:
        """Take in the current status of an object; from any thread."""
        obj = change.obj
        if isinstance(obj, Pod | PodGroup | Queue):
            self._desired.observe(obj, key_of(obj), is_gone=change.is_gone)

    def note(self, note: Note) -> None:
        """Send an event, unless too many wait; from any thread."""
        self._desired.add_event(self._event(note))

    def _on_reported(self, pod: str, uid: str, message: str) -> None:
        self.note(Note(pod, uid, "FailedScheduling", "Scheduling", message, is_warning=True))

    def after(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Report on a cycle."""
        for bind in result.binds:
            self._desired.withdraw(POD, f"pods/{bind.pod}")
        if not result.stats.abandoned:
            now_s = self._clock.now_s()
            for notes in (
                self._stuck.after(self._store, result),
                self._alone.after(self._store),
                self._ending.after(self._store, snapshot, now_s),
            ):
                for note in notes:
                    self.note(note)
        self._desired.correct_placed()
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
        for job in self._jobs.update(snapshot, records):
            self._withdraw_pods(job)
            self._group(job, None)
        for job in sorted(set(self._seen.with_condition) - self._jobs.names):
            self._group(job, None)
        with_old = self._box.waiting < MOST_BEHIND
        tells_running = is_told_of_running(self._store, self._node_pool)
        for row in self._jobs.next_rows(MOST_RECORDS, with_old=with_old):
            record, job = records.record(row), names[row]
            message = self._message(record, self._advice.words(records.session, row, record))
            self._pods_of(job, message)
            is_told = tells_running or not snapshot.jobs.active[row]
            said = why_waiting(self._node_pool, record.reason, message) if is_told else None
            self._group(job, said)

    def passed_on(self, job: str) -> None:
        """Say no more of a job that another node pool has from now on; what was said stays."""
        self._withdraw_pods(job)
        self._desired.withdraw(GROUP, f"podgroups/{job}")

    def _withdraw_pods(self, job: str) -> None:
        for key in self._pods.pop(job, ()):
            self._desired.withdraw(POD, key)

    def _pods_of(self, job: str, message: str) -> None:
        if self._store.members.is_silent(job):
            self._withdraw_pods(job)
            return
        pods = {f"pods/{key}": uid for key, uid in self._store.pending_pods(job)}
        for key in self._pods.get(job, ()):
            if key not in pods:
                self._desired.withdraw(POD, key)
        self._pods[job] = list(pods)
        for key, uid in pods.items():
            self._desired.set_desired(POD, key, (uid, message))

    def _message(self, record: DecisionRecord, advice: str | None = None) -> str:
        """Return why a job waits, and what would help, if that is known."""
        message = record.message
        before = self._found_before(record.pod_group, f"{message}; ")
        if advice is None or (before and is_same(advice, before)):
            advice = before
        if advice and len(message) + len("; ") + len(advice) <= MOST_MESSAGE:
            return f"{message}; {advice}"  # a cut sentence could mean something else
        return message[:MOST_MESSAGE]

    def _found_before(self, job: str, begin: str) -> str:
        """Return the advice in the current message of a job, if its reason is the same."""
        said = self._said_of(job)
        if isinstance(said, str) and said.startswith(begin) and is_sentence(said[len(begin) :]):
            return said[len(begin) :]
        return ""

    def _said_of(self, job: str) -> object:
        """Return the current message of a job: that of a pod, or of its group if pods say none."""
        if self._store.members.is_silent(job):
            seen = self._seen.get(f"podgroups/{job}")
            entries = seen.status.get("schedulingConditions", ()) if seen is not None else ()
            ours = [it.get("message") for it in entries if pool_of(it) == self._node_pool]
            return ours[-1] if ours else None
        pods = self._pods.get(job) or [f"pods/{key}" for key, _ in self._store.pending_pods(job)]
        seen = self._seen.get(pods[0]) if pods else None
        return None if seen is None else seen.status

    def _group(self, job: str, said: dict[str, str] | None) -> None:
        """Set what our node pool says of a job in its pod group; None if it waits no more."""
        key = f"podgroups/{job}"
        if self._store.members.is_declared(job):
            pools = pools_known(self._store, self._node_pool)
            self._desired.set_desired(GROUP, key, PoolWord(self._node_pool, said, pools))
        elif said is None:  # another pool has the job now
            self._desired.withdraw(GROUP, key)

    # -- amounts ---------------------------------------------------------------------------------

    def _groups_amounts(self, snapshot: Snapshot) -> None:
        """Report what pod groups ask for and hold: no decision depends on it."""
        # A group that came while the snapshot was taken is in the next snapshot for sure.
        ripe, self._ripening = self._ripening, list(self._seen.fresh)
        for job in self._ripening:
            self._seen.fresh.pop(job, None)
        store = self._store
        rows = [row for job in ripe if (row := store.rows.row_of_job(job)) >= 0]
        for job, desired in self._amounts.changed(snapshot, store.members.is_declared, rows):
            self._desired.set_desired(AMOUNTS, f"podgroups/{job}", desired)

    def _queues(self, snapshot: Snapshot, result: CycleResult) -> None:
        faults = self._store.declared.queue_faults()
        for name, desired in self._statuses.changed(snapshot, result.shares, faults):
            self._desired.set_desired(QUEUE, f"queues/{name}", desired)
        if self._box.waiting < MOST_BEHIND:
            for name, desired in self._shares.changed(snapshot, result):
                self._desired.set_desired(SHARES, f"queues/{name}", desired)

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
