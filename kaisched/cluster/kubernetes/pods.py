"""Requests about single pods, conditions of them, and what the writers of a shard share."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import STRATEGIC, Answer, Client, Counts, Pauses
from kaisched.cluster.kubernetes.leader_election import Leadership, Term
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import PODS
from kaisched.cluster.pools.owners import PoolCondition
from kaisched.cluster.store import StateStore
from kaisched.core.axis import TaskState
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Bind, Evict
from kaisched.objects import labels
from kaisched.objects.decode import decode_json
from kaisched.objects.labels import IN_POOL
from kaisched.objects.pod import Pod
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

# -- failpoints ------------------------------------------------------------------------------------
# ``KAISCHED_FAILPOINT=bind.after_post:3`` kills the process the third time it gets there. The
# variable is read once; without it a place costs one comparison.

VARIABLE: Final = "KAISCHED_FAILPOINT"
POINTS: Final = (
    "snapshot.before",
    "apply.before",
    "apply.after",
    "bind.before_post",
    "bind.after_post",
    "evict.before_post",
    "evict.after_post",
    "status.before_patch",
    "status.after_patch",
)
SHARING_POINTS: Final = (
    "reserve.before_post",
    "reserve.after_post",
    "release.before_delete",
    "release.after_delete",
)
"""Those that are passed only where pods share GPUs."""
LOOKUP_POINTS: Final = ("lookup.before_write", "lookup.after_write")
"""Those that only pods pass which look up their GPU in a ConfigMap."""
CLAIM_POINTS: Final = ("claim.before_patch", "claim.before_put", "claim.after_put")
"""Those that only pods with claims on devices pass."""
_lock: Final = threading.Lock()


def _read() -> tuple[str, int]:
    name, _, times = os.environ.get(VARIABLE, "").partition(":")
    return name, int(times) if times.isdecimal() else 1


_wanted, _left = _read()


def passing(point: str) -> None:
    """Kill the process if the variable names this place."""
    if point != _wanted:
        return
    global _left  # noqa: PLW0603 - the process has one life
    with _lock:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


# -- what writers share, and requests about a pod --------------------------------------------------

UNAUTHORIZED, FORBIDDEN, GONE, CONFLICT, BUSY, SERVER_FAULT = 401, 403, 404, 409, 429, 500
LEASE: Final = "kaisched.io/lease"
LEADER: Final = "kaisched.io/leader"
EPOCH: Final = "kaisched.io/leader-epoch"
"""Annotations on the binds and evictions of a leader: a later leader has a higher epoch."""
_EPOCH: Final = re.compile("[0-9]{1,10}")

News: TypeAlias = Change | Callable[[StateStore], None]
"""A change of an object, or an update of the store."""


@dataclass(frozen=True, slots=True)
class Note:
    """The content of an event of a pod."""

    pod: str
    uid: str
    reason: str
    action: str
    text: str
    is_warning: bool = False


def _ignored(_: Note) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Writers:
    """The client, leadership, counters and settings that all writers of a shard share."""

    client: Client
    leadership: Leadership
    post: Callable[[News], None]
    """Passes a change to the thread that owns the store."""
    log: Any
    is_deleting: bool = False
    """Delete victims, whatever their disruption budgets say."""
    grace_s: int | None = None
    """How long a victim may take to end; as its own spec says unless given."""
    note: Callable[[Note], None] = _ignored
    """Sends an event, unless too many wait."""
    under_way: set[tuple[str, str]] = field(default_factory=set)
    """(Pod, UID) of binds that are not settled: only their writer judges their outcome."""
    counts: Counts = field(default_factory=Counts)
    """Writes by kind and outcome."""

    def annotations(self) -> dict[str, str]:
        """Return the annotations that mark a write as this leader's."""
        term = self.leadership.term
        if not term.holder:
            return {}
        return {LEASE: term.lease, LEADER: term.holder, EPOCH: str(term.epoch)}

    def refute_bind(self, bind: Bind) -> None:
        """Take back a bind that has not happened and never will."""
        self.post(lambda store: store.refute_bind(bind.pod, bind.uid))

    def refute_eviction(self, evict: Evict) -> None:
        """Take back an eviction that has not happened and never will."""
        self.post(lambda store: store.refute_eviction(evict.pod, evict.uid))

    def hold_back(self, bind: Bind, why: str) -> None:
        """Undo a failed bind, and put its pod into backoff; an event says why."""
        now_s, text = monotonic_s(), f"it could not be bound to node {bind.node}: {why}"
        self.post(lambda store: store.hold_back(bind.pod, now_s, bind.uid, text))

    def read(self, key: str, uid: str) -> Pod | None:
        """Read a pod and pass it to the store; return it, None if it is gone.

        Args:
            key: ``namespace/name``.
            uid: of the pod that was meant, since another pod may have its name by now.

        Raises:
            ClusterUnavailable: it could not be read.

        """
        answer = self.client.call("GET", path_of(key))
        namespace, _, name = key.partition("/")
        if answer.code == GONE:
            self.post(Change(PODS.stub(namespace, name, uid), is_gone=True))
            return None
        if not answer.is_done:
            raise ClusterUnavailable(f"pod {key} cannot be read: {answer.text()}")
        try:
            pod = decode_json(answer.data, Pod)
        except ObjectError as error:
            raise ClusterUnavailable(f"pod {key} is invalid: {error}") from error
        self.post(Change(pod, is_read=True))
        return pod

    def patch_status(self, key: str, uid: str, status: dict[str, Any]) -> Answer:
        """Patch a pod's status, if it still has this UID; conditions are merged by type.

        Raises:
            ClusterUnavailable: no answer.

        """
        body = {"metadata": {"uid": uid}, "status": status}
        return self.client.call("PATCH", path_of(key, "status"), body=body, content_type=STRATEGIC)


