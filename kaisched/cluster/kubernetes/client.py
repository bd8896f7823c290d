"""Client of the API server that sends and returns raw JSON, and what each request has around it.

The official client decodes every answer into models, which costs six times as much as the rest.
"""

from __future__ import annotations

import math
import secrets
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from kaisched import __version__
from kaisched.clock import ServerClock, SystemClock, monotonic_s
from kaisched.cluster.kubernetes.access import Access
from kaisched.errors import ClusterUnavailable
from kaisched.objects.wire import BAD_JSON
from kaisched.telemetry.logs import masked

# -- counters --------------------------------------------------------------------------------------


class Counts:
    """Counts and total seconds of events, by labels."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], tuple[int, float]] = {}

    def add(self, *labels: str, seconds: float = 0.0) -> None:
        """Add one event."""
        with self._lock:
            number, total_s = self._counts.get(labels, (0, 0.0))
            self._counts[labels] = number + 1, total_s + seconds

    def read(self) -> dict[tuple[str, ...], tuple[int, float]]:
        """Return (count, seconds) by labels."""
        with self._lock:
            return dict(self._counts)


# -- pauses ----------------------------------------------------------------------------------------

LEAST_S: Final = 0.1
MOST_S: Final = 10.0
_GROWTH: Final = 3.0
_STEPS: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a reflector, in seconds."""

    idle_s: float = 90.0
    """A watch that is silent for longer counts as dead; servers send a bookmark a minute."""
    watch_s: tuple[float, float] = (300.0, 600.0)
    """The server is asked to end a watch after some time between these."""
    compare_s: float = 600.0
    """After so long everything is listed again and compared."""
    absent_s: float = 60.0
    """How often a kind is looked for that the server does not serve, or does not let us read."""
    expected_s: float = 1.0
    """The same, for half of that time after an object has named such a kind as its owner's."""
    least_pause_s: float = 0.1
    most_pause_s: float = 10.0


class Pauses:
    """Pauses of decorrelated jitter: each between the least and three times the one before."""

    def __init__(self, least_s: float = LEAST_S, most_s: float = MOST_S) -> None:
        """Start with the shortest."""
        self._least_s = least_s
        self._most_s = most_s
        self._last_s = least_s

    def next_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause, at least as long as the server asked for."""
        up_to_s = min(self._last_s * _GROWTH, self._most_s)
        self._last_s = self.spread(self._least_s, up_to_s)
        return max(self._last_s, asked_s)

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self._last_s = self._least_s

    def spread(self, least_s: float, most_s: float) -> float:
        """Return a random time between two."""
        # Not numpy: the small process that renews leases must not load it.
        return least_s + (most_s - least_s) * secrets.randbelow(_STEPS) / _STEPS


class Absence:
    """Pauses between searches for a kind that is not served: short once an object has named it."""

    def __init__(self, pace: Pace) -> None:
        """Begin without an object that names the kind."""
        self._pace = pace
        self._since_s = -math.inf

    def expect(self) -> bool:
        """Take in that an object names the kind; tell whether none has done so lately.

        A kind that is named and never served is not looked for all the time.
        """
        now_s = monotonic_s()
        is_new = now_s - self._since_s >= self._pace.absent_s
        if is_new:
            self._since_s = now_s
        return is_new

    def pause_s(self) -> float:
        """Return the pause before the next search."""
        is_expected = monotonic_s() - self._since_s < self._pace.absent_s / 2
        return self._pace.expected_s if is_expected else self._pace.absent_s


# -- a server that has just started ----------------------------------------------------------------
# A server that has just started refuses all requests but those of administrators until it has
# read its roles. This takes a second or more, and the server is not ready as long. If such a
# refusal counted, kinds would be read again much too late, or not at all.

MOST_DOUBT_S: Final = 30.0
"""After so long the refusals of a server count even if it does not say that it is ready."""
ECHO_S: Final = 2.0
"""So long after the server was not ready, refusals may be older than its readiness."""


class Doubt:
    """Decides which refusals to doubt. For any number of threads."""

    def __init__(
        self, is_ready: Callable[[], bool], now_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Begin without doubts.

        Args:
            is_ready: asks the server whether it is ready.
            now_s: the time on the monotonic clock.

        """
        self._is_ready = is_ready
        self._now_s = now_s
        self._since_s = self._last_s = -math.inf

    def is_due(self) -> bool:
        """Tell whether a refusal is to be verified."""
        is_ready, now_s = self._is_ready(), self._now_s()
        if is_ready:
            # The server may have become ready since its answers to several threads.
            return now_s - self._last_s <= ECHO_S
        if now_s - self._last_s > MOST_DOUBT_S:
            self._since_s = now_s  # the server has started once more
        self._last_s = now_s
        return now_s - self._since_s <= MOST_DOUBT_S


