"""Plain HTTP for probes and scrapes: GET only, loopback unless told otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import choose_encoder

from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kaisched.daemon.health import Check

_PATIENCE_S: Final = 10.0
"""How long a client may take to say what it wants."""
_POLL_S: Final = 0.05
"""How soon a server that is closed stops listening."""
_TEXT: Final = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """What a page needs to know."""

    query: Mapping[str, list[str]]
    accept: str
    host: str = ""
    """What the client calls us, with the port where it is not the usual one."""


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


Pages: TypeAlias = Mapping[str, Callable[[Request], Page]]


def metrics_page(registry: CollectorRegistry) -> Callable[[Request], Page]:
    """Return the page a Prometheus server scrapes, in the format it asks for."""

    def page(request: Request) -> Page:
        encode, content_type = choose_encoder(request.accept)
        return Page(HTTPStatus.OK, content_type, encode(registry))

    return page


def probe_page(checks: Callable[[], tuple[Check, ...]]) -> Callable[[Request], Page]:
    """Return a probe's page: ``ok``, or what is wrong; all checks with ``?verbose``."""

    def page(request: Request) -> Page:
        found = checks()
        is_ok = all(check.is_ok for check in found)
        status = HTTPStatus.OK if is_ok else HTTPStatus.SERVICE_UNAVAILABLE
        shown = [check for check in found if "verbose" in request.query or not check.is_ok]
        lines = [f"[{'+' if check.is_ok else '-'}] {check.name}: {check.text}" for check in shown]
        text = "\n".join([*lines, "ok" if is_ok else "failed", ""])
        return Page(status, _TEXT, text.encode())

    return page


def json_page(document: object, status: HTTPStatus = HTTPStatus.OK) -> Page:
    """Return a page with a JSON document."""
    return Page(status, "application/json", json.dumps(document, indent=2).encode() + b"\n")


@dataclass(frozen=True)
class Server:
    """A server that runs in its own thread."""

    http: ThreadingHTTPServer
    thread: threading.Thread

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was asked for."""
        return int(self.http.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def serve(address: str, port: int, pages: Pages, setting: str) -> Server:
    """Serve pages until closed.

    Raises:
        ConfigError: the address is not ours or the port is taken; names the ``setting``.

    """
    family = AF_INET6 if ":" in address else AF_INET
    kind = type("_Server", (ThreadingHTTPServer,), {"address_family": family})
    try:
        http = kind((address, port), _handler_of(pages))
    except OSError as wrong:
        raise ConfigError(
            f"cannot listen on {address} port {port}: {wrong.strerror or wrong}",
            path=setting,
            fix="choose another port, or 0 for any that is free",
        ) from wrong
    http.daemon_threads = True
    thread = threading.Thread(
        target=http.serve_forever, args=(_POLL_S,), name=f"http-{setting}", daemon=True
    )
    thread.start()
    return Server(http, thread)


def _handler_of(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version = "kaisched"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(is_with_body=True)

        def do_HEAD(self) -> None:
            self._answer(is_with_body=False)

        def _answer(self, *, is_with_body: bool) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query, keep_blank_values=True)
            make = pages.get(url.path)
            if make is None:
                page = Page(HTTPStatus.NOT_FOUND, _TEXT, f"here are {', '.join(pages)}\n".encode())
            else:
                page = make(
                    Request(query, self.headers.get("Accept", ""), self.headers.get("Host", ""))
                )
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            if is_with_body:
                self.wfile.write(page.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing: probes come every few seconds."""

    return Handler
