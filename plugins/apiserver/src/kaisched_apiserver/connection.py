"""One connection of a client: its bytes as HTTP/1.1, and the faults that a test scripts."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, cast

from kaisched_apiserver.answers import Answer, WatchAnswer, refused
from kaisched_apiserver.api import Api
from kaisched_apiserver.reading import Watch
from kaisched_apiserver.requests import Request, request_of
from kaisched_apiserver.statuses import ApiError, expired

# HTTP/1.1 from bytes: one request at a time out of a connection's buffer.


MOST_HEAD: Final = 65_536
MOST_BODY: Final = 3 * 2**20
"""A body that is larger is refused, as by a real API server."""
_END: Final = b"\r\n\r\n"
_BASE_OF_SIZES: Final = 16
_FIRST: Final = re.compile(r"([A-Z]+) (/\S*) HTTP/1\.([01])")


class Head(NamedTuple):
    """The first line and the headers that matter here."""

    method: str
    target: str
    length: int
    """Bytes of body that follow, -1 for chunks."""
    content_type: str
    accept: str
    token: str
    is_keeping_alive: bool
    is_waiting: bool
    """The client sends its body only when it is told to go on."""


class BadHttpError(Exception):
    """What came is no HTTP that is understood here; the connection is of no use any more."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def take_head(buffer: bytearray) -> Head | None:
    """Return the head of the next request and remove it from the buffer; None if it is not whole.

    Raises:
        BadHttpError: it is none.

    """
    end = buffer.find(_END)
    if end < 0:
        if len(buffer) > MOST_HEAD:
            raise BadHttpError(431)
        return None
    lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    del buffer[: end + len(_END)]
    first = _FIRST.fullmatch(lines[0])
    if first is None:
        raise BadHttpError(400)
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadHttpError(400)
        name, value = name.lower(), value.strip()
        # A client may send Accept in several lines.
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return _head(first, headers)


def _head(first: re.Match[str], headers: dict[str, str]) -> Head:
    length = 0
    if "chunked" in headers.get("transfer-encoding", "").lower():
        length = -1
    elif "content-length" in headers:
        text = headers["content-length"]
        if not (text.isascii() and text.isdecimal()):
            raise BadHttpError(400)
        length = int(text)
        if length > MOST_BODY:
            raise BadHttpError(413)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    connection = headers.get("connection", "").lower()
    return Head(
        first[1],
        first[2],
        length,
        headers.get("content-type", "").partition(";")[0].strip(),
        headers.get("accept", ""),
        token.strip() if scheme.lower() == "bearer" else "",
        connection == "keep-alive" or (first[3] == "1" and connection != "close"),
        headers.get("expect", "").lower() == "100-continue",
    )


def take_body(buffer: bytearray, length: int) -> bytes | None:
    """Return the body of the request and remove it from the buffer; None if it is not whole.

    Raises:
        BadHttpError: its chunks are none, or it is too large.

    """
    if length < 0:
        return _take_chunks(buffer)
    if len(buffer) < length:
        return None
    body = bytes(buffer[:length])
    del buffer[:length]
    return body


def _take_chunks(buffer: bytearray) -> bytes | None:
    parts: list[bytes] = []
    at = total = 0
    while True:
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        try:
            size = int(bytes(buffer[at:end]).partition(b";")[0], _BASE_OF_SIZES)
        except ValueError as wrong:
            raise BadHttpError(400) from wrong
        total += size
        if size < 0 or total > MOST_BODY:
            raise BadHttpError(413 if size >= 0 else 400)
        at = end + 2
        if len(buffer) < at + size + 2:
            return None
        parts.append(bytes(buffer[at : at + size]))
        at += size + 2
        if size == 0:
            del buffer[:at]
            return b"".join(parts)


# Faults on demand: what a server in trouble does to a client, for tests to script.


Effect = Literal["none", "status", "drop_before", "drop_after", "expire", "mute"]

_REASONS: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_STEPS: Final = 2**32
# A full-period linear congruential step: faults need a sequence that repeats, not good chance.
_MULTIPLY: Final = 1_664_525
_ADD: Final = 1_013_904_223