def later_leader(pod: Pod, term: Term) -> str:
    """Return the leader that has bound a pod in a later term than ours; empty if none has."""
    return later_writer(pod.metadata.annotations, term)


def later_writer(said: Mapping[str, str], term: Term) -> str:
    """Return the leader of a later term than ours that has annotated an object; empty for none."""
    holder, epoch = said.get(LEADER, ""), said.get(EPOCH, "")
    if not term.holder or holder == term.holder or not _EPOCH.fullmatch(epoch):
        return ""
    if said.get(LEASE, term.lease) != term.lease:
        return ""  # the leader of another shard
    return holder if int(epoch) > term.epoch else ""


def why_not_waiting(pod: Pod | None, uid: str) -> str:
    """Return why a pod does not wait for a node; empty if it does."""
    if pod is None:
        return "it is gone"
    if pod.metadata.uid != uid:
        return "another pod has its name"
    if pod.spec.node_name:
        return f"it is on {pod.spec.node_name}"
    if pod.status.phase in {"Succeeded", "Failed"}:
        return "it has ended"
    if pod.metadata.deletion_timestamp:
        return "it is being deleted"
    return "it has scheduling gates" if pod.spec.scheduling_gates else ""


def path_of(key: str, subresource: str = "") -> str:
    """Return the URL path of a pod (``namespace/name``), or of a subresource."""
    namespace, _, name = key.partition("/")
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path


def lacks_right(answer: Answer) -> bool:
    """Tell whether no role allows the request; a policy that refuses it answers 403 too."""
    return answer.code == FORBIDDEN and ' is forbidden: User "' in answer.status().message


def is_passing(answer: Answer) -> bool:
    """Tell whether the same request may succeed a little later."""
    return answer.code == BUSY or answer.code >= SERVER_FAULT


def may_pass(answer: Answer) -> bool:
    """Tell whether the same request may succeed without a change of what it is about.

    So it is as well while our account or a right of it is missing. All else is an answer: quotas,
    policies and other admission refuse just this object, however often it is sent.
    """
    return is_passing(answer) or answer.code == UNAUTHORIZED or lacks_right(answer)


# -- one write of a status ------------------------------------------------------------------------


