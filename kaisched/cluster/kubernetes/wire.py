"""Requests over kept connections of HTTP/1.1: what a write costs, and no more.

urllib3 opens the connections, and so decides about certificates; but a request by it takes three
times as much of the processor as these few lines do.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection

from kaisched.clock import monotonic_s

_BLOCK: Final = 1 << 16
_MOST_HEAD: Final = 1 << 16
"""Longest head of an answer, and longest line before a chunk, in bytes."""
_PLAIN: Final = re.compile("[!-~]+")
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: |$)")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
_CONTINUE, _EMPTY = range(100, 200), (204, 304)


class Reply(NamedTuple):
    """An answer as it came."""

    code: int
    fields: Mapping[bytes, bytes]
    """The header fields, by name in small letters; of a repeated one the last."""
    data: bytes


class BrokenAnswerError(OSError):
    """The server did not answer in HTTP/1.1, or the connection ended within an answer."""


def is_plain(text: str) -> bool:
    """Tell whether a text can be sent as the target of a request as it is."""
    return _PLAIN.fullmatch(text) is not None


class Wire:
    """Connections to one server. For any number of threads."""

    def __init__(self, host: str, pool: Mapping[str, Any], *, most: int) -> None:
        """Connect when the first request is made.

        Args:
            host: address with scheme, without a slash at the end.
            pool: urllib3's arguments for connections with TLS.
            most: how many connections are kept open.

        """
        parts = urlsplit(host)
        self._is_tls, self.prefix = parts.scheme == "https", parts.path
        self._name, self._pool, self._most = parts.hostname or "", dict(pool), most
        self._port = parts.port or (443 if self._is_tls else 80)
        self._host_field = parts.netloc.rpartition("@")[2]
        self._idle: list[socket.socket] = []
        """The one used last is used first: the others may be closed by the server."""
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    def exchange(
        self,
        method: str,
        target: str,
        fields: Mapping[str, str],
        body: bytes,
        *,
        connect_s: float,
        timeout_s: float,
    ) -> Reply:
        """Send a request and return its answer.

        Args:
            method: of HTTP.
            target: path and query, plain.
            fields: header fields, without those on the connection and the length.
            body: what is sent.
            connect_s: how long it may take to open a connection.
            timeout_s: how long all of it may take.

        Raises:
            ValueError: a header field has more than one line.
            OSError: there was no answer; it is not known whether the server got the request.
            urllib3.exceptions.HTTPError: there is no connection.

        """
        if any("\r" in value or "\n" in value for value in fields.values()):
            raise ValueError("a header field has more than one line")
        end_s = monotonic_s() + timeout_s
        lines = [f"{method} {self.prefix}{target} HTTP/1.1", f"Host: {self._host_field}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
        line = self._kept() or self._opened(min(connect_s, timeout_s))
        is_reusable = False
        try:
            line.settimeout(_left(end_s))
            line.sendall("\r\n".join(lines).encode("latin-1") + body)
            reply, is_reusable = _Reading(line, end_s).reply()
        finally:
            if is_reusable:
                self._keep(line)
            else:
                line.close()
        return reply

    def _kept(self) -> socket.socket | None:
        """Return an open connection that nobody uses; None without any."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                line = self._idle.pop()
            if not _has_something(line):
                return line
            line.close()  # the server has closed it

    def _keep(self, line: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < self._most:
                self._idle.append(line)
                return
        line.close()

    def _opened(self, timeout_s: float) -> socket.socket:
        kind = HTTPSConnection if self._is_tls else HTTPConnection
        made = kind(self._name, self._port, timeout=timeout_s, **self._pool)
        try:
            made.connect()
        except BaseException:
            made.close()
            raise
        line = made.sock
        assert line is not None
        made.sock = None  # ours from now on: it would be closed with the object
        return line


def _close_all(lines: list[socket.socket]) -> None:
    while lines:
        lines.pop().close()


def _has_something(line: socket.socket) -> bool:
    """Tell whether an idle connection has something to read: its end, in general."""
    if isinstance(line, ssl.SSLSocket) and line.pending():
        return True
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(0))


def _left(end_s: float) -> float:
    left_s = end_s - monotonic_s()
    if left_s <= 0:
        raise TimeoutError("the answer did not come in time")
    return left_s


class _Reading:
    """The answer on a connection, as far as it was read."""

    def __init__(self, line: socket.socket, end_s: float) -> None:
        """Begin with nothing read."""
        self._line, self._end_s, self._data = line, end_s, b""

    def reply(self) -> tuple[Reply, bool]:
        """Read an answer; return it, and whether the connection can be used again."""
        code, is_kept, fields = self._head()
        while code in _CONTINUE:
            code, is_kept, fields = self._head()
        if code in _EMPTY:
            data = b""
        elif b"transfer-encoding" in fields:
            if fields[b"transfer-encoding"].strip().lower() != b"chunked":
                raise BrokenAnswerError("an answer in an unknown transfer encoding")
            data = self._chunks()
        elif b"content-length" in fields:
            length = fields[b"content-length"]
            if not _LENGTH.fullmatch(length):
                raise BrokenAnswerError("an answer of unknown length")
            data = self._exactly(int(length))
        else:
            data, is_kept = self._all(), False
        is_kept = is_kept and fields.get(b"connection", b"").lower() != b"close"
        return Reply(code, fields, data), is_kept and not self._data

    def _head(self) -> tuple[int, bool, dict[bytes, bytes]]:
        """Read a status line and the fields up to the empty line after them."""
        first, *lines = self._until(b"\r\n\r\n").split(b"\r\n")
        found = _STATUS.match(first)
        if found is None:
            raise BrokenAnswerError("an answer that is not of HTTP/1.1")
        fields = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise BrokenAnswerError("an answer with a field without a name")
            fields[name.lower()] = value.strip()
        return int(found[2]), found[1] == b"1", fields

    def _chunks(self) -> bytes:
        """Read chunks, each after its size, and the fields after the last one."""
        parts = []
        while True:
            found = _CHUNK.fullmatch(self._until(b"\r\n"))
            if found is None:
                raise BrokenAnswerError("an answer with a chunk of unknown size")
            size = int(found[1], 16)
            if not size:
                break
            parts.append(self._exactly(size))
            if self._exactly(2) != b"\r\n":
                raise BrokenAnswerError("an answer with a chunk of another size than it says")
        while self._until(b"\r\n"):
            pass
        return b"".join(parts)

    def _until(self, mark: bytes) -> bytes:
        """Read up to a mark, and leave it out."""
        while (at := self._data.find(mark)) < 0:
            if len(self._data) > _MOST_HEAD:
                raise BrokenAnswerError("an answer with too long a head")
            self._data += self._more()
        found, self._data = self._data[:at], self._data[at + len(mark) :]
        return found

    def _exactly(self, count: int) -> bytes:
        parts, have = [self._data], len(self._data)
        while have < count:
            parts.append(self._more())
            have += len(parts[-1])
        data = b"".join(parts)
        self._data = data[count:]
        return data[:count]

    def _all(self) -> bytes:
        """Read until the server closes the connection."""
        parts = [self._data]
        self._data = b""
        while piece := self._piece():
            parts.append(piece)
        return b"".join(parts)

    def _more(self) -> bytes:
        piece = self._piece()
        if not piece:
            raise BrokenAnswerError("the connection ended within an answer")
        return piece

    def _piece(self) -> bytes:
        self._line.settimeout(_left(self._end_s))
        return self._line.recv(_BLOCK)
