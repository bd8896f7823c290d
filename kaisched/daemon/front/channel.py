"""Channel to the parent process: questions out, pages in."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

FRAME: Final = struct.Struct(">II")
"""Header of each message: the length of its JSON and of the bytes after it."""


class Waits(Protocol):
    """A client that waits for an answer, unless it is gone."""

    is_gone: bool

    def answer(
        self, status: int, content_type: str, body: bytes, more: Mapping[str, Any] | None = None
    ) -> None:
        """Receive the answer; ``more`` has further headers, and the stream that it begins."""


class Channel(asyncio.Protocol):
    """Sends questions to the parent, equal ones once, and hands its answers to the clients."""

    def __init__(self, most_asked: int) -> None:
        """Limit the questions under way at a time; more have to wait."""
        self._most_asked = most_asked
        self._waiting: dict[str, list[Waits]] = {}
        """Clients by question: equal questions are sent once."""
        self._queue: deque[str] = deque()
        self._asked: dict[int, str] = {}
        self._number = 0
        self._buffer = bytearray()
        self._transport: Any = None
        self.on_push: Callable[[str, bytes], None] = lambda _stream, _part: None
        """Called with each part of a stream that the parent pushes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for writing."""
        self._transport = transport

    def ask(self, question: str, client: Waits) -> None:
        """Send a client's question, or let the client share the answer to an equal one."""
        clients = self._waiting.setdefault(question, [])
        clients.append(client)
        if len(clients) == 1:
            self._queue.append(question)
            self._send_next()

    def tell(self, counts: Counter[str]) -> None:
        """Report refused connections and requests to the parent."""
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
        """Hand out the pages that are complete."""
        self._buffer += data
        while len(self._buffer) >= FRAME.size:
            head, body = FRAME.unpack_from(self._buffer)
            end = FRAME.size + head + body
            if len(self._buffer) < end:
                return
            answer = json.loads(self._buffer[FRAME.size : FRAME.size + head])
            page = bytes(self._buffer[FRAME.size + head : end])
            del self._buffer[:end]
            if "push" in answer:
                self.on_push(answer["push"], page)
                continue
            clients = self._waiting.pop(self._asked.pop(answer["id"]))
            for client in clients:
                client.answer(answer["status"], answer["type"], page, answer)
            self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Exit with the parent, since only it can answer."""
        del exc
        os._exit(0)