@dataclass(slots=True)
class StatusPatch:
    """A write into a pod's status on which no decision relies; dropped after a few failures."""

    writers: Writers
    pod: str
    uid: str
    status: dict[str, Any]
    what: str = "report"
    """What the outcome is counted as."""
    tries: int = 3
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Write the status; return when to try again, None for no more."""
        self.tries -= 1
        try:
            answer = self.writers.patch_status(self.pod, self.uid, self.status)
        except ClusterUnavailable:
            answer = Answer(SERVER_FAULT, b"")
        if is_passing(answer) and self.tries:
            self.writers.counts.add(self.what, RETRIED)
            return self.pauses.next_s(answer.retry_after_s)
        self.writers.counts.add(self.what, DONE if answer.is_done else FAILED)
        return None

    def drop(self, why: str) -> None:
        """Give the write up."""
        del why
        self.writers.counts.add(self.what, DROPPED)


# -- since when gangs are stale --------------------------------------------------------------------
# The grace of a stale gang is longer than some leaderships. The condition is in the status of one
# of its pods: not every gang has a PodGroup, and the metadata of a PodGroup are not ours to
# write.

STALE_GANGS: Final = "stalegang"
MAY_RECOVER: Final = "stalegang.hopes"
"""Facts of the action ``stalegang``: since when jobs are stale, also those that may recover."""
AGAIN_S: Final = 5.0
"""A condition that does not show by then is written again."""


class StaleConditions:
    """Compares the conditions of pods with the facts of the action, in the loop's thread."""

    def __init__(self, writers: Writers, put: Callable[[StatusPatch], object]) -> None:
        """Begin without conditions; ``put`` queues a write."""
        self._writers, self._put = writers, put
        self._written: dict[tuple[str, bool], float] = {}
        """When a condition was last written, by (pod, whether its job is stale)."""

    def after(self, store: StateStore, stale: Mapping[str, float], at_s: float) -> None:
        """Set the condition on a pod of each stale job, and clear it on pods of all others.

        A pod that leaves, or whose eviction was sent, keeps it: if this process ends before all
        evictions have begun, the grace goes on under the next leader.

        Args:
            store: has the current conditions.
            stale: since when, by job.
            at_s: the present time.

        """
        current = store.members.stale_conditions()
        if not (stale or current):
            return
        now_s = monotonic_s()
        written = self._written.items()
        self._written = {it: when_s for it, when_s in written if now_s - when_s < AGAIN_S}
        for job, since_s in stale.items():
            if abs(max(current.get(job, {}).values(), default=0.0) - since_s) >= 1.0:
                for pod, uid in store.members.running_pods(job)[:1]:
                    self._write(pod, uid, since_s, is_stale=True)
        for job, pods in current.items():
            for pod in pods if job not in stale else ():
                row = store.pods.pod(pod)
                if row is not None and store.facts.sent.state_of(row) != TaskState.RELEASING:
                    self._write(pod, row.uid, at_s, is_stale=False)

    def _write(self, pod: str, uid: str, since_s: float, *, is_stale: bool) -> None:
        if (pod, is_stale) in self._written:
            return
        self._written[pod, is_stale] = monotonic_s()
        status = {"conditions": [_condition(since_s, is_stale=is_stale)]}
        self._put(StatusPatch(self._writers, pod, uid, status))


def _condition(since_s: float, *, is_stale: bool) -> dict[str, Any]:
    return {
        "type": labels.GANG_STALE,
        "status": "True" if is_stale else "False",
        "reason": "BelowMinimum" if is_stale else "Complete",
        "message": "fewer pods of its job run than it needs" if is_stale else "",
        "lastTransitionTime": datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


# -- pool conditions -------------------------------------------------------------------------------

_REASON: Final = "PassedOn"


@dataclass(slots=True)
class PoolConditionWrite:
    """The write of one pool condition; it has no effect if the pod has changed since."""

    writers: Writers
    condition: PoolCondition
    settled: Callable[[PoolCondition], None]
    """Called in the thread of the store, after the pod was taken in as it is now."""
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Write the condition; return None when its outcome is known, else when to try again."""
        condition, writers = self.condition, self.writers
        written = {
            "type": IN_POOL,
            "status": "True",
            "reason": _REASON,
            "message": condition.text,
        }
        metadata = {"uid": condition.uid, "resourceVersion": condition.version}
        body = {"metadata": metadata, "status": {"conditions": [written]}}
        try:
            answer = writers.client.call(
                "PATCH", path_of(condition.pod, "status"), body=body, content_type=STRATEGIC
            )
            if answer.is_done:
                writers.post(Change(decode_json(answer.data, Pod), is_read=True))
            elif answer.code >= SERVER_FAULT:
                return self._again(answer.retry_after_s)
            else:
                writers.read(condition.pod, condition.uid)  # it has changed, or is gone
        except (ClusterUnavailable, ObjectError):
            return self._again()
        writers.counts.add("mark", DONE if answer.is_done else FAILED)
        writers.post(lambda _: self.settled(condition))
        return None

    def _again(self, asked_s: float = 0.0) -> float:
        self.writers.counts.add("mark", RETRIED)
        return self.pauses.next_s(asked_s)

    def drop(self, why: str) -> None:
        """Give the condition up; the process ends, or does not lead."""
        del why
        self.writers.counts.add("mark", DROPPED)
        self.writers.post(lambda _: self.settled(self.condition))
