"""Reports for users: conditions of pods, statuses of pod groups and queues, events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, KeysView
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from kaisched.clock import Clock
from kaisched.cluster.kubernetes.client import Client, Counts
from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.status_writer import (
    AMOUNTS,
    GROUP,
    POD,
    QUEUE,
    SHARES,
    DesiredReports,
    PoolWord,
    SeenObjects,
    Write,
    is_told_of_running,
    key_of,
    pool_of,
    pools_known,
    why_waiting,
)
from kaisched.cluster.kubernetes.statuses import GroupAmounts, QueueShares, QueueStatuses
from kaisched.cluster.kubernetes.write_queue import ReportQueue
from kaisched.cluster.store import StateStore
from kaisched.core.axis import IntVec, RowVec
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import WORKLOADS
from kaisched.framework.advice.advice import is_same, is_sentence
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.report.records import DecisionRecord
from kaisched.framework.report.result import CycleResult, Records
from kaisched.framework.session.limits import limited_jobs, limiting_queue, limits_s
from kaisched.objects.labels import format_time
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.units import format_duration

# -- the order of waiting jobs ---------------------------------------------------------------------

_NONE: Final = np.zeros(0, np.int64)
_SHARE: Final = 4
"""One of so many places in a round is for jobs without a new reason."""


class WaitingJobs:
    """The waiting jobs, kept from one cycle to the next. Rows last for one generation only."""

    def __init__(self, is_declared: Callable[[str], bool]) -> None:
        """Begin without jobs.

        Args:
            is_declared: tells whether a job has a pod group; such jobs have a line of their own.

        """
        self._is_declared = is_declared
        self._row_of_name: dict[str, int] = {}
        """Rows of the jobs that wait."""
        self._sign: IntVec = _NONE
        """``(J,)`` a number that changes with a job's reason or pod count; 0 if not waiting."""
        self._generation = -1
        self._rows: RowVec = _NONE
        self._urgent: tuple[dict[int, None], ...] = ({}, {})
        """Rows with a new reason: of jobs without, and of jobs with a pod group."""
        self._cursor = 0

    def update(self, snapshot: Snapshot, records: Records) -> list[str]:
        """Take in the waiting jobs of a cycle; return those that wait no longer."""
        jobs, rows = snapshot.jobs, records.rows
        sign = np.zeros(len(jobs.name), np.int64)
        # Most reasons name the number of pods.
        alive = jobs.pending[rows] + jobs.active[rows]
        sign[rows] = (alive.astype(np.int64) << 16) + records.codes + 1
        if snapshot.generation != self._generation:
            old, gone = self._carried(snapshot, rows, len(sign))
        else:
            gone, old = [], np.zeros(len(sign), np.int64)
            old[: len(self._sign)] = self._sign
        gone += [jobs.name[row] for row in np.flatnonzero((old != 0) & (sign == 0)).tolist()]
        for job in gone:
            self._row_of_name.pop(job, None)
        for row in np.flatnonzero((sign != old) & (sign != 0)).tolist():
            name = jobs.name[row]
            self._row_of_name[name] = row
            self._urgent[self._is_declared(name)][row] = None
        self._generation, self._rows, self._sign = snapshot.generation, rows, sign
        return gone

    def _carried(self, snapshot: Snapshot, rows: RowVec, count: int) -> tuple[IntVec, list[str]]:
        """Return the old numbers by the new rows, and the jobs that wait no longer."""
        names, before, was = snapshot.jobs.name, self._row_of_name, self._sign
        old = np.zeros(count, np.int64)
        urgent = {*self._urgent[0], *self._urgent[1]}
        self._urgent, self._row_of_name = ({}, {}), {}
        for row in rows.tolist():
            name = names[row]
            if (then := before.pop(name, -1)) >= 0:
                old[row] = was[then]
                self._row_of_name[name] = row
                if then in urgent:
                    self._urgent[self._is_declared(name)][row] = None
        self._cursor = 0
        return old, list(before)

    @property
    def names(self) -> KeysView[str]:
        """The jobs that waited in the last cycle taken in."""
        return self._row_of_name.keys()

    def next_rows(self, most: int, *, with_old: bool = True) -> list[int]:
        """Return the rows of the waiting jobs to report next; all have their turn.

        Args:
            most: how many rows at most.
            with_old: include jobs without a new reason.

        """
        found: list[int] = []
        lines = [it for it in self._urgent if it]
        while lines and len(found) < most - most // _SHARE:
            for news in lines:
                row = next(iter(news))
                del news[row]
                if self._sign[row]:
                    found.append(row)
            lines = [it for it in lines if it]
        if not with_old:
            return found
        start = int(np.searchsorted(self._rows, self._cursor))
        line = np.concatenate([self._rows[start:], self._rows[:start]])[: most - len(found)]
        if line.size:
            self._cursor = int(line[-1]) + 1
        taken = set(found)
        return found + [row for row in line.tolist() if row not in taken]


