"""The desired status of objects, and the writes that bring it about."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import structlog

from kaisched.cluster.kubernetes.client import (
    JSON,
    MERGE,
    STRATEGIC,
    Answer,
    Client,
    Counts,
    Pauses,
)
from kaisched.cluster.kubernetes.pods import CONFLICT, GONE, SERVER_FAULT, is_passing, passing
from kaisched.cluster.kubernetes.statuses import matches, quantities, stamped
from kaisched.cluster.kubernetes.write_queue import Entry, ReportQueue
from kaisched.cluster.store import StateStore
from kaisched.errors import ClusterUnavailable
from kaisched.objects.labels import pool_name
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

# -- scheduling conditions of pod groups -----------------------------------------------------------
# The entry with the highest number is the newest. Selectors of node pools read it: if it names
# the pool in which a job is, the job was tried there and refused, and may be given another pool.

UNSCHEDULABLE_ON_POOL: Final = "UnschedulableOnNodePool"
_NUMBER: Final = "transitionID"
_MOST_DIGITS: Final = 18


class PoolWord(NamedTuple):
    """What one node pool has to say of a job in the status of its pod group."""

    pool: str
    """Name of the pool."""
    said: Mapping[str, Any] | None
    """Why the pool could not take the job; None if the job waits no more."""
    pools: frozenset[str]
    """The pools whose entries end once the job waits no more."""


_KAI_REASONS: Final = {
    "EvictionDelay": "PreemptionDelayNotElapsed",
    "QueueOrphan": "QueueDoesNotExist",
}
"""KAI-Scheduler's names of reasons that it has under another name."""
_DETAILS: Final = {
    "OverLimit": (
        ("held", "queueAllocatedResources"),
        ("asked", "podGroupRequestedResources"),
        ("limit", "queueResourceLimits"),
    ),
    "NonPreemptibleOverQuota": (
        ("held", "queueAllocatedNonPreemptibleResources"),
        ("asked", "podGroupRequestedNonPreemptibleResources"),
        ("quota", "queueDeservedResources"),
    ),
}
"""Where KAI-Scheduler has the numbers of a record, of the resource that is exceeded."""


