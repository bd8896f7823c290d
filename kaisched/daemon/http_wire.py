"""Messages between the scheduler and its HTTP process: questions, pages and their limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

import msgspec

TEXT: Final = "text/plain; charset=utf-8"
LENGTH_BYTES: Final = 4
"""Size of the length, most significant byte first, that precedes each message."""


class Request(NamedTuple):
    """Parts of a request that a page may read."""

    query: Mapping[str, list[str]]
    accept: str
    host: str = ""
    """The Host header."""
    path: str = ""
    authorization: str = ""
    if_none_match: str = ""
    """The ETag of the answer that the client has."""
    origin: str = ""
    sec_fetch_site: str = ""
    """What a browser says of the page that asks."""


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """More headers, by name."""
    is_stream: bool = False
    """Whether the body is the first part of a stream; more follows as it is pushed."""


class Reads(NamedTuple):
    """Parts of a request that a page reads; requests equal in these share an answer."""

    query: tuple[str, ...] = ()
    """Query parameters that are read; ``name=`` if the value counts, else only its presence."""
    headers: tuple[str, ...] = ()
    """Headers that are read, by the names of the fields of a request."""
    is_polled: bool = False
    """Whether the page is made every second, ready for probes; ``query`` then has flags only."""


Maker: TypeAlias = Callable[[Request], Page]


class Source(NamedTuple):
    """A page: what makes it, and what it reads."""

    make: Maker
    reads: Reads = Reads()


Pages: TypeAlias = Mapping[str, Source]
"""By path; a path that ends with a slash stands for all below it that have no page of their own."""


class Limits(NamedTuple):
    """Limits of one port."""

    connections: int = 1024
    """Open at a time; one more drops the oldest that has not yet sent a request."""
    head_s: float = 5.0
    """From the connection to a whole request, TLS handshake included."""
    whole_s: float = 30.0
    """From the connection to the last byte of the answer."""
    head_bytes: int = 16 * 1024
    threads: int = 1
    """Pages made at a time; other questions wait in the HTTP process."""
    poll_s: float = 1.0
    """Time from an answer to a probe until the page is requested again."""
    fresh_s: float = 5.0
    """Longest age of an answer that a probe may be given."""
    tell_s: float = 10.0
    """Shortest time between two reports of refusals."""
    reload_s: float = 5.0
    """Time between two checks whether the certificate has changed."""
    streams: int = 64
    """Streams open at a time; one more is refused."""
    stream_s: float = 600.0
    """The longest time that a stream is open; the client then asks again, with its rights."""
    beat_s: float = 15.0
    """Time between two signs of life in a stream."""


USUAL: Final = Limits()


class Tls(NamedTuple):
    """PEM files of a port; they are read again when they change."""

    cert: str
    key: str


class Port(NamedTuple):
    """A port that the HTTP process serves."""

    fd: int
    """Of the listening socket."""
    hosts: tuple[str, ...]
    """More names by which clients may call it."""
    pages: Mapping[str, Reads]
    limits: Limits
    tls: Tls | None


class Start(NamedTuple):
    """What the HTTP process is started with."""

    channel: int
    """Descriptor of the socket to the scheduler."""
    ports: tuple[Port, ...]


class Asked(msgspec.Struct, tag="asked", array_like=True, frozen=True):
    """A question: a page that clients wait for."""

    number: int
    port: int
    page: str
    """The path under which the page is known."""
    request: Request


class Refused(msgspec.Struct, tag="refused", array_like=True, frozen=True):
    """Numbers of refused connections and requests, by reason."""

    port: int
    counts: Mapping[str, int]


class Answered(msgspec.Struct, tag="answered", array_like=True, frozen=True):
    """The page for a question."""

    number: int
    page: Page


class Pushed(msgspec.Struct, tag="pushed", array_like=True, frozen=True):
    """The next part for all clients with a stream."""

    port: int
    part: bytes


def frame(message: Asked | Refused | Answered | Pushed) -> bytes:
    """Return a message as it is sent."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


_IN_CLUSTER: Final = (".svc", ".svc.cluster.local")


def is_known_host(host: str, more: Collection[str], *, is_on_loopback: bool) -> bool:
    """Tell whether a Host header names us, not a site whose name leads a browser here.

    Nobody else's page can have an IP address, ``localhost`` or a name within the cluster.

    Args:
        host: the header, with or without a port.
        more: names that the settings add.
        is_on_loopback: only programs of this machine can connect, so its own names suffice.

    """
    name, colon, port = host.lower().rpartition(":")
    if not (colon and port.isdecimal()):
        name = host.lower()
    if name == "localhost" or name in more:
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        is_within = "." not in name or name.endswith(_IN_CLUSTER)
        return not is_on_loopback and bool(name) and is_within
    return True


def text_page(status: HTTPStatus, text: str) -> Page:
    """Return a page of one line."""
    return Page(status, TEXT, f"{text}\n".encode())
