"""HTTP/1.1 from bytes: one request at a time out of a connection's buffer."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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