# -- events: pods that do not end ------------------------------------------------------------------

STUCK: Final = "StuckTerminating"
VOID: Final = "PromiseVoid"


class FreshPods:
    """Tells which pods have joined a set since the last cycle; a new process tells all of them."""

    def __init__(self) -> None:
        """Begin without pods."""
        self._before: frozenset[str] = frozenset()

    def of(self, pods: Iterable[str]) -> list[str]:
        """Return those of some pods that were not among those of the last call, by name."""
        before, self._before = self._before, frozenset(pods)
        return sorted(self._before - before)


def _notes_of_stuck(store: StateStore, key: str, result: CycleResult) -> Iterator[Note]:
    node, age = store.node_of(key), format_duration(round(store.facts.stuck.after_s(key)))
    text = (
        f"its deletion was requested {age} ago and it has not ended: it holds its room on node"
        f" {node}, and no job waits for that room any more; look for a finalizer, a container that"
        " cannot be killed, or a node whose kubelet is down"
    )
    yield Note(key, store.pods.version_of(key)[0], STUCK, "Terminating", text, is_warning=True)
    kept = {(it.pod, it.node) for it in result.binds}
    kept |= {(it.pod, it.node) for it in result.nominations}
    for pod in sorted(store.facts.promised_to(node)):
        if (pod, node) not in kept:
            text = (
                f"node {node} is no longer promised to it: the deletion of pod {key} there was"
                f" requested {age} ago and it has not ended; every node is tried again"
            )
            yield Note(
                pod, store.pods.version_of(pod)[0], VOID, "Scheduling", text, is_warning=True
            )


# -- events: pods whose owner never came -----------------------------------------------------------

ALONE: Final = "OwnerNotRead"


def _notes_of_lone(store: StateStore, key: str) -> Iterator[Note]:
    known = store.pods.get(key)
    if known is None or known[1] is None or not known[1].missing:
        return
    pod, member = known[0], known[1]
    text = (
        f"its owner {member.missing} was not read within"
        f" {format_duration(store.members.unsettled.most_s)}: the gang settings of the owner do not"
        " count; check with kaisched doctor whether its kind is served and may be read"
    )
    yield Note(key, pod.uid, ALONE, "Scheduling", text, is_warning=True)


# -- events: jobs whose run time is soon over ------------------------------------------------------

ENDING: Final = "RunTimeEnding"
WARNING_S: Final = 600.0
"""So long before its end a job is warned."""


class EndingJobs:
    """Remembers which jobs have got the event; a new process sends it once more."""

    def __init__(self) -> None:
        """Begin without events."""
        self._told: dict[str, float] = {}
        """By job, the end that it was told of."""

    def after(self, store: StateStore, snapshot: Snapshot, now_s: float) -> list[Note]:
        """Return the events to be sent after a cycle: one for each job, on its first pod."""
        rows, ends_s = limited_jobs(snapshot.queues, snapshot.jobs)
        is_soon = (now_s < ends_s) & (ends_s <= now_s + WARNING_S)
        names = snapshot.jobs.name
        soon = {
            names[job]: (job, end_s)
            for job, end_s in zip(rows[is_soon].tolist(), ends_s[is_soon].tolist(), strict=True)
        }
        before = self._told
        self._told = {name: end_s for name, (_, end_s) in soon.items()}
        return [
            note
            for name, (job, end_s) in soon.items()
            if before.get(name) != end_s
            for note in _notes_of_ending(store, snapshot, job, end_s)
        ]


def _notes_of_ending(
    store: StateStore, snapshot: Snapshot, job: int, end_s: float
) -> Iterator[Note]:
    queues, jobs = snapshot.queues, snapshot.jobs
    row = np.array([job])
    kind = WORKLOADS[int(jobs.workload_of(row)[0])]
    most = format_duration(float(limits_s(queues, jobs, row)[0]))
    text = (
        f"queue {limiting_queue(queues, jobs, job)} lets {kind} run for {most} at a stretch"
        f" (maxRunTime): the job is evicted at {format_time(round(end_s))}, and then waits behind"
        " its equals; save what it has done"
    )
    for pod, uid in store.members.running_pods(jobs.name[job])[:1]:
        yield Note(pod, uid, ENDING, "Eviction", text, is_warning=True)