@dataclass(slots=True)
class Fault:
    """One fault: which requests it meets, when, and what it does to them.

    An empty text matches anything; ``subresource`` of None likewise, while an empty one means the
    object itself. ``delay_s`` goes with any effect. The effects: ``status`` answers with ``code``
    and does nothing; ``drop_before`` closes the connection and does nothing; ``drop_after`` does
    what is asked and closes it without an answer; ``expire`` answers a watch with an event of code
    410; ``mute`` opens a watch through which nothing comes.
    """

    effect: Effect = "none"
    verb: str = ""
    plural: str = ""
    name: str = ""
    namespace: str = ""
    subresource: str | None = None
    token: str = ""
    """Only who asks with this bearer token is met."""
    code: int = 500
    retry_after_s: int = 0
    delay_s: float = 0.0
    skip: int = 0
    """So many matching requests pass first."""
    times: int | None = 1
    """So many are met after that, None for all."""
    share: float = 1.0
    """Of the matching requests only this part is met, by a sequence that ``seed`` fixes."""
    seed: int = 0
    met: int = field(default=0, init=False)
    """How many requests it has met."""

    def meets(self, request: Request) -> bool:
        """Tell whether the fault happens to a request, and count."""
        if not self._matches(request) or (self.times is not None and self.met >= self.times):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.share < 1.0:
            self.seed = (self.seed * _MULTIPLY + _ADD) % _STEPS
            if self.seed >= self.share * _STEPS:
                return False
        self.met += 1
        return True

    def _matches(self, request: Request) -> bool:
        return (
            self.verb in {"", request.verb}
            and self.plural in {"", request.plural}
            and self.name in {"", request.name}
            and self.namespace in {"", request.namespace}
            and self.subresource in {None, request.subresource}
            and self.token in {"", request.token}
        )

    def error(self) -> ApiError:
        """Return what the request is answered with."""
        reason = _REASONS.get(self.code, "InternalError")
        message = f"the server was told to answer {self.code}"
        return ApiError(self.code, reason, message, retry_after_s=self.retry_after_s)