def why_waiting(
    pool: str, reason: str, message: str, numbers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the entry of a pool that could not take a job, without number and time."""
    explanation: dict[str, Any] = {"reason": _KAI_REASONS.get(reason, reason), "message": message}
    fields = _DETAILS.get(reason, ())
    if numbers and fields and numbers.keys() >= {"queue", "resource", *dict(fields)}:
        what = str(numbers["resource"])
        amounts = {key: quantities({what: numbers[word]}) for word, key in fields}
        explanation["details"] = {"queueDetails": {"name": numbers["queue"], **amounts}}
    return {
        "type": UNSCHEDULABLE_ON_POOL,
        "nodePool": pool,
        "reason": reason,
        "message": message,
        "reasons": [explanation],
        "status": "True",
    }


def pool_of(entry: Mapping[str, Any]) -> str:
    """Return the name of the pool in an entry."""
    return str(entry.get("nodePool", ""))


def due_entries(
    current: Sequence[Mapping[str, Any]], word: PoolWord, now: str
) -> list[Mapping[str, Any]] | None:
    """Return the entries that a pod group should have; None if it has them.

    Args:
        current: the entries as they are.
        word: what we have to say.
        now: the time, as it is written.

    """
    if word.said is None:
        kept = [it for it in current if pool_of(it) not in word.pools]
        return None if len(kept) == len(current) else kept
    theirs = [it for it in current if pool_of(it) != word.pool]
    newest = max(enumerate(current), key=lambda it: (_number(it[1]), it[0]), default=(-1, {}))[1]
    is_newest = pool_of(newest) == word.pool and len(theirs) == len(current) - 1
    if is_newest and all(newest.get(key) == value for key, value in word.said.items()):
        return None
    number = max(map(_number, current), default=0) + 1
    return [*theirs, {**word.said, _NUMBER: str(max(number, 1)), "lastTransitionTime": now}]


def _number(entry: Mapping[str, Any]) -> int:
    """Return the number of an entry; -1 for one without, which is older than all others."""
    text = str(entry.get(_NUMBER, ""))
    is_number = text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else -1


def pools_known(store: StateStore, own: str) -> frozenset[str]:
    """Return the names of the pools that the shards known to a store serve, ours included."""
    if not store.pools.is_on:
        return frozenset((own,))
    return frozenset((own, *map(pool_name, store.pools.owners.served)))


def is_told_of_running(store: StateStore, own: str) -> bool:
    """Tell whether a job of which pods run may have an entry for the pods that wait.

    Where there are several pools a selector might take the job to another one for it.
    """
    return not store.pools.is_on and own == pool_name("")


# -- current statuses ------------------------------------------------------------------------------
# An answer to a write is newer than the watch at that time. Later events of older versions are
# left out; otherwise a status that is there already would be written once more.

Reported: TypeAlias = Pod | PodGroup | Queue
SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"


class Seen(NamedTuple):
    """The current status of one object."""

    uid: str
    version: str
    status: Any
    """For a pod only the message of its condition; None if the pod has no condition of waiting."""
    is_placed: bool = False
    """A pod has a node; it is kept only because its condition still says that it waits."""
    is_answer: bool = False
    """From the server's answer to a write, which the watch has not reached yet."""


def key_of(obj: Reported) -> str:
    """Return the key of an object, unique among all kinds."""
    if isinstance(obj, Pod):
        return f"pods/{obj.key}"
    return f"queues/{obj.name}" if isinstance(obj, Queue) else f"podgroups/{obj.key}"


class SeenObjects:
    """Pods that wait or wrongly say so, pod groups and queues. For one thread at a time."""

    def __init__(self, store: StateStore, node_pool: str) -> None:
        """Begin without objects.

        Args:
            store: tells which pods are ours.
            node_pool: name of our node pool in the conditions of pod groups.

        """
        self._store, self._node_pool = store, node_pool
        self._objects: dict[str, Seen] = {}
        self.with_condition: dict[str, None] = {}
        """Pod groups with a condition that nodes of a pool known to us could not take them."""
        self.fresh: dict[str, None] = {}
        """New pod groups, by job; the reporter takes them out."""
        self.wrongly_waiting: dict[str, None] = {}
        """Pods of ours that have a node and a condition that says that they wait."""

    def get(self, key: str) -> Seen | None:
        """Return the current status of an object; None if it is not known."""
        return self._objects.get(key)

    def drop(self, key: str) -> None:
        """Forget an object: it is gone."""
        self._objects.pop(key, None)
        self.wrongly_waiting.pop(key, None)
        kind, _, job = key.partition("/")
        if kind == "podgroups":  # a pod may have the name of a pod group
            self.with_condition.pop(job, None)
            self.fresh.pop(job, None)

    def trust_watch(self, key: str) -> None:
        """Accept any event of the watch again: the server has refused the version that we know."""
        seen = self._objects.get(key)
        if seen is not None:
            self._objects[key] = seen._replace(is_answer=False)

    def observe(self, obj: Reported, *, is_answer: bool = False) -> bool:
        """Take in a version of an object; return False if a newer one is known."""
        key, meta = key_of(obj), obj.metadata
        before = self._objects.get(key)
        if before is not None and _is_older(meta.resource_version, before, meta.uid, is_answer):
            return False
        if isinstance(obj, Pod):
            self._observe_pod(key, obj, is_answer=is_answer)
            return True
        if isinstance(obj, PodGroup):
            if before is None:
                self.fresh[obj.key] = None
            said = obj.status.scheduling_conditions
            if said and not pools_known(self._store, self._node_pool).isdisjoint(
                map(pool_of, said)
            ):
                self.with_condition[obj.key] = None
            else:
                self.with_condition.pop(obj.key, None)
        status = msgspec.to_builtins(obj.status)
        self._objects[key] = Seen(meta.uid, meta.resource_version, status, is_answer=is_answer)
        return True

    def _observe_pod(self, key: str, pod: Pod, *, is_answer: bool) -> None:
        said = next((it for it in pod.status.conditions if it.type == SCHEDULED), None)
        says_so = said is not None and said.status == "False" and said.reason == UNSCHEDULABLE
        message = said.message if said is not None and says_so else None
        is_placed = bool(pod.spec.node_name)
        is_wrong = is_placed and says_so and self._store.ours.may_place(pod)
        if is_wrong:
            self.wrongly_waiting[key] = None
        else:
            self.wrongly_waiting.pop(key, None)
        if is_wrong or not (is_placed or pod.status.phase in {"Succeeded", "Failed"}):
            meta = pod.metadata
            self._objects[key] = Seen(
                meta.uid, meta.resource_version, message, is_placed, is_answer
            )
        else:
            self._objects.pop(key, None)


def _is_older(version: str, seen: Seen, uid: str, is_answer: bool) -> bool:
    """Tell whether a version of an object is older than the known one."""
    if uid != seen.uid or not (seen.is_answer or is_answer):
        return False
    is_comparable = version.isdecimal() and seen.version.isdecimal()
    return is_comparable and int(version) < int(seen.version)


# -- writes ----------------------------------------------------------------------------------------

_CORE: Final = "/api/v1/namespaces"


class Write(NamedTuple):
    """A request to be sent now."""

    path: str
    body: dict[str, Any]
    content_type: str = MERGE
    message: str = ""
    """The new message of a pod's condition; empty for other writes."""


def for_queue(seen: Seen, desired: dict[str, Any], name: str, now: str) -> Write | None:
    """Return the write of a part of a queue's status; None if the queue has it."""
    if matches(seen.status, desired):
        return None
    status = stamped(desired, seen.status, now) if "conditions" in desired else desired
    path = f"/apis/{Queue.API_VERSION}/queues/{name}/status"
    return Write(path, {"metadata": version_of(seen), "status": status})


def for_pod(seen: Seen, desired: tuple[str, str] | None, name: str, now: str) -> Write | None:
    """Return the write of a pod's condition; None if it has it, or is another pod."""
    condition: dict[str, Any] = {"type": SCHEDULED, "lastTransitionTime": now}
    uid, message = desired or ("", "")
    if seen.is_placed:
        # The same condition that the server sets when a pod is bound.
        condition |= {"status": "True", "reason": None, "message": None}
        message = ""
    elif uid != seen.uid or message == seen.status:
        return None
    else:
        condition |= {"status": "False", "reason": UNSCHEDULABLE, "message": message}
    namespace, _, name = name.partition("/")
    meta = {"uid": seen.uid, **version_of(seen)}
    body = {"metadata": meta, "status": {"conditions": [condition]}}
    return Write(f"{_CORE}/{namespace}/pods/{name}/status", body, STRATEGIC, message)


def version_of(seen: Seen) -> dict[str, str]:
    """Return the metadata of a write that is refused if the object has changed since."""
    return {"resourceVersion": seen.version} if seen.version else {}


# -- desired statuses ------------------------------------------------------------------------------
# The desired status is compared with the current one when a write is about to be sent. Each write
# names the version of the object on which it is based, so the server refuses it if the object has
# changed since; then the object is compared again after the next event of its watch. A desired
# status is kept until the object has it: whatever happens to a write, the latest one arrives.

QUEUE, GROUP, AMOUNTS, POD, EVENT, SHARES = range(6)
"""The parts of objects that are reported, the most urgent first."""
WEIGHTS: Final[Mapping[int, int]] = {
    QUEUE: 8,
    GROUP: 8,
    AMOUNTS: 2,
    POD: 4,
    EVENT: 1,
    SHARES: 1,
}
"""The share of each part in the writes while several are due."""
AGAIN_S: Final[Mapping[int, float]] = {
    QUEUE: 2.0,
    GROUP: 30.0,
    AMOUNTS: 5.0,
    POD: 30.0,
    EVENT: 0.0,
    SHARES: 30.0,
}
"""Shortest time between two writes of a status that changes all the time."""
SETTLED_S: Final = 0.5
"""A status that has not changed for so long is written at once."""
MOST_EVENTS: Final = 500
"""No event is added while so many wait."""
_TRIES: Final = 3
"""An event is dropped after so many failed tries."""
_CONFLICT_S: Final = (0.1, 10.0)
"""Shortest and longest pause after the server refused a write, since the object has changed."""
_REFUSED_S: Final = 60.0
"""Pause after the server refused a write for any other reason."""
_LOG_AGAIN_S: Final = 60.0
"""How often refused writes of one sort are logged."""
_MOST_DOUBLINGS: Final = 9
_MOST_PAUSE_S: Final = 1.0
"""Longest pause while the server does not answer, whatever waits."""
_INVALID: Final = 422
_CONDITIONS, _AMOUNTS = "schedulingConditions", "resourcesStatus"
_TYPES: Final[Mapping[int, type[Pod | PodGroup | Queue]]] = {
    QUEUE: Queue,
    GROUP: PodGroup,
    AMOUNTS: PodGroup,
    POD: Pod,
    SHARES: Queue,
}
_RUN_AI: Final = f"/apis/{PodGroup.API_VERSION}/namespaces"


class _Attempts(NamedTuple):
    """The outcome of the writes of one entry so far."""

    written_s: float
    overwritten: int = 0
    """How often another writer has overwritten the status since we last changed it."""
    conflicts: int = 0
    """How often in a row the server had another version of the object."""


_NEW: Final = _Attempts(-1e9)


def _part_of(entry: Entry, seen: Seen, desired: Any) -> Any:
    """Return what an object has of the part of its status that an entry is about."""
    status = seen.status or {}
    if entry.what == GROUP:
        return status.get(_CONDITIONS)
    return {part: status.get(part) for part in desired}


class DesiredReports:
    """Compares desired with current statuses and writes the differences.

    For any number of threads: the loop sets desired statuses, reflectors report current ones, and
    writers call :meth:`step`.
    """

    def __init__(
        self,
        client: Client,
        report_queue: ReportQueue,
        seen: SeenObjects,
        *,
        stamp: Callable[[], str],
        on_reported: Callable[[str, str, str], None],
        counts: Counts,
    ) -> None:
        """Begin without a desired status.

        Args:
            client: sends the writes.
            report_queue: queue of the entries by the time when they are due.
            seen: the current statuses.
            stamp: returns the time in the form that conditions use.
            on_reported: called with (pod, UID, message) when a pod got a new message.
            counts: counts the outcomes of the writes.

        """
        self._client, self._report_queue, self._seen = client, report_queue, seen
        self._stamp, self._on_reported, self._counts = stamp, on_reported, counts
        self._lock = threading.RLock()
        self._desired: dict[Entry, Any] = {}
        self._reported: set[Entry] = set()
        """Entries whose object had the desired status when last compared."""
        self._attempts: dict[Entry, _Attempts] = {}
        self._events: dict[str, tuple[Write, int]] = {}
        self._number = 0
        self._unkept: set[tuple[str, str]] = set()
        """(Kind, part of the status) that the server has dropped: its definition has no such field.
        """
        self._vain: dict[Entry, tuple[Any, Any]] = {}
        """Entries of which the server keeps less than was desired, and what it keeps: to write the
        same once more would change nothing."""
        self._pauses = Pauses(most_s=_MOST_PAUSE_S)
        self._logged_s: dict[tuple[int, int], float] = {}
        """When refused writes were last logged, by part and answer."""
        self._log: Any = structlog.get_logger()

    # -- current and desired statuses ------------------------------------------------------------

    def observe(self, obj: Reported, key: str, *, is_gone: bool) -> None:
        """Take in the current status of an object, or that it is gone."""
        with self._lock:
            if is_gone:
                self._seen.drop(key)
                self._forget(key)
            elif self._seen.observe(obj):
                self._compare_parts(key)

    def _compare_parts(self, key: str) -> None:
        """Compare all parts of an object that has changed."""
        parts = (POD,) if key.startswith("pods/") else (QUEUE, GROUP, AMOUNTS, SHARES)
        is_known = self._seen.get(key) is not None
        for entry in (Entry(what, key) for what in parts):
            if entry in self._desired:
                if is_known:
                    self._compare(entry, is_news=False)
                else:
                    self._withdraw(entry)

    def _forget(self, key: str) -> None:
        for what in (QUEUE, GROUP, AMOUNTS, POD, SHARES):
            self._withdraw(Entry(what, key))

    def set_desired(self, what: int, key: str, desired: Any) -> None:
        """Set the desired status of a part of an object, until it is set again or withdrawn."""
        entry = Entry(what, key)
        with self._lock:
            if self._desired.get(entry) != desired:
                self._desired[entry] = desired
                self._compare(entry, is_news=True)

    def withdraw(self, what: int, key: str) -> None:
        """Forget the desired status of a part of an object; its current status stays."""
        with self._lock:
            self._withdraw(Entry(what, key))

    def _withdraw(self, entry: Entry) -> None:
        self._desired.pop(entry, None)
        self._attempts.pop(entry, None)
        self._vain.pop(entry, None)
        self._reported.discard(entry)
        self._report_queue.settle(entry)

    def correct_placed(self) -> None:
        """Correct pods that have a node and still have the condition of waiting ones."""
        with self._lock:
            for key in self._seen.wrongly_waiting:
                self._compare(Entry(POD, key), is_news=True)

    def add_event(self, write: Write) -> None:
        """Send an event, unless too many wait."""
        with self._lock:
            if len(self._events) >= MOST_EVENTS:
                self._counts.add("report", DROPPED)
                return
            self._number += 1
            entry = Entry(EVENT, f"events/{self._number}")
            self._events[entry.key] = write, _TRIES
            self._report_queue.put(entry, self._report_queue.now())

    def _compare(self, entry: Entry, *, is_news: bool) -> None:
        """Put an entry in the queue if its object lacks the desired status; not too often."""
        if self._compose(entry) is None:
            self._settle(entry)
            return
        was_reported = entry in self._reported
        self._reported.discard(entry)
        now_s, past = self._report_queue.now(), self._attempts.get(entry, _NEW)
        if past.conflicts:
            due_s = now_s
        elif is_news:
            due_s = max(now_s, min(past.written_s + AGAIN_S[entry.what], now_s + SETTLED_S))
            past = past._replace(overwritten=0)
        elif was_reported:  # another writer has overwritten the status: do not race with it
            due_s = max(now_s, past.written_s + 2.0 ** min(past.overwritten, _MOST_DOUBLINGS))
            past = past._replace(overwritten=past.overwritten + 1)
        else:
            return  # the write is under way
        self._attempts[entry] = past
        self._report_queue.put(entry, due_s)

    def _settle(self, entry: Entry) -> None:
        if self._seen.get(entry.key) is None:
            # The object is gone, perhaps while an answer was under way: no event will come of it.
            self._withdraw(entry)
            return
        self._reported.add(entry)
        self._report_queue.settle(entry)

    # -- what is missing -------------------------------------------------------------------------

    def _compose(self, entry: Entry) -> Write | None:
        """Return the write that an object lacks; None if it lacks none, or is not known."""
        seen, desired = self._seen.get(entry.key), self._desired.get(entry)
        kind, _, name = entry.key.partition("/")
        if seen is not None and entry.what == POD:
            return for_pod(seen, desired, name, self._stamp())
        if seen is None or desired is None:
            return None
        if self._vain.get(entry) == (desired, _part_of(entry, seen, desired)):
            return None
        if kind == "queues":
            return for_queue(seen, self._kept("queues", desired), name, self._stamp())
        return self._for_group(entry, seen, name)

    def _kept(self, kind: str, desired: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of a status that the server's definition holds, as far as is known."""
        return {part: it for part, it in desired.items() if (kind, part) not in self._unkept}

    def _for_group(self, entry: Entry, seen: Seen, name: str) -> Write | None:
        """Return the write of all that a pod group lacks, if the part asked about is included."""
        status = self._lacking(entry.key, seen)
        if (_CONDITIONS if entry.what == GROUP else _AMOUNTS) not in status:
            return None
        namespace, _, name = name.partition("/")
        path = f"{_RUN_AI}/{namespace}/podgroups/{name}/status"
        return Write(path, {"metadata": version_of(seen), "status": status})

    def _lacking(self, key: str, seen: Seen) -> dict[str, Any]:
        """Return the parts of a pod group's status that differ from the desired ones."""
        current = seen.status or {}
        desired = self._kept("podgroups", self._desired.get(Entry(AMOUNTS, key)) or {})
        lacking = {part: it for part, it in desired.items() if not matches(current, {part: it})}
        word = self._desired.get(Entry(GROUP, key))
        if word is not None and ("podgroups", _CONDITIONS) not in self._unkept:
            entries = due_entries(current.get(_CONDITIONS, ()), word, self._stamp())
            if entries is not None:
                lacking[_CONDITIONS] = entries
        return lacking

    # -- writing ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Send the next write that is due and still needed; return False if there is none."""
        while (entry := self._report_queue.take()) is not None:
            try:
                with self._lock:
                    write, desired = self._next_write(entry), self._desired.get(entry)
                if write is not None:
                    self._write(entry, write, desired)
                    return True
            except Exception:
                self._report_queue.put(entry, self._report_queue.now() + _REFUSED_S)
                raise
            finally:
                self._report_queue.done(entry)
        return False

    def _next_write(self, entry: Entry) -> Write | None:
        if entry.what == EVENT:
            return self._events[entry.key][0]
        write = self._compose(entry)
        if write is None:
            self._settle(entry)
        return write

    def _write(self, entry: Entry, write: Write, desired: Any) -> None:
        passing("status.before_patch")
        is_event = entry.what == EVENT
        method, form = ("POST", JSON) if is_event else ("PATCH", write.content_type)
        try:
            answer = self._client.call(method, write.path, body=write.body, content_type=form)
        except ClusterUnavailable:
            answer = Answer(SERVER_FAULT, b"")
        passing("status.after_patch")
        if is_passing(answer):
            pause_s = self._pauses.next_s(answer.retry_after_s)
            self._report_queue.pause(pause_s)
        else:
            self._pauses.reset()
        with self._lock:
            if is_event:
                self._event_done(entry, write, answer)
            else:
                self._done(entry, write, desired, answer)

    def _event_done(self, entry: Entry, write: Write, answer: Answer) -> None:
        tries = self._events.pop(entry.key)[1] - 1
        if is_passing(answer) and tries:
            self._counts.add("report", RETRIED)
            self._events[entry.key] = write, tries
            self._report_queue.put(entry, self._report_queue.now())
        else:
            self._counts.add("report", DONE if answer.is_done else FAILED)
            self._log_refusal(entry, write, answer)

    def _log_refusal(self, entry: Entry, write: Write, answer: Answer) -> None:
        """Log a refused write, for each part and answer once in a while."""
        if answer.is_done or answer.code == GONE or is_passing(answer):
            return
        sort, now_s = (entry.what, answer.code), self._report_queue.now()
        if now_s - self._logged_s.get(sort, -math.inf) >= _LOG_AGAIN_S:
            self._logged_s[sort] = now_s
            self._log.warning("report_refused", path=write.path, answer=answer.text())

    def _done(self, entry: Entry, write: Write, desired: Any, answer: Answer) -> None:
        now_s, past = self._report_queue.now(), self._attempts.get(entry, _NEW)
        if answer.is_done:
            self._counts.add("report", DONE)
            self._attempts[entry] = past._replace(written_s=now_s, conflicts=0)
            self._observe_answer(entry, answer)
            if write.message:
                uid = write.body["metadata"]["uid"]
                self._on_reported(entry.key.partition("/")[2], uid, write.message)
            self._report_queue.settle(entry)  # the next write is a new one
            self._note_unkept(entry, write, desired)
            if self._compose(entry) is None:
                self._settle(entry)
            else:
                self._report_queue.put(entry, now_s + SETTLED_S)
            return
        if answer.code == GONE:
            self._counts.add("report", FAILED)
            self._seen.drop(entry.key)
            self._forget(entry.key)
        elif is_passing(answer):
            self._counts.add("report", RETRIED)
            self._report_queue.put(entry, now_s)
        elif answer.code == CONFLICT or (answer.code == _INVALID and entry.what == POD):
            # The object has changed, or is another one: an event of its watch follows.
            self._counts.add("report", RETRIED)
            self._seen.trust_watch(entry.key)
            least_s, most_s = _CONFLICT_S
            self._attempts[entry] = past._replace(conflicts=past.conflicts + 1)
            self._report_queue.put(
                entry, now_s + min(least_s * 2.0 ** min(past.conflicts, 9), most_s)
            )
        else:
            self._counts.add("report", FAILED)
            self._log_refusal(entry, write, answer)
            self._report_queue.put(entry, now_s + _REFUSED_S)

    def _note_unkept(self, entry: Entry, write: Write, desired: Any) -> None:
        """Note what the server dropped of a status: by KAI-Scheduler's definitions some parts."""
        seen = self._seen.get(entry.key)
        if seen is None or entry.what == POD or self._desired.get(entry) is not desired:
            return
        kind, kept = entry.key.partition("/")[0], seen.status or {}
        parts = [part for part, it in write.body["status"].items() if it and not kept.get(part)]
        if parts:
            self._unkept.update((kind, part) for part in parts)
            fix = "apply deploy/crds"
            self._log.warning("status_not_kept", kind=kind, parts=parts, fix=fix)
        if self._compose(entry) is not None:
            self._vain[entry] = desired, _part_of(entry, seen, desired)

    def _observe_answer(self, entry: Entry, answer: Answer) -> None:
        """Take in the object in the server's answer."""
        try:
            obj = msgspec.json.decode(answer.data, type=_TYPES[entry.what])
        except (msgspec.DecodeError, ValueError):
            return  # an event of the watch follows
        seen = self._seen.get(entry.key)
        if seen is not None and seen.uid == obj.metadata.uid:  # else it is gone by now
            self._seen.observe(obj, is_answer=True)