# -- the client ------------------------------------------------------------------------------------
# The official client decodes every answer into models, which costs six times as much as the rest.

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
CONNECT_S: Final = 5.0
"""How long it may take to open a connection."""
READY_S: Final = 2.0
"""How long the answer of ``/readyz`` may take."""
_FORBIDDEN: Final = 403
_BLOCK: Final = 1 << 16
MOST_ASKED_S: Final = 30.0
"""No request waits longer than this because the server asks for it: what it is for holds room."""
_MOST_MESSAGE: Final = 300


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The server's reason for refusing a request."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(Status)


class Answer(NamedTuple):
    """The answer to one request."""

    code: int
    data: bytes
    retry_after_s: float = 0.0
    """How long the server asks us to wait, within bounds; 0 if it does not."""
    date: str = ""
    """The server's time from the header ``Date``, in whole seconds."""

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.code < 300  # noqa: PLR2004 - HTTP's own numbers

    def status(self) -> Status:
        """Return the reason in an answer that is no success, as far as it can be read."""
        try:
            return _STATUS.decode(self.data)
        except BAD_JSON:
            return Status(self.code, "", self.data[:_BLOCK].decode("utf-8", "replace"))

    def text(self) -> str:
        """Return the answer in one line, without credentials."""
        status = self.status()
        message = masked("", status.message)[:_MOST_MESSAGE]
        return f"{self.code} {status.reason}: {message}".strip(": ")


class Stream:
    """A streamed answer, in pieces as they arrive."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        """Hold an answer of code 200."""
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces until the server ends the answer.

        Raises:
            ClusterUnavailable: the connection broke, or was silent for too long.

        """
        try:
            yield from self._response.stream(_BLOCK)
        except (HTTPError, OSError, ValueError, AttributeError) as wrong:
            # The last two are raised when another thread closes the stream during a read.
            raise ClusterUnavailable(
                f"the stream broke: {_error_name(wrong)}"
            ) from _without_locals(wrong)

    def interrupt(self) -> None:
        """End the stream from any thread; a thread that waits for a piece stops waiting."""
        try:
            self._response.shutdown()
        except (HTTPError, OSError, ValueError, RuntimeError, AttributeError):
            self._response.close()

    def close(self) -> None:
        """Release the connection."""
        self._response.close()