class Faults:
    """The faults that are in force; the first one that meets a request happens to it."""

    def __init__(self) -> None:
        """Be without faults."""
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Put a fault in force and return it, so that it can be counted and taken off."""
        self._faults = [*self._faults, fault]
        return fault

    def remove(self, fault: Fault) -> None:
        """Take a fault off."""
        self._faults = [it for it in self._faults if it is not fault]

    def clear(self) -> None:
        """Take all faults off."""
        self._faults = []

    def of(self, request: Request) -> Fault | None:
        """Return the fault that happens to a request."""
        return next((it for it in self._faults if it.meets(request)), None)


# One connection of a client: requests one after the other, or a watch for as long as it lasts.


_MOST_UNSENT: Final = 64 * 2**20
"""A client that leaves more than this unread is cut off."""
_PHRASES: Final = {it.value: it.phrase for it in HTTPStatus}
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_DROPPED: Final = 0


class Seen(NamedTuple):
    """A request that was answered; a ``status`` of 0 is none: the connection was dropped."""

    verb: str
    plural: str
    subresource: str
    namespace: str
    name: str
    status: int


class Connection(asyncio.Protocol):
    """Reads requests, lets faults happen, writes answers."""

    def __init__(
        self,
        api: Api,
        faults: Faults,
        log: deque[Seen],
        date: Callable[[], str],
        is_open: set[Connection],
    ) -> None:
        """Belong to a server, in whose set it is while it is open."""
        self._api = api
        self._faults = faults
        self._log = log
        self._date = date
        self._is_open = is_open
        self._buffer = bytearray()
        self._head: Head | None = None
        self._is_busy = False
        self._unsent: list[bytes] = []
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._is_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        del exc
        self._is_open.discard(self)
        self._is_busy = True
        self._end_watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, and answer what is whole."""
        self._buffer += data
        self._work()

    def drop(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    # -- requests --------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_busy and self._step():
                pass
        except BadHttpError as wrong:
            error = ApiError(wrong.status, _PHRASES[wrong.status], _PHRASES[wrong.status])
            self._write(refused(error), is_last=True)

    def _step(self) -> bool:
        """Answer the next request; return whether there was one."""
        if self._head is None:
            self._head = take_head(self._buffer)
            if self._head is None:
                return False
            if self._head.is_waiting:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = take_body(self._buffer, self._head.length)
        if body is None:
            return False
        head, self._head = self._head, None
        method = "GET" if head.method == "HEAD" else head.method
        request = request_of(method, head.target, body, head.content_type, head.accept, head.token)
        if request is None:
            page = self._api.page(head.target.partition("?")[0], head.token)
            self._write(page, is_last=not head.is_keeping_alive, has_body=head.method != "HEAD")
            return True
        fault = self._faults.of(request)
        if fault is not None and fault.delay_s > 0:
            self._is_busy = True
            self._loop.call_later(fault.delay_s, self._late, head, request, fault)
        else:
            self._answer(head, request, fault)
        return True

    def _late(self, head: Head, request: Request, fault: Fault) -> None:
        if not self._transport.is_closing():
            self._is_busy = False
            self._answer(head, request, fault)
            self._work()

    def _answer(self, head: Head, request: Request, fault: Fault | None) -> None:
        effect = fault.effect if fault is not None else "none"
        if effect == "drop_before":
            self._note(request, _DROPPED)
            self.drop()
            return
        if fault is not None and effect == "status":
            answer: Answer | WatchAnswer = refused(fault.error())
        else:
            answer = self._api.answer(request)
        if effect == "drop_after":
            self._note(request, _DROPPED)
            self.drop()
        elif isinstance(answer, Answer):
            self._note(request, answer.status)
            has_body = head.method != "HEAD"
            self._write(answer, is_last=not head.is_keeping_alive, has_body=has_body)
        else:
            self._note(request, HTTPStatus.OK)
            self._open_watch(answer, effect)

    def _note(self, request: Request, status: int) -> None:
        self._log.append(
            Seen(
                request.verb,
                request.plural,
                request.subresource,
                request.namespace,
                request.name,
                int(status),
            )
        )

    def _write(self, answer: Answer, *, is_last: bool = False, has_body: bool = True) -> None:
        extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        if is_last:
            extra += "Connection: close\r\n"
        head = (
            f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, '')}\r\n"
            f"Content-Type: {answer.content_type}\r\nDate: {self._date()}\r\n"
            f"Content-Length: {len(answer.body)}\r\n{extra}\r\n"
        )
        data = head.encode("latin-1", "replace")
        self._transport.write(data + answer.body if has_body else data)
        if is_last:
            self._is_busy = True
            self._transport.close()

    # -- watches ---------------------------------------------------------------------------------

    def _open_watch(self, asked: WatchAnswer, effect: str) -> None:
        self._is_busy = True
        self._transport.write(_STREAM)
        watch = Watch(asked, self._send, self._finish, self._api.clock.now_s)
        self._watch = watch
        if effect == "mute":
            watch.is_mute = True
            return
        if effect == "expire":
            watch.fail(expired(f"too old resource version: {asked.version}"))
            return
        self._timer = self._loop.call_later(asked.timeout_s, self._time_out)
        self._api.watches.add(watch)
        watch.replay()

    def _send(self, line: bytes) -> None:
        """Send soon: what happens in one turn of the loop goes out in one piece."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(line)

    def _flush(self) -> None:
        if not self._unsent or self._transport.is_closing():
            return
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if self._transport.get_write_buffer_size() > _MOST_UNSENT:
            self.drop()

    def _time_out(self) -> None:
        if self._watch is not None:
            self._watch.bookmark(self._api.storage.version)
            self._finish()

    def _finish(self) -> None:
        """End the stream in good order; the connection can be used again."""
        if self._watch is None or self._transport.is_closing():
            return
        self._flush()
        self._end_watch()
        self._transport.write(b"0\r\n\r\n")
        self._is_busy = False
        self._loop.call_soon(self._work)

    def _end_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watch is not None:
            self._api.watches.discard(self._watch)
            self._watch = None
