"""Listening socket and its connected clients."""

from __future__ import annotations

import json
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kaisched.daemon.front.certificate import Certificate
from kaisched.daemon.front.client import TEXT, Client
from kaisched.daemon.front.polled import Polled
from kaisched.daemon.front.request import parent_of, read
from kaisched.daemon.front.streams import Streams

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl

    from kaisched.daemon.front.channel import Channel

_BATCH: Final = 64
"""Connections accepted at a time, so that connected clients get their turn."""
_HEADERS: Final = ("accept", "host", "authorization", "if-none-match")


class Listener:
    """Accepts connections up to a limit, and counts what became of them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        channel: Channel,
        settings: dict[str, Any],
    ) -> None:
        """Start listening."""
        self.loop = loop
        self.limits = settings["limits"]
        self.refused: Counter[str] = Counter()
        self._pages = settings["pages"]
        self._sock = sock
        self._channel = channel
        self._clients: dict[Client, None] = {}
        """Connected clients, the oldest first."""
        self._by_address: Counter[str] = Counter()
        self.streams = Streams(loop, self.limits)
        channel.on_push = self.streams.push
        self._certificate = Certificate(**settings["tls"]) if settings["tls"] else None
        self._polled = {
            question: Polled(loop, channel, question, self.limits)
            for path, page in self._pages.items()
            if page["is_polled"]
            for question in _questions(path, page["query"])
        }
        loop.add_reader(sock, self._take)
        self._report_refusals()
        self._renew()

    @property
    def context(self) -> ssl.SSLContext | None:
        """TLS context of new connections; None without TLS."""
        return None if self._certificate is None else self._certificate.context

    def _renew(self) -> None:
        if self._certificate is not None:
            try:
                self._certificate.renew()
            except OSError:
                self.refused["certificate"] += 1
            self.loop.call_later(self.limits["reload_s"], self._renew)

    def _report_refusals(self) -> None:
        if self.refused:
            self._channel.tell(self.refused)
            self.refused.clear()
        self.loop.call_later(self.limits["tell_s"], self._report_refusals)

    def _take(self) -> None:
        for _ in range(_BATCH):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more file descriptors: one connection has to go
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
        """Drop the oldest client without a whole request, of the address with most clients.

        A client that sends its request at once has been answered long before its turn to be
        dropped.
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
        self.streams.leave(client)
        if client in self._clients:
            del self._clients[client]
            self._by_address[client.address] -= 1
            if not self._by_address[client.address]:
                del self._by_address[client.address]

    def received(self, client: Client, head: bytes) -> None:
        """Answer a request, or pass it on to the parent."""
        try:
            method, path, query, headers = read(head)
        except ValueError:
            client.refuse("malformed", HTTPStatus.BAD_REQUEST)
            return
        if method == "HEAD":
            client.without_body()
        elif method != "GET":
            client.refuse("method", HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only")
            return
        page = self._pages.get(path) or self._pages.get(parent_of(path, self._pages))
        if page is None:
            text = f"here are {', '.join(self._pages)}\n"
            client.answer(HTTPStatus.NOT_FOUND, TEXT, text.encode())
            return
        # Only the headers and flags that the page reads, so that other differences ask nothing new.
        wanted = {
            name.rstrip("="): query[name.rstrip("=")][:1] if name.endswith("=") else [""]
            for name in page["query"]
            if name.rstrip("=") in query
        }
        asked = {name: headers.get(name, "") for name in _HEADERS if name in page["headers"]}
        question = _question(path, wanted, asked)
        polled = self._polled.get(question)
        if polled is not None:
            polled.give(client)
        else:
            self._channel.ask(question, client)


def _question(path: str, query: dict[str, list[str]], headers: dict[str, str]) -> str:
    return json.dumps({"path": path, "query": query, "headers": headers})


def _questions(path: str, names: list[str]) -> list[str]:
    """Return all questions about a polled page: plain, and with each of its flags."""
    return [_question(path, query, {}) for query in ({}, *({name: [""]} for name in names))]
