"""One connection: one request, one answer, and a deadline for all of it."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import socket
    from collections import Counter
    from collections.abc import Mapping

TEXT: Final = "text/plain; charset=utf-8"
_BLOCK: Final = 1 << 16


class Streaming(Protocol):
    """Knows who has which stream."""

    def join(self, client: Client, name: str) -> bool:
        """Give a client a stream; False if too many are open."""
        ...


class Listening(Protocol):
    """What a client needs of the listener that took it."""

    loop: asyncio.AbstractEventLoop
    limits: dict[str, Any]
    refused: Counter[str]

    @property
    def streams(self) -> Streaming:
        """The streams that clients have."""
        ...

    @property
    def context(self) -> ssl.SSLContext | None:
        """How connections are encrypted; None if they are not."""
        ...

    def received(self, client: Client, head: bytes) -> None:
        """Answer a request whose head is complete."""
        ...

    def forget(self, client: Client) -> None:
        """Note that a connection has ended."""
        ...


class Client(asyncio.Protocol):
    """Client that sends one request and gets its answer, bounded in bytes and in time."""

    def __init__(self, listener: Listening, sock: socket.socket, address: str) -> None:
        """Start the timers."""
        self.address = address
        self.is_gone = False
        self.is_answered = False
        """Whether the request is complete; clients without one are dropped first under load."""
        self.task: asyncio.Task[None] | None = None
        self._listener = listener
        self._sock = sock
        self._transport: Any = None
        self._head = bytearray()
        self._left = memoryview(b"")
        self._late = b""
        """The latest part of a stream for which there was no room."""
        self._is_full = self._is_stream = False
        self._has_body = True
        later, limits = listener.loop.call_later, listener.limits
        self._timers: tuple[asyncio.TimerHandle, ...] = (
            later(limits["head_s"], self._late_head),
            later(limits["whole_s"], self.drop, "late"),
        )

    def start(self, context: ssl.SSLContext | None) -> None:
        """Start reading, after the handshake if there is one."""
        self.task = self._listener.loop.create_task(self._begin(context))
        self.task.add_done_callback(self._begun)

    def _begun(self, _: asyncio.Task[None]) -> None:
        self.task = None
        if self._transport is None:
            self._sock.close()

    async def _begin(self, context: ssl.SSLContext | None) -> None:
        loop, limit = self._listener.loop, self._listener.limits["head_s"]
        wait_s = None if context is None else limit
        try:
            await loop.connect_accepted_socket(
                lambda: self, self._sock, ssl=context, ssl_handshake_timeout=wait_s
            )
        except (OSError, ssl.SSLError):
            self.drop("gone" if context is None else "handshake")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, with a small write buffer for slow clients."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=_BLOCK)
        if self.is_gone:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read until the head is complete; ignore everything after it."""
        if self.is_answered or self.is_gone:
            return
        self._head += data
        if b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self.is_answered = True
            self._listener.received(self, bytes(self._head))
        elif len(self._head) > self._listener.limits["head_bytes"]:
            self.refuse("too_long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def eof_received(self) -> bool:
        """Keep the connection open while an answer is on its way."""
        if not self.is_answered:
            self.drop("gone")
        if self._is_stream:
            return False
        return self.is_answered and self._listener.context is None

    def refuse(self, reason: str, status: HTTPStatus, text: str = "") -> None:
        """Answer with an error, and count the refusal."""
        self._listener.refused[reason] += 1
        self.is_answered = True
        self.answer(status, TEXT, f"{text or status.phrase.lower()}\n".encode())

    def without_body(self) -> None:
        """Leave out the body, as HEAD asks."""
        self._has_body = False

    def answer(
        self, status: int, content_type: str, body: bytes, more: Mapping[str, Any] | None = None
    ) -> None:
        """Send an answer as fast as the client takes it, and go on where it begins a stream."""
        if self.is_gone:
            return
        more = more or {}
        is_stream = self._has_body and "stream" in more
        if is_stream and not self._listener.streams.join(self, more["stream"]):
            self.refuse("streams", HTTPStatus.SERVICE_UNAVAILABLE, "too many streams are open")
            return
        phrase = HTTPStatus(status).phrase
        lines = [
            f"HTTP/1.1 {status} {phrase}",
            f"Content-Type: {content_type}",
            *([] if is_stream else [f"Content-Length: {len(body)}"]),
            "Connection: close",
            *(f"{name}: {value}" for name, value in more.get("headers", ())),
            *(["WWW-Authenticate: Bearer"] if status == HTTPStatus.UNAUTHORIZED else []),
            *(["Allow: GET, HEAD"] if status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        ]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
        self._left = memoryview(body if self._has_body else b"")
        if is_stream:
            self._go_on()
        self._pour()

    def _go_on(self) -> None:
        """Stay open for a stream, for as long as one may be."""
        self._is_stream = True
        for timer in self._timers:
            timer.cancel()
        later, limits = self._listener.loop.call_later, self._listener.limits
        self._timers = (later(limits["stream_s"], self._end_stream),)

    def _end_stream(self) -> None:
        self._is_stream = False
        self._pour()

    def push(self, part: bytes) -> None:
        """Send the next part of a stream; one that the client is too slow for is left out."""
        if self._left:
            self._late = part
        else:
            self._left = memoryview(part)
            self._pour()

    @property
    def is_behind(self) -> bool:
        """Whether it has not taken what was sent."""
        return bool(self._left or self._late)

    def beat(self, sign: bytes) -> None:
        """Send a sign of life, unless the client has not even taken what came before."""
        if not self.is_behind:
            self.push(sign)

    def _pour(self) -> None:
        while not self._is_full and (self._left or self._late):
            if not self._left:
                self._left, self._late = memoryview(self._late), b""
            part, self._left = self._left[:_BLOCK], self._left[_BLOCK:]
            self._transport.write(part)
        if not self._left and not self._is_stream:
            self._transport.close()

    def pause_writing(self) -> None:
        """Stop writing until the client has taken what was sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Continue writing."""
        self._is_full = False
        self._pour()

    def _late_head(self) -> None:
        if not self.is_answered:
            self.drop("late")

    def drop(self, reason: str) -> None:
        """Close the connection at once, and count the reason."""
        if self.is_gone:
            return
        self._listener.refused[reason] += 1
        self._end()
        if self._transport is not None:
            self._transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a client that left before its whole answer was sent."""
        if exc is not None and not self.is_gone:
            self._listener.refused["gone"] += 1
        self._end()

    def _end(self) -> None:
        self.is_gone = True
        self._left = memoryview(b"")
        for timer in self._timers:
            timer.cancel()
        self._listener.forget(self)
