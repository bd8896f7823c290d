"""Client of the API server that sends and returns raw JSON.

The official client decodes every answer into models, which costs six times as much as the rest.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from kaisched import __version__
from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.doubt import Doubt
from kaisched.cluster.kubernetes.wire import Wire, is_plain
from kaisched.errors import ClusterUnavailable
from kaisched.objects.wire import BAD_JSON
from kaisched.telemetry.logs import masked

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
CONNECT_S: Final = 5.0
"""How long it may take to open a connection."""
READY_S: Final = 2.0
"""How long the answer of ``/readyz`` may take."""
_FORBIDDEN: Final = 403
_BLOCK: Final = 1 << 16
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
    """How long the server asks us to wait; 0 if it does not."""
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
        self.requests = Counts()
        """By method and answer: done, refused, busy, fault or none."""
        self._pool = urllib3.PoolManager(
            num_pools=2, maxsize=connections, block=False, retries=False, **access.pool
        )
        self._wire = Wire(access.host, access.pool, most=connections)
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
        answer, start_s = None, monotonic_s()
        try:
            if method == "GET" or not is_plain(path):
                response = self._open(
                    method,
                    path,
                    query,
                    body,
                    content_type,
                    accept,
                    urllib3.Timeout(total=seconds, connect=min(CONNECT_S, seconds)),
                    preload=True,
                )
                answer = _answer(response)
            else:
                answer = self._written(method, path, query, body, content_type, accept, seconds)
        finally:
            self.requests.add(method, _sort_of(answer), seconds=monotonic_s() - start_s)
        self._check_ready(answer)
        return answer

    def stream(self, path: str, query: Mapping[str, str], accept: str, idle_s: float) -> Stream:
        """Open a streamed answer; it breaks when nothing comes for ``idle_s``.

        Raises:
            ClusterUnavailable: no connection.
            RefusedError: the server answered, but not with a stream.

        """
        timeout = urllib3.Timeout(connect=CONNECT_S, read=idle_s)
        response = self._open("GET", path, query, None, JSON, accept, timeout, preload=False)
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
            response = self._open("GET", "/readyz", None, None, JSON, "*/*", timeout, preload=True)
        except ClusterUnavailable:
            return False
        return _answer(response).is_done

    def _written(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        content_type: str,
        accept: str,
        seconds: float,
    ) -> Answer:
        """Send a write: most requests are, and by urllib3 each would take three times as long."""
        data = b"" if body is None else msgspec.json.encode(body)
        headers = self._headers(None if body is None else content_type, accept)
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            reply = self._wire.exchange(
                method, target, headers, data, connect_s=CONNECT_S, timeout_s=seconds
            )
        except (HTTPError, OSError) as wrong:
            raise _unanswered(wrong) from _without_locals(wrong)
        header = reply.fields.get(b"retry-after", b"")
        asked_s = float(header) if header.isdigit() else 0.0
        date = reply.fields.get(b"date", b"").decode("latin-1")
        return Answer(reply.code, reply.data, asked_s, date)

    def _headers(self, content_type: str | None, accept: str) -> dict[str, str]:
        """Return the header fields of a request; the type is None for one without a body."""
        headers = {"Accept": accept, "User-Agent": f"kaisched/{__version__}"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        authorization = self.access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers

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
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self.access.host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            headers = self._headers(None if body is None else content_type, accept)
            return self._pool.request(
                method,
                url,
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                preload_content=preload,
                redirect=False,
            )
        except (HTTPError, OSError) as wrong:
            raise _unanswered(wrong) from _without_locals(wrong)


class RefusedError(Exception):
    """The server refused a request for a stream."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text())
        self.answer = answer


def _answer(response: urllib3.BaseHTTPResponse, data: bytes | None = None) -> Answer:
    header = response.headers.get("Retry-After", "")
    seconds = float(header) if header.isdecimal() else 0.0
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


def _unanswered(wrong: Exception) -> ClusterUnavailable:
    return ClusterUnavailable(f"no answer from the API server: {_error_name(wrong)}")


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
