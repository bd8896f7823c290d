"""Takes connections, reads requests and asks the parent process for the pages.

A process of its own, run by its path: what thousands of clients do needs nothing of the
interpreter that schedules. It has the standard library only, so that it is small and starts at
once. The parent hands over two open sockets: one that listens, and a channel to itself. When the
channel ends, so does this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

FRAME: Final = struct.Struct(">II")
"""Before each message on the channel: the length of its JSON and of the bytes after it."""
_BATCH: Final = 64
"""Connections that are taken at a time, so that those there are get their turn."""
_BLOCK: Final = 1 << 16
_TEXT: Final = "text/plain; charset=utf-8"
_HEADERS: Final = ("accept", "host", "authorization")


class Channel(asyncio.Protocol):
    """The way to the parent: questions out, pages in."""

    def __init__(self, most_asked: int) -> None:
        """Ask at most so many questions at a time; the others wait."""
        self._most_asked = most_asked
        self._waiting: dict[str, list[Client]] = {}
        """By question: equal questions are asked once."""
        self._queue: deque[str] = deque()
        self._asked: dict[int, str] = {}
        self._number = 0
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the way out."""
        self._transport = transport

    def ask(self, question: str, client: Client) -> None:
        """Have a client answered."""
        clients = self._waiting.setdefault(question, [])
        clients.append(client)
        if len(clients) == 1:
            self._queue.append(question)
            self._send_next()

    def tell(self, counts: Counter[str]) -> None:
        """Tell the parent what was refused."""
        self._write({"notice": counts})

    def _send_next(self) -> None:
        while self._queue and len(self._asked) < self._most_asked:
            question = self._queue.popleft()
            if all(client.is_gone for client in self._waiting[question]):
                del self._waiting[question]
                continue
            self._number += 1
            self._asked[self._number] = question
            self._write({"id": self._number, **json.loads(question)})

    def _write(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        self._transport.write(FRAME.pack(len(data), 0) + data)

    def data_received(self, data: bytes) -> None:
        """Hand out the pages that are whole."""
        self._buffer += data
        while len(self._buffer) >= FRAME.size:
            said, body = FRAME.unpack_from(self._buffer)
            end = FRAME.size + said + body
            if len(self._buffer) < end:
                return
            answer = json.loads(self._buffer[FRAME.size : FRAME.size + said])
            page = bytes(self._buffer[FRAME.size + said : end])
            del self._buffer[:end]
            clients = self._waiting.pop(self._asked.pop(answer["id"]))
            for client in clients:
                client.answer(answer["status"], answer["type"], page)
            self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the parent: there is nobody left to ask."""
        del exc
        os._exit(0)


class Client(asyncio.Protocol):
    """One connection: one request, one answer, and a time by which all of it is over."""

    def __init__(self, front: Front, sock: socket.socket, address: str) -> None:
        """Start the clock."""
        self.address = address
        self.is_gone = False
        self.is_answered = False
        """Whether the request is there: who only drips goes first when it is full."""
        self.task: asyncio.Task[None] | None = None
        self._front = front
        self._sock = sock
        self._transport: Any = None
        self._head = bytearray()
        self._left = memoryview(b"")
        self._is_full = False
        self._has_body = True
        later, limits = front.loop.call_later, front.limits
        self._timers = (
            later(limits["head_s"], self._late_head),
            later(limits["whole_s"], self.drop, "late"),
        )

    def start(self, context: ssl.SSLContext | None) -> None:
        """Begin to read, after the handshake where there is one."""
        self.task = self._front.loop.create_task(self._begin(context))
        self.task.add_done_callback(self._begun)

    def _begun(self, _: asyncio.Task[None]) -> None:
        self.task = None
        if self._transport is None:
            self._sock.close()

    async def _begin(self, context: ssl.SSLContext | None) -> None:
        loop, limit = self._front.loop, self._front.limits["head_s"]
        wait_s = None if context is None else limit
        try:
            await loop.connect_accepted_socket(
                lambda: self, self._sock, ssl=context, ssl_handshake_timeout=wait_s
            )
        except (OSError, ssl.SSLError):
            self.drop("gone" if context is None else "handshake")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the way out; little is kept of what a slow client does not take."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=_BLOCK)
        if self.is_gone:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read until the head is whole; what comes after it is not looked at."""
        if self.is_answered or self.is_gone:
            return
        self._head += data
        if b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self.is_answered = True
            self._front.received(self, bytes(self._head))
        elif len(self._head) > self._front.limits["head_bytes"]:
            self.refuse("too_long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def eof_received(self) -> bool:
        """Wait with closing where an answer is on its way."""
        if not self.is_answered:
            self.drop("gone")
        return self.is_answered and self._front.context is None

    def refuse(self, reason: str, status: HTTPStatus, text: str = "") -> None:
        """Answer with an error, and count it."""
        self._front.refused[reason] += 1
        self.is_answered = True
        self.answer(status, _TEXT, f"{text or status.phrase.lower()}\n".encode())

    def without_body(self) -> None:
        """Leave out the body: it was asked for by HEAD."""
        self._has_body = False

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        """Send an answer as fast as it is taken."""
        if self.is_gone:
            return
        phrase = HTTPStatus(status).phrase
        lines = [
            f"HTTP/1.1 {status} {phrase}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(["WWW-Authenticate: Bearer"] if status == HTTPStatus.UNAUTHORIZED else []),
            *(["Allow: GET, HEAD"] if status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        ]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
        self._left = memoryview(body if self._has_body else b"")
        self._pour()

    def _pour(self) -> None:
        while self._left and not self._is_full:
            part, self._left = self._left[:_BLOCK], self._left[_BLOCK:]
            self._transport.write(part)
        if not self._left:
            self._transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to take what it was sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Go on sending."""
        self._is_full = False
        self._pour()

    def _late_head(self) -> None:
        if not self.is_answered:
            self.drop("late")

    def drop(self, reason: str) -> None:
        """End it at once, and count it."""
        if self.is_gone:
            return
        self._front.refused[reason] += 1
        self._end()
        if self._transport is not None:
            self._transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count who went before the answer was out."""
        if exc is not None and not self.is_gone:
            self._front.refused["gone"] += 1
        self._end()

    def _end(self) -> None:
        self.is_gone = True
        self._left = memoryview(b"")
        for timer in self._timers:
            timer.cancel()
        self._front.forget(self)


class Front:
    """Takes connections, never more than so many."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        channel: Channel,
        settings: dict[str, Any],
    ) -> None:
        """Begin to listen."""
        self.loop = loop
        self.limits = settings["limits"]
        self.refused: Counter[str] = Counter()
        self._pages = settings["pages"]
        self._sock = sock
        self._channel = channel
        self._clients: dict[Client, None] = {}
        """The oldest first."""
        self._by_address: Counter[str] = Counter()
        self.context = Certificate(settings["tls"], self).context if settings["tls"] else None
        loop.add_reader(sock, self._take)
        self._tell()

    def _tell(self) -> None:
        if self.refused:
            self._channel.tell(self.refused)
            self.refused.clear()
        self.loop.call_later(self.limits["tell_s"], self._tell)

    def _take(self) -> None:
        for _ in range(_BATCH):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more descriptors: somebody has to go
                self._make_room()
                return
            sock.setblocking(False)
            client = Client(self, sock, str(address[0]))
            self._clients[client] = None
            self._by_address[client.address] += 1
            if len(self._clients) > self.limits["connections"]:
                self._make_room()
            client.start(self.context)

    def _make_room(self) -> None:
        """Drop the oldest that has said nothing whole yet, of the address that has most.

        A client that says at once what it wants has long been served when its turn would come.
        """
        most = max(self._by_address.values(), default=0)
        crowd = [it for it in self._clients if self._by_address[it.address] == most]
        idle = next((it for it in crowd if not it.is_answered), None)
        idle = idle or next((it for it in self._clients if not it.is_answered), None)
        if idle is None and self._clients:
            idle = next(iter(self._clients))
        if idle is not None:
            idle.drop("crowded")

    def forget(self, client: Client) -> None:
        """Note that a connection has ended."""
        if client in self._clients:
            del self._clients[client]
            self._by_address[client.address] -= 1
            if not self._by_address[client.address]:
                del self._by_address[client.address]

    def received(self, client: Client, head: bytes) -> None:
        """Answer a request, or have the parent answer it."""
        try:
            method, path, query, headers = _read(head)
        except ValueError:
            client.refuse("malformed", HTTPStatus.BAD_REQUEST)
            return
        if method == "HEAD":
            client.without_body()
        elif method != "GET":
            client.refuse("method", HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only")
            return
        page = self._pages.get(path)
        if page is None:
            text = f"here are {', '.join(self._pages)}\n"
            client.answer(HTTPStatus.NOT_FOUND, _TEXT, text.encode())
            return
        # Only what the page rests on: who varies the rest asks the same question again.
        wanted = {
            name.rstrip("="): query[name.rstrip("=")][:1] if name.endswith("=") else [""]
            for name in page["query"]
            if name.rstrip("=") in query
        }
        asked = {name: headers.get(name, "") for name in _HEADERS if name in page["headers"]}
        question = json.dumps({"path": path, "query": wanted, "headers": asked})
        self._channel.ask(question, client)


class Certificate:
    """Certificate and key, read again when their files change."""

    def __init__(self, files: dict[str, str], front: Front) -> None:
        """Read them.

        Raises:
            OSError: they cannot be read, or do not belong together.

        """
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._files = files
        self._front = front
        self._stamp = self._times()
        self.context.load_cert_chain(files["cert"], files["key"])
        front.loop.call_later(front.limits["reload_s"], self._look)

    def _times(self) -> tuple[int, ...]:
        return tuple(os.stat(path).st_mtime_ns for path in self._files.values())  # noqa: PTH116 - pathlib would cost the start

    def _look(self) -> None:
        self._front.loop.call_later(self._front.limits["reload_s"], self._look)
        try:
            stamp = self._times()
            if stamp != self._stamp:
                # Into the same context: connections from now on have the new one.
                self.context.load_cert_chain(self._files["cert"], self._files["key"])
                self._stamp = stamp
        except OSError:  # half written: the one there is stays, and is looked at again
            self._front.refused["certificate"] += 1


def _read(head: bytes) -> tuple[str, str, dict[str, list[str]], dict[str, str]]:
    """Return method, path, query and headers of a request.

    Raises:
        ValueError: it is no HTTP/1.

    """
    first, *rest = head.decode("latin-1").replace("\r\n", "\n").partition("\n\n")[0].split("\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    url = urlsplit(target)
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise ValueError(line)
        headers[name.lower()] = value.strip()
    query = parse_qs(url.query, keep_blank_values=True, max_num_fields=32)
    return method, url.path, query, headers


async def _run(settings: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    channel_socket = socket.socket(fileno=settings["channel"])
    channel_socket.setblocking(False)
    listening = socket.socket(fileno=settings["listening"])
    listening.setblocking(False)
    channel = Channel(settings["limits"]["asked"])
    await loop.connect_accepted_socket(lambda: channel, channel_socket)
    front = Front(loop, listening, channel, settings)
    loop.set_exception_handler(_counted(front))
    await asyncio.Event().wait()


def _counted(front: Front) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    def count(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        front.refused[f"fault: {context.get('exception') or context['message']}"[:200]] += 1

    return count


if __name__ == "__main__":
    # A terminal sends its signals to us too; the parent says when it is over.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # What goes wrong is counted and told through the channel; nobody reads standard error before
    # the end, and a full pipe would stop us.
    logging.disable(logging.CRITICAL)
    asyncio.run(_run(json.loads(sys.argv[1])))
