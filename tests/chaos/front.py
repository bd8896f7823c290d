"""A front for a server that cannot play faults: what goes through it meets them.

It passes requests on and answers back, one connection there for each connection here.
"""

import asyncio
import re
import ssl
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from kaisched_apiserver.requests import request_of
from kaisched_apiserver.statuses import expired
from tests.chaos.away import Received, attend

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_BLOCK = 1 << 16


class Front:
    """Serves on the loopback, from a thread, what is behind it."""

    def __init__(self, host, pool):
        self.faults = Received()
        behind = urlsplit(host)
        self._there = {"host": behind.hostname, "port": behind.port or 443}
        if behind.scheme == "https":
            self._there["ssl"] = _tls_of(pool)
            self._there["server_hostname"] = pool.get("server_hostname") or behind.hostname
        self._open = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="front", daemon=True).start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def drop(self):
        """Cut every connection."""
        self._loop.call_soon_threadsafe(lambda: [it.abort() for it in list(self._open)])

    async def _serve(self, reader, writer):
        here = writer.transport
        self._open.add(here)
        try:
            far_reader, far_writer = await asyncio.open_connection(**self._there)
            # Whoever is here hears at once that the server has gone, as without us.
            ended = asyncio.create_task(far_writer.wait_closed())
            ended.add_done_callback(lambda it: (it.cancelled() or it.exception(), here.abort()))
            try:
                while await self._pass(reader, writer, far_reader, far_writer):
                    pass
            finally:
                far_writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two has gone
        finally:
            self._open.discard(here)
            here.abort()

    async def _pass(self, reader, writer, far_reader, far_writer):
        """Let one request and its answer pass; return whether another may follow."""
        head = await reader.readuntil(_END)
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        method, target, _ = head.decode("latin-1").split(" ", 2)
        request = request_of(method, target, b"", "", "", "")
        fault = self.faults.of(request) if request is not None else None
        effect = fault.effect if fault is not None else "none"
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
        if effect == "status":
            writer.write(_refused(fault.error()))
            return True
        if effect == "expire":
            writer.write(_ended_watch())
            return True
        if effect == "drop_before":
            return False
        far_writer.write(head + body)
        async for piece in _answer(far_reader):
            if effect != "drop_after":
                writer.write(piece)
                await writer.drain()
        return effect != "drop_after"


async def _answer(reader):
    """Yield the pieces of an answer as they come."""
    head = await reader.readuntil(_END)
    yield head
    if _CHUNKED.search(head):
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            yield line + await reader.readexactly(size + 2)
        return
    length = _LENGTH.search(head)
    left = int(length[1]) if length else 0
    while left:
        piece = await reader.read(min(left, _BLOCK))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


def _tls_of(pool):
    context = ssl.create_default_context(cafile=pool.get("ca_certs"))
    if pool.get("cert_reqs") == "CERT_NONE":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _refused(error):
    wait = f"Retry-After: {error.retry_after_s}\r\n" if error.retry_after_s else ""
    body = error.body()
    head = (
        f"HTTP/1.1 {error.code} Told\r\nContent-Type: application/json\r\n{wait}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _ended_watch():
    told = {"type": "ERROR", "object": expired("too old resource version").status()}
    body = msgspec.json.encode(told) + b"\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def serve(pipe, host, pool):
    """Be a front until told to end."""
    front = Front(host, pool)
    with suppress(EOFError):
        attend(pipe, front.url, front.faults, drop=front.drop)
