"""What objects should say, and the writes that make them say so.

What is wished of an object is compared with what it says when a write is about to be sent, not when
it was wished. Each write names the version of the object that it rests on, so the server refuses
it if anything has changed since; then the object is looked at again once the watch has told more.
A wish stays until the object says so: whatever happens to a write, the last wish arrives.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from kaisched.cluster.kubernetes.client import JSON, MERGE, STRATEGIC, Answer, Client
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import CONFLICT, GONE, SERVER_FAULT, is_passing
from kaisched.cluster.kubernetes.report_box import Entry, ReportBox
from kaisched.cluster.kubernetes.seen import (
    SCHEDULED,
    UNSCHEDULABLE,
    Reported,
    Seen,
    SeenObjects,
)
from kaisched.cluster.kubernetes.statuses import says, stamped
from kaisched.errors import ClusterUnavailable
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.telemetry.adapter import DONE, DROPPED, FAILED, RETRIED

QUEUE, GROUP, AMOUNTS, POD, EVENT = range(5)
"""What is said, of what: the most urgent first."""
WEIGHTS: Final[Mapping[int, int]] = {QUEUE: 8, GROUP: 8, AMOUNTS: 2, POD: 4, EVENT: 1}
"""How the writes are shared out between those that have something to say."""
AGAIN_S: Final[Mapping[int, float]] = {
    QUEUE: 2.0, GROUP: 30.0, AMOUNTS: 5.0, POD: 30.0, EVENT: 0.0,
}  # fmt: skip
"""What changes all the time is written no more often than this,"""
SETTLED_S: Final = 0.5
"""but what has not changed for so long is written now."""
MOST_EVENTS: Final = 500
"""No event is made while so many wait."""
_TRIES: Final = 3
"""An event that cannot be written so often is left out."""
_DOUBTED_S: Final = (0.1, 10.0)
"""What the server has refused, for the object is another one, is tried again after so long."""
_REFUSED_S: Final = 60.0
"""What it does not want at all is tried again after so long."""
_COMPLAINT_S: Final = 60.0
"""How often it is said that writes of a sort are refused."""
_MOST_DOUBLINGS: Final = 9
_MOST_PAUSE_S: Final = 1.0
"""A server that does not answer is asked again after so long, whatever waits."""
_INVALID: Final = 422
_CONDITIONS, _AMOUNTS = "schedulingConditions", "resourcesStatus"
_TYPES: Final[Mapping[int, type[Pod | PodGroup | Queue]]] = {
    QUEUE: Queue, GROUP: PodGroup, AMOUNTS: PodGroup, POD: Pod,
}  # fmt: skip
_RUN_AI: Final = f"/apis/{PodGroup.API_VERSION}/namespaces"
_CORE: Final = "/api/v1/namespaces"


class Write(NamedTuple):
    """A request that is to be sent now."""

    path: str
    body: dict[str, Any]
    content_type: str = MERGE
    message: str = ""
    """What a pod is told that it was not told before."""


class _Past(NamedTuple):
    """What became of the writes of one entry."""

    written_s: float
    undone: int = 0
    """How often somebody else has said otherwise, without anything new from us."""
    doubts: int = 0
    """How often in a row the server knew another version."""


_NEW: Final = _Past(-1e9)


class DesiredReports:
    """For any number of threads: one wishes, reflectors tell what is so, writers write."""

    def __init__(
        self,
        client: Client,
        box: ReportBox,
        seen: SeenObjects,
        *,
        stamp: Callable[[], str],
        on_told: Callable[[str, str, str], None],
        counts: Counts,
    ) -> None:
        """Wish nothing.

        Args:
            client: asks the server.
            box: says what is due.
            seen: knows what objects say.
            stamp: the time, as conditions have it.
            on_told: hears of (pod, UID, message) when a pod was told something new.
            counts: what became of the writes is counted here.

        """
        self._client, self._box, self._seen = client, box, seen
        self._stamp, self._on_told, self._counts = stamp, on_told, counts
        self._lock = threading.RLock()
        self._wishes: dict[Entry, Any] = {}
        self._said: set[Entry] = set()
        """What was found to be said when last looked at."""
        self._past: dict[Entry, _Past] = {}
        self._events: dict[str, tuple[Write, int]] = {}
        self._number = 0
        self._pauses = Pauses(most_s=_MOST_PAUSE_S)
        self._complained_s: dict[tuple[int, int], float] = {}
        """When it was last said that writes of a sort are refused, by answer."""
        self._log: Any = structlog.get_logger()

    # -- what is so, and what should be ----------------------------------------------------------

    def tell(self, obj: Reported, key: str, *, is_gone: bool) -> None:
        """Take in what an object says, or that it is gone."""
        with self._lock:
            if is_gone:
                self._seen.drop(key)
                self._forget(key)
            elif self._seen.note(obj):
                self._heed(key)

    def _heed(self, key: str) -> None:
        """Look again at what an object should say, for it has changed."""
        parts = (POD,) if key.startswith("pods/") else (QUEUE, GROUP, AMOUNTS)
        is_known = self._seen.get(key) is not None
        for entry in (Entry(what, key) for what in parts):
            if entry in self._wishes:
                if is_known:
                    self._look(entry, is_news=False)
                else:
                    self._withdraw(entry)

    def _forget(self, key: str) -> None:
        for what in (QUEUE, GROUP, AMOUNTS, POD):
            self._withdraw(Entry(what, key))

    def wish(self, what: int, key: str, wanted: Any) -> None:
        """Have an object say something, from now until told otherwise."""
        entry = Entry(what, key)
        with self._lock:
            if self._wishes.get(entry) != wanted:
                self._wishes[entry] = wanted
                self._look(entry, is_news=True)

    def withdraw(self, what: int, key: str) -> None:
        """Wish nothing any more; what is said stays."""
        with self._lock:
            self._withdraw(Entry(what, key))

    def _withdraw(self, entry: Entry) -> None:
        self._wishes.pop(entry, None)
        self._past.pop(entry, None)
        self._said.discard(entry)
        self._box.settle(entry)

    def mend(self) -> None:
        """Have pods that have a node and say that they wait say so no more."""
        with self._lock:
            for key in self._seen.misled:
                self._look(Entry(POD, key), is_news=True)

    def note(self, write: Write) -> None:
        """Have an event made, if there is time for it."""
        with self._lock:
            if len(self._events) >= MOST_EVENTS:
                self._counts.add("report", DROPPED)
                return
            self._number += 1
            entry = Entry(EVENT, f"events/{self._number}")
            self._events[entry.key] = write, _TRIES
            self._box.put(entry, self._box.now())

    def _look(self, entry: Entry, *, is_news: bool) -> None:
        """Have an entry written if the object does not say it; soon, unless that was just done."""
        if self._compose(entry) is None:
            self._settle(entry)
            return
        was_said = entry in self._said
        self._said.discard(entry)
        now_s, past = self._box.now(), self._past.get(entry, _NEW)
        if past.doubts:
            due_s = now_s
        elif is_news:
            due_s = max(now_s, min(past.written_s + AGAIN_S[entry.what], now_s + SETTLED_S))
            past = past._replace(undone=0)
        elif was_said:  # somebody else says otherwise: whoever it is, we do not race
            due_s = max(now_s, past.written_s + 2.0 ** min(past.undone, _MOST_DOUBLINGS))
            past = past._replace(undone=past.undone + 1)
        else:
            return  # it is on its way
        self._past[entry] = past
        self._box.put(entry, due_s)

    def _settle(self, entry: Entry) -> None:
        if self._seen.get(entry.key) is None:
            # Gone, perhaps while a wish or an answer was under way: nobody will tell of it again.
            self._withdraw(entry)
            return
        self._said.add(entry)
        self._box.settle(entry)

    # -- what is missing -------------------------------------------------------------------------

    def _compose(self, entry: Entry) -> Write | None:
        """Return what makes an object say what it should; None where it does, or is not known."""
        seen, wanted = self._seen.get(entry.key), self._wishes.get(entry)
        kind, _, name = entry.key.partition("/")
        if seen is not None and entry.what == POD:
            return self._for_pod(seen, wanted, name)
        if seen is None or wanted is None:
            return None
        if kind == "queues":
            return self._for_queue(seen, wanted, name)
        return self._for_group(entry, seen, name)

    def _for_queue(self, seen: Seen, wanted: dict[str, Any], name: str) -> Write | None:
        if says(seen.status, wanted):
            return None
        status = stamped(wanted, seen.status, self._stamp())
        path = f"/apis/{Queue.API_VERSION}/queues/{name}/status"
        return Write(path, {"metadata": _rests_on(seen), "status": status})

    def _for_group(self, entry: Entry, seen: Seen, name: str) -> Write | None:
        """Return what a group lacks, all of it, if what is asked about is among it."""
        status = self._lacking(entry.key, seen)
        if (_CONDITIONS if entry.what == GROUP else _AMOUNTS) not in status:
            return None
        namespace, _, name = name.partition("/")
        path = f"{_RUN_AI}/{namespace}/podgroups/{name}/status"
        return Write(path, {"metadata": _rests_on(seen), "status": status})

    def _for_pod(self, seen: Seen, wanted: tuple[str, str] | None, name: str) -> Write | None:
        condition: dict[str, Any] = {"type": SCHEDULED, "lastTransitionTime": self._stamp()}
        uid, message = wanted or ("", "")
        if seen.is_placed:
            # As the server itself puts it when a pod is bound.
            condition |= {"status": "True", "reason": None, "message": None}
            message = ""
        elif uid != seen.uid or message == seen.status:
            return None
        else:
            condition |= {"status": "False", "reason": UNSCHEDULABLE, "message": message}
        namespace, _, name = name.partition("/")
        meta = {"uid": seen.uid, **_rests_on(seen)}
        body = {"metadata": meta, "status": {"conditions": [condition]}}
        return Write(f"{_CORE}/{namespace}/pods/{name}/status", body, STRATEGIC, message)

    def _lacking(self, key: str, seen: Seen) -> dict[str, Any]:
        """Return the parts of a pod group's status that are not as they should be."""
        said = seen.status or {}
        wanted: dict[str, Any] = dict(self._wishes.get(Entry(AMOUNTS, key)) or {})
        ours = self._wishes.get(Entry(GROUP, key))
        if ours is not None:
            pool, conditions = ours
            theirs = [it for it in said.get(_CONDITIONS, ()) if it.get("nodePool", "") != pool]
            wanted[_CONDITIONS] = [*theirs, *conditions]
        return {part: it for part, it in wanted.items() if not says(said, {part: it})}

    # -- writing ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Write what is due next and is still needed; False where there is nothing."""
        while (entry := self._box.take()) is not None:
            try:
                with self._lock:
                    write = self._next_write(entry)
                if write is not None:
                    self._write(entry, write)
                    return True
            except Exception:
                self._box.put(entry, self._box.now() + _REFUSED_S)
                raise
            finally:
                self._box.done(entry)
        return False

    def _next_write(self, entry: Entry) -> Write | None:
        if entry.what == EVENT:
            return self._events[entry.key][0]
        write = self._compose(entry)
        if write is None:
            self._settle(entry)
        return write

    def _write(self, entry: Entry, write: Write) -> None:
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
            self._box.pause(pause_s)
        else:
            self._pauses.reset()
        with self._lock:
            if is_event:
                self._event_done(entry, write, answer)
            else:
                self._done(entry, write, answer)

    def _event_done(self, entry: Entry, write: Write, answer: Answer) -> None:
        tries = self._events.pop(entry.key)[1] - 1
        if is_passing(answer) and tries:
            self._counts.add("report", RETRIED)
            self._events[entry.key] = write, tries
            self._box.put(entry, self._box.now())
        else:
            self._counts.add("report", DONE if answer.is_done else FAILED)
            self._complain(entry, write, answer)

    def _complain(self, entry: Entry, write: Write, answer: Answer) -> None:
        """Say what the server will not take, of each sort and answer once in a while."""
        if answer.is_done or answer.code == GONE or is_passing(answer):
            return
        sort, now_s = (entry.what, answer.code), self._box.now()
        if now_s - self._complained_s.get(sort, -math.inf) >= _COMPLAINT_S:
            self._complained_s[sort] = now_s
            self._log.warning("report_refused", path=write.path, answer=answer.text())

    def _done(self, entry: Entry, write: Write, answer: Answer) -> None:
        now_s, past = self._box.now(), self._past.get(entry, _NEW)
        if answer.is_done:
            self._counts.add("report", DONE)
            self._past[entry] = past._replace(written_s=now_s, doubts=0)
            self._believe(entry, answer)
            if write.message:
                uid = write.body["metadata"]["uid"]
                self._on_told(entry.key.partition("/")[2], uid, write.message)
            self._box.settle(entry)  # what comes now is another write
            if self._compose(entry) is None:
                self._settle(entry)
            else:
                self._box.put(entry, now_s + SETTLED_S)
            return
        if answer.code == GONE:
            self._counts.add("report", FAILED)
            self._seen.drop(entry.key)
            self._forget(entry.key)
        elif is_passing(answer):
            self._counts.add("report", RETRIED)
            self._box.put(entry, now_s)
        elif answer.code == CONFLICT or (answer.code == _INVALID and entry.what == POD):
            # It has changed, or is another one: the watch will tell.
            self._counts.add("report", RETRIED)
            self._seen.doubt(entry.key)
            least_s, most_s = _DOUBTED_S
            self._past[entry] = past._replace(doubts=past.doubts + 1)
            self._box.put(entry, now_s + min(least_s * 2.0 ** min(past.doubts, 9), most_s))
        else:
            self._counts.add("report", FAILED)
            self._complain(entry, write, answer)
            self._box.put(entry, now_s + _REFUSED_S)

    def _believe(self, entry: Entry, answer: Answer) -> None:
        """Take in the object that the server has answered with."""
        try:
            obj = msgspec.json.decode(answer.data, type=_TYPES[entry.what])
        except (msgspec.DecodeError, ValueError):
            return  # the watch will tell
        seen = self._seen.get(entry.key)
        if seen is not None and seen.uid == obj.metadata.uid:  # else it is gone by now
            self._seen.note(obj, is_answer=True)


def _rests_on(seen: Seen) -> dict[str, str]:
    return {"resourceVersion": seen.version} if seen.version else {}
