"""Pages for probes and scrapes, and the parts of a request that each depends on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kaisched.daemon.loop import Check

TEXT: Final = "text/plain; charset=utf-8"


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


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """More headers, by name."""
    stream: str = ""
    """Name of a stream of which the body is the first part; more follows as it is pushed."""


Maker: TypeAlias = Callable[[Request], Page]


class Source(NamedTuple):
    """A page, and the parts of a request that it reads; requests equal in these share an answer."""

    make: Maker
    query: tuple[str, ...] = ()
    """Query parameters that are read; ``name=`` if the value counts, else only its presence."""
    headers: tuple[str, ...] = ()
    """Headers that are read, of ``accept``, ``host``, ``authorization`` and ``if-none-match``."""
    is_polled: bool = False
    """Whether the page is made every second, ready for probes; ``query`` then has flags only."""


Pages: TypeAlias = Mapping[str, Source]
"""By path; a path that ends with a slash stands for all below it that have no page of their own."""


def metrics_page(registry: CollectorRegistry) -> Maker:
    """Make the page that Prometheus scrapes, in the format that the request accepts."""

    def page(request: Request) -> Page:
        encode, content_type = choose_encoder(request.accept)
        return Page(HTTPStatus.OK, content_type, encode(registry))

    return page


def probe_page(checks: Callable[[], tuple[Check, ...]]) -> Source:
    """Make a probe's page: ``ok``, or what is wrong; all checks with ``?verbose``."""

    def page(request: Request) -> Page:
        found = checks()
        is_ok = all(check.is_ok for check in found)
        status = HTTPStatus.OK if is_ok else HTTPStatus.SERVICE_UNAVAILABLE
        shown = [check for check in found if "verbose" in request.query or not check.is_ok]
        lines = [f"[{'+' if check.is_ok else '-'}] {check.name}: {check.text}" for check in shown]
        text = "\n".join([*lines, "ok" if is_ok else "failed", ""])
        return Page(status, TEXT, text.encode())

    return Source(page, query=("verbose",), is_polled=True)


def text_page(status: HTTPStatus, text: str) -> Page:
    """Return a page of one line."""
    return Page(status, TEXT, f"{text}\n".encode())


def json_page(document: object, status: HTTPStatus = HTTPStatus.OK) -> Page:
    """Return a page with a JSON document."""
    return Page(status, "application/json", json.dumps(document, indent=2).encode() + b"\n")