class Client:
    """Client of one API server. For any number of threads."""

    def __init__(self, access: Access, *, connections: int = 16, timeout_s: float = 10.0) -> None:
        """Connect when the first request is made.

        Args:
            access: address and credentials.
            connections: how many are kept open.
            timeout_s: how long an answer may take, unless a request sets another time.

        """
        self.access = access
        self.timeout_s = timeout_s
        self.clock = ServerClock(SystemClock())
        """The server's clock, as its answers tell it."""
        self.requests = Counts()
        """By method and answer: done, refused, busy, fault or none."""
        self._pool = urllib3.PoolManager(
            num_pools=2, maxsize=connections, block=False, retries=False, **access.pool
        )
        self._doubt = Doubt(self._is_ready)

    def hurried(self, timeout_s: float) -> Client:
        """Return a client on the same connections with a shorter time-out."""
        other = copy(self)
        other.timeout_s = timeout_s
        return other

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send a request and return its answer, whatever its code.

        Raises:
            ClusterUnavailable: there was no answer, and the effect of the request is not known;
                or the server refuses all requests, since it has only just started.

        """
        seconds = timeout_s or self.timeout_s
        answer, start_s, sent_s = None, monotonic_s(), self.clock.own_s()
        try:
            timeout = urllib3.Timeout(total=seconds, connect=min(CONNECT_S, seconds))
            answer = _answer(self._open(method, path, query, body, content_type, accept, timeout))
        finally:
            self.requests.add(method, _sort_of(answer), seconds=monotonic_s() - start_s)
        if answer.is_done:  # else it may be that of something before the server
            self.clock.observe(answer.date, sent_s, self.clock.own_s())
        self._check_ready(answer)
        return answer

    def stream(self, path: str, query: Mapping[str, str], accept: str, idle_s: float) -> Stream:
        """Open a streamed answer; it breaks when nothing comes for ``idle_s``.

        Raises:
            ClusterUnavailable: no connection.
            RefusedError: the server answered, but not with a stream.

        """
        timeout = urllib3.Timeout(connect=CONNECT_S, read=idle_s)
        response = self._open("GET", path, query, None, JSON, accept, timeout, is_stream=True)
        if response.status == 200:  # noqa: PLR2004 - HTTP's own number
            return Stream(response)
        try:
            answer = _answer(response, response.read(_BLOCK))
        except HTTPError as wrong:
            raise ClusterUnavailable(f"no answer: {_error_name(wrong)}") from _without_locals(wrong)
        finally:
            response.close()
        self._check_ready(answer)
        raise RefusedError(answer)

    def _check_ready(self, answer: Answer) -> None:
        """Raise ClusterUnavailable for a refusal that passes when the server is ready."""
        if answer.code == _FORBIDDEN and self._doubt.is_due():
            raise ClusterUnavailable(f"the API server is not ready: {answer.text()}")

    def _is_ready(self) -> bool:
        timeout = urllib3.Timeout(total=READY_S)
        try:
            response = self._open("GET", "/readyz", None, None, JSON, "*/*", timeout)
        except ClusterUnavailable:
            return False
        return _answer(response).is_done

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        content_type: str,
        accept: str,
        timeout: urllib3.Timeout,
        *,
        is_stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; return its answer, read whole unless it is a stream."""
        url = f"{self.access.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept, "User-Agent": f"kaisched/{__version__}"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            if authorization := self.access.authorization():
                headers["Authorization"] = authorization
            return self._pool.request(
                method,
                url,
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                preload_content=not is_stream,
                redirect=False,
            )
        except (HTTPError, OSError) as wrong:
            raise ClusterUnavailable(
                f"no answer from the API server: {_error_name(wrong)}"
            ) from _without_locals(wrong)


class RefusedError(Exception):
    """The server refused a request for a stream."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text())
        self.answer = answer


def _answer(response: urllib3.BaseHTTPResponse, data: bytes | None = None) -> Answer:
    header = response.headers.get("Retry-After", "")
    seconds = min(float(header), MOST_ASKED_S) if header.isdecimal() else 0.0
    date = response.headers.get("Date", "")
    return Answer(response.status, response.data if data is None else data, seconds, date)


def _sort_of(answer: Answer | None) -> str:
    """Return the sort of an answer, as it is counted."""
    if answer is None:
        return "none"
    if answer.is_done:
        return "done"
    if answer.code == 429:  # noqa: PLR2004 - HTTP's own numbers
        return "busy"
    return "fault" if answer.code >= 500 else "refused"  # noqa: PLR2004


def _error_name(wrong: Exception) -> str:
    """Return the name of an error, without the address, which may hold a password."""
    cause: Any = getattr(wrong, "reason", None) or wrong
    return type(cause).__name__


def _without_locals(wrong: Exception) -> Exception:
    """Return an error after clearing the local variables of the functions that raised it.

    Some of them refer to the error, so the connection and everything else they held would stay in
    memory until Python's cyclic garbage collection, which seldom runs here.
    """
    traceback.clear_frames(wrong.__traceback__)
    return wrong
