"""Reflector of one kind of object: lists once, then watches, and lists again after errors.

docs/explanation/on-kubernetes.md has a table of the server's answers and the reactions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import structlog

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import (
    Absence,
    Answer,
    Client,
    Pace,
    Pauses,
    RefusedError,
    Stream,
)
from kaisched.cluster.kubernetes.resources import Seen, Watched, bare_event
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.objects.devices import ResourceClaim
from kaisched.objects.pod import Pod, PodDisruptionBudget
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta

# -- changes ---------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A new or changed object, or one that is gone, of which only the identity is known."""

    obj: Seen
    is_gone: bool = False
    is_read: bool = False
    """From a read outside the watch: it may be older than the last event of the watch."""


Handler = Callable[[Change], None]


class ChangeFilter:
    """Remembers the last change of each object, so that repetitions do not wake the loop."""

    def __init__(self) -> None:
        """Begin without changes."""
        self._generations: dict[str, tuple[object, ...]] = {}

    def may_matter(self, change: Change) -> bool:
        """Tell whether a change may lead to a new decision.

        A pod on its node frees nothing and asks for nothing. A change of a pending pod's spec
        counts (by its generation), a change of its status does not: that is our own write. The same
        is true for queues and pod groups. But the status also names the claims that were made for
        a pod.
        """
        pod = change.obj
        if isinstance(pod, Queue | PodGroup):
            key = f"{pod.KIND} {pod.key}"
            if change.is_gone:
                self._generations.pop(key, None)
                return True
            return self._is_new_generation(key, pod.metadata, with_labels=True)
        if not isinstance(pod, Pod):
            return self._of_other(change)
        meta = pod.metadata
        if change.is_gone:
            self._generations.pop(pod.key, None)
            return True
        if meta.deletion_timestamp or pod.status.phase in {"Succeeded", "Failed"}:
            return True
        claims = [it.resource_claim_name for it in pod.status.resource_claim_statuses]
        return self._is_new_generation(pod.key, meta, *claims) and not pod.spec.node_name

    def _of_other(self, change: Change) -> bool:
        match change.obj:
            case PodDisruptionBudget():
                return self._allows_more(change.obj, change)
            case ResourceClaim():
                return self._frees_devices(change.obj, change)
            case _:
                return True

    def _allows_more(self, budget: PodDisruptionBudget, change: Change) -> bool:
        """Tell whether a disruption budget protects other pods than before, or fewer."""
        key = f"{budget.KIND} {budget.key}"
        known = self._generations.pop(key, None)
        if change.is_gone:
            return True
        now = self._generations[key] = (budget.spec, budget.status.disruptions_allowed)
        return known is None or known[0] != now[0] or known[1:] < now[1:]

    def _frees_devices(self, claim: ResourceClaim, change: Change) -> bool:
        """Tell whether a claim is new, or has its devices no more; what it gets, we write."""
        key = f"{claim.KIND} {claim.key}"
        known = self._generations.pop(key, None)
        if change.is_gone:
            return True
        now = self._generations[key] = (claim.metadata.uid, claim.status.allocation is None)
        return known is None or (known != now and now[1])

    def _is_new_generation(
        self, key: str, meta: ObjectMeta, *more: object, with_labels: bool = False
    ) -> bool:
        """Tell whether the spec of an object, or its labels and annotations, have changed."""
        now: tuple[object, ...] = (meta.uid, meta.generation, *more)
        if with_labels:
            now = (*now, meta.labels, meta.annotations)
        is_known = self._generations.get(key) == now
        self._generations[key] = now
        return not is_known


# -- reads outside the watch -----------------------------------------------------------------------


class Reads:
    """The last read version of each pod whose watch has not reached it yet."""

    def __init__(self) -> None:
        """Begin without reads."""
        self._ahead: dict[str, tuple[str, int]] = {}  # (UID, version)
        self._put_off: dict[str, Change] = {}

    def note(self, meta: ObjectMeta) -> None:
        """Keep the version of a pod that was read and taken in."""
        if meta.resource_version.isdecimal():
            self._ahead[_key_of(meta)] = meta.uid, int(meta.resource_version)

    def are_ahead_of(self, change: Change) -> bool:
        """Tell whether an event of the watch is older than the last read of its pod."""
        meta = change.obj.metadata
        found = self._ahead.get(_key_of(meta))
        if found is None:
            return False
        uid, version = found
        is_comparable = meta.resource_version.isdecimal()
        if uid == meta.uid and is_comparable and int(meta.resource_version) < version:
            self._put_off[_key_of(meta)] = change
            return True
        self.drop(meta)
        return False

    def drop(self, meta: ObjectMeta) -> None:
        """Forget the read of a pod: the watch has reached it, or the pod is gone."""
        self._ahead.pop(_key_of(meta), None)
        self._put_off.pop(_key_of(meta), None)

    def forget(self) -> list[Change]:
        """Forget all reads; return the changes that were ignored because of them.

        The server's store was restored from a backup, and its versions begin anew.
        """
        put_off = list(self._put_off.values())
        self._ahead.clear()
        self._put_off.clear()
        return put_off