# -- the reporter ----------------------------------------------------------------------------------
# After a cycle the reporter computes the desired statuses of objects; :class:`DesiredReports`
# writes them until they arrive. The cost per turn is bounded: the reasons of jobs are compared in
# arrays, and only jobs with a new reason are written out at once, the others in turn.

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
        report_queue: ReportQueue,
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
            report_queue: queue of the reports.
            clock: gives the times in conditions and events.
            store: has the pods to be reported on.
            node_pool: name of our node pool in the conditions of pod groups.
            counts: counts the outcomes of the reports.
            advice: changes that would help waiting jobs.

        """
        self._clock, self._store, self._report_queue = clock, store, report_queue
        self._node_pool = node_pool or "default"
        self._seen = SeenObjects(store, self._node_pool)
        self._desired = DesiredReports(
            client,
            report_queue,
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
        self._stuck, self._alone, self._ending = FreshPods(), FreshPods(), EndingJobs()
        self._amounts, self._statuses, self._shares = GroupAmounts(), QueueStatuses(), QueueShares()
        self._ripening: list[str] = []
        """New pod groups: their amounts are reported in the next round, with their pods."""

    def handle(self, change: Change) -> None:
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
            store = self._store
            for key in self._stuck.of(store.facts.stuck):
                for note in _notes_of_stuck(store, key, result):
                    self.note(note)
            for key in self._alone.of(store.members.unsettled.waited):
                for note in _notes_of_lone(store, key):
                    self.note(note)
            for note in self._ending.after(store, snapshot, self._clock.now_s()):
                self.note(note)
        self._desired.correct_placed()
        now_s = self._report_queue.now()
        if now_s - self._last_s < ROUND_S or result.stats.abandoned:
            return
        self._last_s = now_s
        self._queues(snapshot, result)
        self._jobs_that_wait(snapshot, result)
        self._pods_held_back()
        self._groups_amounts(snapshot)

    # -- jobs that wait --------------------------------------------------------------------------

    def _jobs_that_wait(self, snapshot: Snapshot, result: CycleResult) -> None:
        records, names = result.records, snapshot.jobs.name
        for job in self._jobs.update(snapshot, records):
            self._withdraw_pods(job)
            self._group(job, None)
        for job in sorted(set(self._seen.with_condition) - self._jobs.names):
            self._group(job, None)
        with_old = self._report_queue.waiting < MOST_BEHIND
        tells_running = is_told_of_running(self._store, self._node_pool)
        for row in self._jobs.next_rows(MOST_RECORDS, with_old=with_old):
            record, job = records.record(row), names[row]
            message = self._message(record, self._advice.words(records.session, row, record))
            self._pods_of(job, message)
            is_told = tells_running or not snapshot.jobs.active[row]
            said = why_waiting(self._node_pool, record.reason, message, record.numbers)
            self._group(job, said if is_told else None)

    def passed_on(self, job: str) -> None:
        """Stop reporting a job that was passed on to another node pool; its status stays."""
        self._withdraw_pods(job)
        self._desired.withdraw(GROUP, f"podgroups/{job}")

    def _withdraw_pods(self, job: str) -> None:
        for key in self._pods.pop(job, ()):
            self._desired.withdraw(POD, key)

    def _pods_of(self, job: str, message: str) -> None:
        if self._store.members.is_silent(job):
            self._withdraw_pods(job)
            return
        held = self._store.facts.held_back
        waiting = [it for it in self._store.pending_pods(job) if it[0] not in held]
        pods = {f"pods/{key}": uid for key, uid in waiting}
        for key in self._pods.get(job, ()):
            if key not in pods:
                self._desired.withdraw(POD, key)
        self._pods[job] = list(pods)
        for key, uid in pods.items():
            self._desired.set_desired(POD, key, (uid, message))

    def _pods_held_back(self) -> None:
        """Say of pods that could not be bound why; the jobs of most do not wait meanwhile."""
        for key, why in self._store.facts.held_back.why.items():
            pod, member = self._store.pods.get(key, (None, None))
            is_silent = member is not None and self._store.members.is_silent(member.job)
            if pod is not None and not is_silent:
                text = f"{why}; it is tried again, more rarely each time"
                self._desired.set_desired(POD, f"pods/{key}", (pod.uid, text[:MOST_MESSAGE]))

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

    def _group(self, job: str, said: dict[str, Any] | None) -> None:
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
        if self._report_queue.waiting < MOST_BEHIND:
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
