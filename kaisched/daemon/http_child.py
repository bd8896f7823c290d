"""HTTP process: uvicorn and starlette take the requests of all ports; the scheduler makes pages.

Thousands of clients thus take no time from the interpreter that schedules. Beside what uvicorn
does, connections are bounded in number and in time, and shared fairly between addresses. The
scheduler hands over open sockets: one that listens for each port, and a channel to itself. When
the channel ends, so does the process.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections import Counter, deque
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import h11
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kaisched.daemon.http_wire import (
    LENGTH_BYTES,
    Answered,
    Asked,
    Page,
    Port,
    Pushed,
    Refused,
    Request,
    Start,
    Tls,
    frame,
    is_known_host,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from kaisched.daemon.http_wire import Limits, Reads

_PACKING: Final = 4
"""How hard bodies are compressed, of 9."""
_LEAST_PACKED: Final = 1 << 10
_MOST_PACKED: Final = 8 << 20
"""Bodies from so many bytes to so many are compressed for clients that take gzip."""
_AT_ONCE: Final = 64
"""Connections accepted at a time, so that connected clients get their turn."""
_MOST_FIELDS: Final = 32
_BLOCK: Final = 1 << 16
_BEAT: Final = b":\n\n"
"""A comment of Server-Sent Events: it keeps the connection, and finds out who is gone."""
_COUNTED: Final = {
    HTTPStatus.BAD_REQUEST: "malformed",
    HTTPStatus.METHOD_NOT_ALLOWED: "method",
    HTTPStatus.SERVICE_UNAVAILABLE: "streams",
}
"""Reasons of refusals, by the status that we answer ourselves."""
_WRONG_HOST: Final = (
    "not known by this name: forward the port and call localhost, or add the name to the setting"
    " hosts of this listener\n"
)
_SPARE_DESCRIPTORS: Final = 64
_LONGEST_FAULT: Final = 200
_DECODER: Final = msgspec.msgpack.Decoder(Answered | Pushed)


class Connection(H11Protocol):
    """A connection with one request and one answer, bounded in bytes and in time."""

    def __init__(self, listener: Listener, sock: socket.socket, address: str) -> None:
        """Start the timers."""
        super().__init__(listener.config, listener.state, {"connection": self}, listener.loop)
        self.address = address
        self.is_asked = self.is_gone = self.is_stream = self._is_open = False
        self._listener, self._sock = listener, sock
        self._parts: list[bytes] = []
        self._news = asyncio.Event()
        limits, later = listener.limits, listener.loop.call_later
        self._timers: tuple[asyncio.TimerHandle, ...] = (
            later(limits.head_s, self._late_head),
            later(limits.whole_s, self.drop, "late"),
        )
        self._beginning = listener.loop.create_task(self._begin())
        self._beginning.add_done_callback(self._begun)

    async def _begin(self) -> None:
        """Start reading, after the handshake if there is one."""
        context = self._listener.context
        wait_s = None if context is None else self._listener.limits.head_s
        try:
            await self.loop.connect_accepted_socket(
                lambda: self, self._sock, ssl=context, ssl_handshake_timeout=wait_s
            )
        except OSError:  # errors of TLS are such too
            self.drop("gone" if context is None else "handshake")

    def _begun(self, _: asyncio.Task[None]) -> None:
        if not self._is_open:  # dropped before it began, perhaps
            self._sock.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport, unless the connection was dropped meanwhile."""
        super().connection_made(transport)
        self._is_open = True
        if self.is_gone:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read until the head is complete; ignore everything after it."""
        if not (self.is_asked or self.is_gone):
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request of HTTP, or has too long a head."""
        is_long = len(self.conn.trailing_data[0]) > self._listener.limits.head_bytes
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_long else HTTPStatus.BAD_REQUEST
        self._listener.refused["too_long" if is_long else "malformed"] += 1
        self.is_asked = True
        del msg
        text = f"{status.phrase.lower()}\n".encode()
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        for event in (response, h11.Data(data=text), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open while an answer is on its way."""
        if not self.is_asked:
            self.drop("gone")
        return self.is_asked and not self.is_stream and self._listener.context is None

    def _late_head(self) -> None:
        if not self.is_asked:
            self.drop("late")

    def drop(self, reason: str) -> None:
        """Close the connection at once, and count the reason."""
        if self.is_gone:
            return
        self._listener.refused[reason] += 1
        self._end()
        if self._is_open:
            self.transport.abort()
        else:
            self._beginning.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a client that left before its whole answer was sent."""
        super().connection_lost(exc)
        if exc is not None and not self.is_gone:
            self._listener.refused["gone"] += 1
        self._end()

    def _end(self) -> None:
        self.is_gone = True
        for timer in self._timers:
            timer.cancel()
        self._listener.forget(self)

    # -- a stream --------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether the client has not taken what was sent."""
        return self.flow.write_paused

    def push(self, part: bytes) -> None:
        """Send the next part of the stream; a client that is behind gets the latest one only."""
        self._parts = [part] if self.is_behind else [*self._parts, part]
        self._news.set()

    async def parts(self, first: bytes) -> AsyncIterator[bytes]:
        """Yield the parts of the stream as they come, for as long as one may be open."""
        self.is_stream = True
        for timer in self._timers:
            timer.cancel()
        limits = self._listener.limits
        end_s = self.loop.time() + limits.stream_s
        self._timers = (self.loop.call_later(limits.stream_s + limits.whole_s, self.drop, "late"),)
        yield first
        while not self.is_gone and (left_s := end_s - self.loop.time()) > 0:
            try:
                await asyncio.wait_for(self._news.wait(), min(limits.beat_s, left_s))
            except TimeoutError:
                yield _BEAT
            else:
                self._news.clear()
                parts, self._parts = self._parts, []
                yield b"".join(parts)


class Listener:
    """A port: takes connections up to a limit, and passes on their questions."""

    def __init__(self, number: int, port: Port, channel: Channel) -> None:
        """Start listening."""
        self.loop, self.limits = asyncio.get_running_loop(), port.limits
        self.refused: Counter[str] = Counter()
        self.streams: dict[Connection, None] = {}
        self._number, self._channel = number, channel
        self._clients: dict[Connection, None] = {}
        """Connected clients, the oldest first."""
        self._by_address: Counter[str] = Counter()
        self._tls, self._stamp = port.tls, _times(port.tls)
        self.context = _context(port.tls) if port.tls is not None else None
        self.state = ServerState()
        self.state.default_headers = [(b"connection", b"close")]  # one request a connection
        self.config = Config(
            self._app,
            http=H11Protocol,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=port.limits.head_bytes,
        )
        self._known = ", ".join(port.pages)
        self._routes = Starlette(
            routes=[
                # The longest first: a path with a slash at its end stands for all below it.
                Route(f"{path}{{rest:path}}" if is_tree else path, self._endpoint(path, reads))
                for is_tree, path, reads in sorted(
                    (
                        (path.endswith("/") and path != "/", path, it)
                        for path, it in port.pages.items()
                    ),
                    key=lambda it: (it[0], -len(it[1])),
                )
            ],
            exception_handlers={HTTPException: self._refused},
        )
        self._routes.router.redirect_slashes = False
        self._sock = socket.socket(fileno=port.fd)
        self._sock.setblocking(False)
        self._hosts = frozenset(map(str.lower, port.hosts))
        self._is_on_loopback = ip_address(self._sock.getsockname()[0]).is_loopback
        self.loop.add_reader(self._sock, self._take)
        self._report_refusals()
        self._renew()

    # -- connections -----------------------------------------------------------------------------

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more file descriptors: one connection has to go
                self._make_room()
                return
            sock.setblocking(False)
            client = Connection(self, sock, str(address[0]))
            self._clients[client] = None
            self._by_address[client.address] += 1
            if len(self._clients) > self.limits.connections:
                self._make_room()

    def _make_room(self) -> None:
        """Drop the oldest client without a whole request, of the address with most clients.

        A client that sends its request at once has been answered long before its turn to be
        dropped.
        """
        most = max(self._by_address.values(), default=0)
        crowd = [it for it in self._clients if self._by_address[it.address] == most]
        idle = next((it for it in (*crowd, *self._clients) if not it.is_asked), None)
        idle = idle or next(iter(self._clients), None)
        if idle is not None:
            idle.drop("crowded")

    def forget(self, client: Connection) -> None:
        """Note that a connection has ended."""
        self.streams.pop(client, None)
        if client in self._clients:
            del self._clients[client]
            self._by_address[client.address] -= 1
            if not self._by_address[client.address]:
                del self._by_address[client.address]

    def _renew(self) -> None:
        """Load a changed certificate, for new connections."""
        if self._tls is None or self.context is None:
            return
        try:
            stamp = _times(self._tls)
            if stamp != self._stamp:
                _context(self._tls)  # both fit, or the old ones remain
                self.context.load_cert_chain(*self._tls)
                self._stamp = stamp
        except OSError:
            self.refused["certificate"] += 1
        self.loop.call_later(self.limits.reload_s, self._renew)

    def _report_refusals(self) -> None:
        if self.refused:
            self._channel.send(Refused(self._number, self.refused))
            self.refused.clear()
        self.loop.call_later(self.limits.tell_s, self._report_refusals)

    # -- requests --------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"]["connection"]
        connection.is_asked = True
        is_sound = (
            scope["http_version"] in {"1.0", "1.1"}
            and scope["path"].startswith("/")
            and scope["query_string"].count(b"&") < _MOST_FIELDS
        )
        if is_sound and not self._is_called(scope):
            self.refused["host"] += 1
            await PlainTextResponse(_WRONG_HOST, HTTPStatus.MISDIRECTED_REQUEST)(
                scope, receive, send
            )
        elif is_sound:
            try:
                await self._routes(scope, receive, send)
            except Exception as fault:
                self.note_fault(fault)
                raise
        else:
            self.refused["malformed"] += 1
            await PlainTextResponse("bad request\n", 400)(scope, receive, send)

    def _is_called(self, scope: Scope) -> bool:
        """Tell whether a request calls us by a name of ours: a browser's page may not."""
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        return is_known_host(host, self._hosts, is_on_loopback=self._is_on_loopback)

    def _endpoint(self, path: str, reads: Reads) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Return what answers requests for a page."""
        polled: dict[bytes, _Polled] = {}
        if reads.is_polled:
            for flags in ((), *((name,) for name in reads.query)):
                asked = Request({name: [""] for name in flags}, "", path=path)
                found = _Polled(asked, self._asking(path), self.limits)
                polled[msgspec.msgpack.encode(asked)] = found
        ask = self._asking(path)

        async def answer(request: HttpRequest) -> Response:
            connection: Connection = request.state.connection
            asked = _asked(request, reads)
            ready = polled.get(msgspec.msgpack.encode(asked))
            page = await (ready.page(connection) if ready is not None else ask(asked, connection))
            if _is_worth_packing(page, request):
                body = await asyncio.to_thread(gzip.compress, page.body, _PACKING, mtime=0)
                page = _packed(page, body)
            return self._response(page, connection)

        return answer

    def _asking(self, path: str) -> Callable[[Request, Connection | None], Awaitable[Page]]:
        return lambda asked, client: self._channel.ask(
            self._number, path, asked, client, self.limits.threads
        )

    def _response(self, page: Page, connection: Connection) -> Response:
        headers = {"content-type": page.content_type, **dict(page.headers)}
        if page.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if not page.is_stream:
            headers["content-length"] = str(len(page.body))
            return StreamingResponse(_blocks(page.body), page.status, headers)
        if connection.scope["method"] == "HEAD":
            return StreamingResponse(_blocks(b""), page.status, headers)
        if len(self.streams) >= self.limits.streams:
            slow = next((it for it in self.streams if it.is_behind), None)
            if slow is None:
                raise HTTPException(503, "too many streams are open")
            slow.drop("slow")
        self.streams[connection] = None
        return StreamingResponse(connection.parts(page.body), page.status, headers)

    def _refused(self, request: HttpRequest, error: Exception) -> Response:
        """Answer what has no page, with another method than GET or HEAD, or too many streams."""
        del request
        assert isinstance(error, HTTPException)
        text = error.detail
        if error.status_code == HTTPStatus.NOT_FOUND:
            text = f"here are {self._known}"
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            text = "GET and HEAD only"
        if error.status_code in _COUNTED:
            self.refused[_COUNTED[HTTPStatus(error.status_code)]] += 1
        return PlainTextResponse(f"{text}\n", error.status_code, error.headers)

    def note_fault(self, fault: object) -> None:
        """Count a fault of our own, which the scheduler then logs."""
        self.refused[f"fault: {fault}"[:_LONGEST_FAULT]] += 1


class _Polled:
    """The page of a probe, asked for again and again, so that a probe finds it ready.

    A probe then does not wait for the scheduling interpreter. If that has not answered for too
    long, the probe has to wait for it: the probe of a scheduler that hangs must fail.
    """

    def __init__(
        self,
        asked: Request,
        ask: Callable[[Request, Connection | None], Awaitable[Page]],
        limits: Limits,
    ) -> None:
        self._asked, self._ask, self._limits = asked, ask, limits
        self._last: tuple[float, Page] | None = None
        """The last answer, and when it was asked for."""
        self._loop = asyncio.get_running_loop()
        self._polling = self._loop.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            asked_s = self._loop.time()
            self._last = asked_s, await self._ask(self._asked, None)
            await asyncio.sleep(self._limits.poll_s)

    async def page(self, client: Connection) -> Page:
        """Return the last answer; if that is too old, ask the scheduler."""
        if self._last is None or self._loop.time() - self._last[0] > self._limits.fresh_s:
            return await self._ask(self._asked, client)
        return self._last[1]


class _Question:
    """A page that is waited for, by clients with equal requests."""

    def __init__(self, key: tuple[int, str, bytes], request: Request) -> None:
        self.key, self.request = key, request
        self.clients: list[Connection | None] = []
        """None is a poll, which is never gone."""
        self.answer: asyncio.Future[Page] = asyncio.get_running_loop().create_future()

    @property
    def is_wanted(self) -> bool:
        return any(it is None or not it.is_gone for it in self.clients)


class Channel:
    """Channel to the scheduler: equal questions are sent once, and a few of each port at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin without questions."""
        self._reader, self._writer = reader, writer
        self._open: dict[tuple[int, str, bytes], _Question] = {}
        self._queues: dict[int, deque[_Question]] = {}
        self._sent: dict[int, tuple[_Question, int]] = {}
        """By number, questions that are under way, each with the limit of its port."""
        self._number = 0

    async def ask(
        self, port: int, page: str, request: Request, client: Connection | None, most: int
    ) -> Page:
        """Return the scheduler's answer; concurrent equal requests share one."""
        key = port, page, msgspec.msgpack.encode(request)
        question = self._open.get(key)
        if question is None:
            question = self._open[key] = _Question(key, request)
            self._queues.setdefault(port, deque()).append(question)
        question.clients.append(client)
        self._send_next(port, most)
        return await asyncio.shield(question.answer)

    def _send_next(self, port: int, most: int) -> None:
        queue = self._queues[port]
        while queue and sum(it.key[0] == port for it, _ in self._sent.values()) < most:
            question = queue.popleft()
            if not question.is_wanted:
                del self._open[question.key]
                question.answer.cancel()
                continue
            self._number += 1
            self._sent[self._number] = question, most
            self.send(Asked(self._number, *question.key[:2], question.request))

    def send(self, message: Asked | Refused) -> None:
        """Send a message to the scheduler."""
        self._writer.write(frame(message))

    async def follow(self, listeners: list[Listener]) -> None:
        """Pass pages and parts of streams to clients, until the scheduler ends."""
        while True:
            try:
                size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
                message = _DECODER.decode(await self._reader.readexactly(size))
            except (asyncio.IncompleteReadError, OSError):
                return
            if isinstance(message, Pushed):
                for client in list(listeners[message.port].streams):
                    client.push(message.part)
                continue
            question, most = self._sent.pop(message.number)
            del self._open[question.key]
            question.answer.set_result(message.page)
            self._send_next(question.key[0], most)


def _asked(request: HttpRequest, reads: Reads) -> Request:
    """Return only what the page reads, so that other differences ask nothing new."""
    given = request.query_params
    query = {
        name.rstrip("="): given.getlist(name.rstrip("="))[:1] if name.endswith("=") else [""]
        for name in reads.query
        if name.rstrip("=") in given
    }
    headers = {name.replace("-", "_"): request.headers.get(name, "") for name in reads.headers}
    path = request.scope["raw_path"].decode("ascii")
    return Request(query, headers.pop("accept", ""), path=path, **headers)


def _is_worth_packing(page: Page, request: HttpRequest) -> bool:
    known = request.headers.get("accept-encoding", "").replace(" ", "").split(",")
    is_sized = _LEAST_PACKED <= len(page.body) <= _MOST_PACKED
    return "gzip" in known and is_sized and not page.is_stream


def _packed(page: Page, body: bytes) -> Page:
    """Return a page with its body compressed; what was one byte for byte is now like it."""
    headers = [(name, f"W/{it}" if name == "ETag" else it) for name, it in page.headers]
    more = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return page._replace(body=body, headers=(*headers, *more))


async def _blocks(body: bytes) -> AsyncIterator[memoryview]:
    """Yield a body in blocks: clients share it, however slow some of them take it."""
    whole = memoryview(body)
    for at in range(0, len(whole), _BLOCK):
        yield whole[at : at + _BLOCK]


def _times(tls: Tls | None) -> list[int]:
    return [Path(file).stat().st_mtime_ns for file in tls or ()]


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*tls)
    return context


async def _run(start: Start) -> None:
    sock = socket.socket(fileno=start.channel)
    sock.setblocking(False)
    channel = Channel(*await asyncio.open_connection(sock=sock))
    listeners = [Listener(number, port, channel) for number, port in enumerate(start.ports)]

    def count(_: object, context: dict[str, Any]) -> None:
        listeners[0].note_fault(context.get("exception") or context["message"])

    asyncio.get_running_loop().set_exception_handler(count)
    await channel.follow(listeners)
    os._exit(0)  # with the scheduler, since only it can answer


def main() -> None:
    """Serve according to the last argument, which is JSON."""
    start = msgspec.json.decode(sys.argv[-1], type=Start)
    # A terminal sends its signals to this process too; only the scheduler ends it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Faults are counted and reported through the channel. The scheduler reads standard error only
    # at the end, and a full pipe would block us.
    logging.disable(logging.CRITICAL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sum(port.limits.connections for port in start.ports) + _SPARE_DESCRIPTORS
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    asyncio.run(_run(start))