def is_older(meta: ObjectMeta, known: tuple[str, str]) -> bool:
    """Tell whether a pod that was read outside its watch is older than its known state.

    The known state is a UID and a version. A pod without one is gone: only known pods are read.
    """
    uid, version = known
    is_comparable = version.isdecimal() and meta.resource_version.isdecimal()
    return not uid or (is_comparable and int(meta.resource_version) < int(version))


def _key_of(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


# -- lines -----------------------------------------------------------------------------------------

LONGEST: Final = 8 << 20
"""Longest line in bytes; an API server keeps no object of more than about 2 MB."""


def lines_of(chunks: Iterable[bytes], longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines without line ends; an unfinished last line is dropped.

    Raises:
        ObjectError: a line is too long.

    """
    parts: list[bytes] = []
    held = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield from _joined(parts, line)
            held = 0
        if rest:
            parts.append(rest)
            held += len(rest)
        if held > longest:
            raise ObjectError(f"a line of a watch is longer than {longest >> 20} MiB")


def _joined(parts: list[bytes], last: bytes) -> Iterator[bytes]:
    line = b"".join((*parts, last)) if parts else last
    parts.clear()
    if line.strip():
        yield line


# -- the reflector ---------------------------------------------------------------------------------
# docs/explanation/on-kubernetes.md has a table of the server's answers and the reactions.

PAGE: Final = 500
HEALTHY_S: Final = 60.0
"""After a watch that lasted so long the next one starts without a pause."""
MOST_UNAUTHORIZED: Final = 5
_GONE, _UNAUTHORIZED, _FORBIDDEN, _ABSENT, _LATER = 410, 401, 403, 404, 504


class Phase(Enum):
    """The state of a reflector."""

    STARTING = "not listed yet"
    SYNCED = "synced"
    ABSENT = "not served"
    FORBIDDEN = "forbidden"


@dataclass(slots=True)
class Tally:
    """Counters of a reflector."""

    relists: dict[str, int] = field(default_factory=dict)
    """By reason."""
    watches: int = 0
    errors: int = 0
    """Lists and watches that failed."""
    bad_objects: int = 0
    mismatches: int = 0
    """Objects that a watch had missed, found by a later list."""


class _ListAgainError(Exception):
    """The watch cannot be resumed: everything has to be listed again."""


class Reflector:
    """Lists and watches one kind in a thread of its own; keeps the objects while that fails."""

    def __init__(
        self,
        client: Client,
        watched: Watched,
        handler: Handler,
        *,
        pace: Pace | None = None,
        on_fatal: Callable[[str], None] = lambda _: None,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a reflector that is not started.

        Args:
            client: sends the requests.
            watched: the kind.
            handler: called with every change, in the reflector's thread.
            pace: pauses and time-outs.
            on_fatal: called with the reason when the server no longer knows our account.
            on_restored: called when a list is older than what was seen: the server's store was
                restored from a backup, and the known state of other kinds is invalid.

        """
        self.watched = watched
        self.phase = Phase.STARTING
        self._versions = (watched, *watched.others)
        self._turn = 0
        self.tally = Tally()
        self.heard_s = monotonic_s()
        """When the server last answered, on the monotonic clock."""
        self._client = client
        self._handler = handler
        self._pace = pace or Pace()
        self._absence = Absence(self._pace)
        self._pauses = Pauses(self._pace.least_pause_s, self._pace.most_pause_s)
        self._on_fatal, self._on_restored = on_fatal, on_restored
        self._log: Any = structlog.get_logger().bind(kind=watched.qualified)
        self._known: dict[str, tuple[str, str]] = {}
        """Key to (UID, resource version)."""
        self._version = self._seen_version = ""
        self._listed_s = 0.0
        self._asked = self._answered = 0
        """Numbers of the last list that was requested from outside, and of the last one done."""
        self._reason = "start"
        self._unauthorized = 0
        self._stream: Stream | None = None
        self._end = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(
            target=self.run, name=f"reflector-{watched.plural}", daemon=True
        )

    @property
    def is_synced(self) -> bool:
        """Whether the kind was listed, or need not be."""
        if self.watched.is_required:
            return self.phase is Phase.SYNCED
        return self.phase is not Phase.STARTING

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; a request under way is cut off."""
        self._end.set()
        self._interrupt()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def list_again(self, reason: str) -> int:
        """Request a new list as soon as possible; return a number for :meth:`has_listed`."""
        self._reason = reason
        self._asked += 1
        self._interrupt()
        return self._asked

    def expect(self) -> None:
        """Look at once, and often, for a kind that is not served, since an object names it."""
        if self._absence.expect() and self.phase is Phase.ABSENT:
            self._hurry.set()

    def has_listed(self, asked: int) -> bool:
        """Tell whether a list is done that began after the request with this number."""
        return self._answered >= asked

    def _interrupt(self) -> None:
        self._hurry.set()
        stream = self._stream
        if stream is not None:
            stream.interrupt()

    # -- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """List and watch until stopped."""
        while not self._end.is_set():
            self._hurry.clear()
            pause_s = 0.0
            try:
                pause_s = self._step()
            except _ListAgainError as reason:
                self.tally.errors += 1
                self._version, self._reason = "", str(reason)
                pause_s = self._pauses.next_s()
            except RefusedError as refused:
                # A kind that is not served, or may not be read, is a state and no error.
                self.tally.errors += refused.answer.code not in {_ABSENT, _FORBIDDEN}
                pause_s = self._refused(refused.answer)
            except ClusterUnavailable as error:
                if not self._hurry.is_set():
                    self.tally.errors += 1
                    self._log.info("request_interrupted", err=str(error))
                    pause_s = self._pauses.next_s()
            except ObjectError as problem:
                self._bad(problem)
                self._version, self._reason = "", "unreadable"
                pause_s = self._pauses.next_s()
            self._hurry.wait(pause_s)

    def _step(self) -> float:
        """List or watch once; return the pause that follows."""
        if self._version and monotonic_s() - self._listed_s > self._pace.compare_s:
            self._version, self._reason = "", "compare"
        if self._asked > self._answered or not self._version:
            self._list()
            return 0.0
        start_s = monotonic_s()
        self._watch()
        if monotonic_s() - start_s >= HEALTHY_S:
            self._pauses.reset()
            return 0.0
        return self._pauses.next_s()

    def _refused(self, answer: Answer) -> float:
        """React to an answer that is no success; return the pause that follows."""
        pause_s = self._pauses.next_s(answer.retry_after_s)
        if answer.code == _GONE:
            self._version, self._reason = "", "expired"
            return pause_s
        if answer.code == _UNAUTHORIZED:
            self._unauthorized += 1
            if self._unauthorized >= MOST_UNAUTHORIZED:
                self._on_fatal(f"the API server does not know our account: {answer.text()}")
        elif answer.code == _ABSENT:
            if self._turn_to_next_version():
                return 0.0
            self._unreadable(Phase.ABSENT, answer)
            return self._absence.pause_s() if not self.watched.is_required else pause_s
        elif answer.code == _FORBIDDEN:
            self._unreadable(Phase.FORBIDDEN, answer)
            return max(pause_s, min(self._pace.absent_s, self._pace.most_pause_s))
        # 429, 500, 503 and 504 (the server is behind the version that we have seen) pass with time.
        self._log.info("request_refused", answer=answer.text(), pause_s=round(pause_s, 2))
        return pause_s

    def _turn_to_next_version(self) -> bool:
        """Switch to the next version of the kind; return whether it was not tried just now."""
        if len(self._versions) > 1:
            self._turn = (self._turn + 1) % len(self._versions)
            self.watched, self._version = self._versions[self._turn], ""
        return self._turn > 0

    def _unreadable(self, phase: Phase, answer: Answer) -> None:
        """Log that a kind cannot be read and what is needed; known objects stay.

        Only when the definition of a kind is gone, its objects go too.
        """
        watched = self.watched
        needs = f"get, list and watch on {watched.qualified}"
        if self.phase is not phase:
            is_normal = phase is Phase.ABSENT and not watched.is_required
            (self._log.info if is_normal else self._log.warning)(
                "kind_unreadable",
                why=phase.value,
                answer=answer.text(),
                needs=needs if phase is Phase.FORBIDDEN else watched.api_version,
                is_required=watched.is_required,
            )
        if self.phase is Phase.SYNCED:
            if phase is Phase.FORBIDDEN or watched.is_required:
                return
            for key in list(self._known):
                self._gone(key)
        self.phase = phase

    # -- lists -----------------------------------------------------------------------------------

    def _list(self) -> None:
        reason, asked, tally = self._reason, self._asked, self.tally
        found = self._whole_list()
        gone = [key for key in self._known if key not in found.listed]
        for key in gone:
            self._gone(key)
        differences = found.changed + len(gone)
        tally.relists = {**tally.relists, reason: tally.relists.get(reason, 0) + 1}
        if reason == "compare" and differences and found.version == self._seen_version:
            tally.mismatches += differences
            self._log.warning("cache_mismatch_repaired", objects=differences)
        seen, self._version, self._seen_version = self._seen_version, found.version, found.version
        self._listed_s = self.heard_s = monotonic_s()
        self._unauthorized = 0
        if _is_before(found.version, seen):
            self._log.warning("resource_version_went_back", seen=seen, now=found.version)
            self._on_restored()
        self._answered = asked
        if self.phase is not Phase.SYNCED:
            self.phase = Phase.SYNCED
            self._log.info("kind_synced", objects=len(self._known), reason=reason)

    def _whole_list(self) -> _Found:
        for _ in range(2):
            with suppress(_ListAgainError):  # pages expire when they are read too slowly
                return self._pages(PAGE)
        return self._pages(0)

    def _pages(self, size: int) -> _Found:
        """Read all pages, and report what is new."""
        found = _Found()
        query = {"limit": str(size)} if size else {}
        while True:
            answer = self._client.call(
                "GET", self.watched.path, query=query, accept=self.watched.list_accept
            )
            if answer.code == _GONE:
                raise _ListAgainError("expired")
            if not answer.is_done:
                raise RefusedError(answer)
            page = self.watched.read_list(answer.data)
            for problem in page.problems:
                self._bad(problem)
            for doubt in page.doubts:
                self._bad(doubt, "object_doubtful")
            for obj in page.objects:
                found.listed.add(_key(obj))
                found.changed += self._came(obj)
            found.version = page.resource_version
            if not page.next_page:
                return found
            query = {**query, "continue": page.next_page}
            if self._end.is_set():
                raise ClusterUnavailable("stopped")

    def _came(self, obj: Seen) -> bool:
        """Report an object unless this version is known; return whether it was reported."""
        key, now = _key(obj), (obj.metadata.uid, obj.metadata.resource_version)
        if self._known.get(key) == now:
            return False
        self._known[key] = now
        self._handler(Change(obj))
        return True

    def _gone(self, key: str) -> None:
        uid, _ = self._known.pop(key, ("", ""))
        namespace, _, name = key.partition("/")
        self._handler(Change(self.watched.stub(namespace, name, uid), is_gone=True))

    def _bad(self, problem: ObjectError, event: str = "object_left_out") -> None:
        self.tally.bad_objects += 1
        self._log.warning(event, err=str(problem))

    # -- watches ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        seconds = int(self._pauses.spread(*self._pace.watch_s)) or 1
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        watched = self.watched
        stream = self._client.stream(watched.path, query, watched.watch_accept, self._pace.idle_s)
        self._stream = stream
        self.tally.watches += 1
        self.heard_s = monotonic_s()
        try:
            if self._asked > self._answered or self._end.is_set():
                return  # the request came before there was a stream to interrupt
            for line in lines_of(stream.chunks()):
                self.heard_s = monotonic_s()
                self._take(line)
        finally:
            self._stream = None
            stream.close()

    def _take(self, line: bytes) -> None:
        try:
            event = self.watched.read_event(line)
        except ObjectError as problem:
            self._drop_bad(line, problem)
            return
        if event.type == "ERROR":
            code = event.status.get("code")
            self._log.info("watch_ended_with_error", code=code)
            raise _ListAgainError("expired" if code == _GONE else "error")
        if event.doubt is not None:
            self._bad(event.doubt, "object_doubtful")
        if event.object is not None:
            if event.type == "DELETED":
                self._gone(_key(event.object))
            else:
                self._came(event.object)
        if event.resource_version:
            self._version = self._seen_version = event.resource_version

    def _drop_bad(self, line: bytes, problem: ObjectError) -> None:
        """Leave out an invalid object; raise if the line is no event at all."""
        try:
            event = bare_event(line)
        except ObjectError:
            raise problem from None
        self._bad(problem)
        key = _key(event.object)
        if key in self._known:
            self._gone(key)
        self._version = self._seen_version = event.resource_version


@dataclass(slots=True)
class _Found:
    """The result of a list."""

    version: str = ""
    listed: set[str] = field(default_factory=set)
    changed: int = 0


def _key(obj: Any) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def _is_before(version: str, seen: str) -> bool:
    return version.isdecimal() and seen.isdecimal() and int(version) < int(seen)
