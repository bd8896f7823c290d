"""HTTP server: a child process accepts the connections of all ports, threads here render pages.

The process (:mod:`kaisched.daemon.http_child`) enforces limits and deadlines. Whatever its clients
do, each of our few threads handles one question at a time.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from prometheus_client.exposition import choose_encoder

from kaisched.clock import monotonic_s
from kaisched.daemon.http_wire import (
    LENGTH_BYTES,
    TEXT,
    USUAL,
    Answered,
    Asked,
    Limits,
    Page,
    Pages,
    Port,
    Pushed,
    Reads,
    Refused,
    Request,
    Source,
    Start,
    Tls,
    frame,
    text_page,
)
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from kaisched.daemon.http_wire import Maker
    from kaisched.daemon.loop import Check

_MAIN: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from kaisched.daemon.http_child import main; main()"
)
"""Isolated, and with the folders from which we were imported ourselves."""
_BACKLOG: Final = 1024
_AGAIN_S: Final = 1.0
"""Shortest time between two starts of a process that keeps ending."""
_END_S: Final = 2.0
_LOOK_S: Final = 0.25
"""Time between two looks for something to push: so often may a stream tell of a change."""
_LONGEST_ERROR: Final = 300
_DECODER: Final = msgspec.msgpack.Decoder(Asked | Refused)


class Listener:
    """A socket that listens, and what is served on it."""

    def __init__(
        self,
        sock: socket.socket,
        pages: Pages,
        setting: str,
        tls: Tls | None,
        limits: Limits,
        hosts: Sequence[str],
    ) -> None:
        """Keep what :func:`listen` was given."""
        self.sock, self.pages, self.setting = sock, pages, setting
        self.tls, self.limits, self.hosts = tls, limits, tuple(hosts)
        self.news: Callable[[], bytes] | None = None
        """Returns what is to be pushed to streams now; empty for nothing."""

    @property
    def address(self) -> str:
        """The address that it listens on."""
        return str(self.sock.getsockname()[0])

    @property
    def port(self) -> int:
        """The port that it listens on, even if 0 was configured."""
        return int(self.sock.getsockname()[1])


def listen(
    address: str,
    port: int,
    pages: Pages,
    setting: str,
    *,
    tls: Tls | None = None,
    limits: Limits = USUAL,
    hosts: Sequence[str] = (),
) -> Listener:
    """Listen for a :class:`Server`.

    Args:
        address: the address to listen on.
        port: the port; 0 takes any free one.
        pages: the pages by path.
        setting: name of the port's setting, for errors and the log.
        tls: certificate and key; without them the connection is not encrypted.
        limits: limits of the port.
        hosts: more names by which clients may call it.

    Raises:
        ConfigError: the address is not ours, the port is taken, or the key is not the
        certificate's.

    """
    if tls is not None:
        _check(tls, setting)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except OSError as wrong:
        sock.close()
        raise ConfigError(
            f"cannot listen on {address} port {port}: {wrong.strerror or wrong}",
            path=setting,
            fix="choose another port, or 0 for any that is free",
        ) from wrong
    return Listener(sock, pages, setting, tls, limits, hosts)


def _check(tls: Tls, setting: str) -> None:
    section = setting.partition(".")[0]
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key)
    except OSError as wrong:  # of the files or their contents: errors of ssl are OSErrors
        raise ConfigError(
            f"certificate and key cannot be used: {wrong.strerror or wrong}",
            file=tls.cert,
            path=f"{section}.certFile",
            fix=f"name files of PEM that belong together in {section}.certFile and .keyFile",
        ) from wrong


class Server:
    """Serves some listeners until closed; its process is started again whenever it ends."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        """Start to serve."""
        self.listeners = listeners
        self._settings = ", ".join(it.setting for it in listeners)
        self._channel: _Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure_s: dict[str, float] = {}
        """Next time at which a failure may be logged, by path."""
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._log: Any = structlog.get_logger()
        self._thread = threading.Thread(target=self._keep, name="http", daemon=True)
        self._thread.start()
        if any(it.news is not None for it in listeners):
            threading.Thread(target=self._push, name="http-streams", daemon=True).start()

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._is_closing.set()
            if self._channel is not None:
                self._channel.close()
        self._thread.join(_END_S)
        if self._process is not None and self._thread.is_alive():
            self._process.kill()
            self._thread.join()
        for listener in self.listeners:
            listener.sock.close()

    def _keep(self) -> None:
        while not self._is_closing.is_set():
            try:
                code, output = self._run_once()
            except (OSError, RuntimeError) as wrong:  # no memory, descriptors or threads
                code, output = -1, str(wrong)
            if not self._is_closing.is_set():
                self._log.error("http_process_ended", setting=self._settings, code=code, err=output)
                self._is_closing.wait(_AGAIN_S)

    def _run_once(self) -> tuple[int, str]:
        """Run the process until it ends; return its exit code and the end of its standard error."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._process = process = self._started(theirs)
            with self._lock:
                self._channel = channel = _Channel(ours)
                if self._is_closing.is_set():
                    channel.close()
            for _ in range(sum(it.limits.threads for it in self.listeners)):
                threading.Thread(target=self._answer, args=(channel,), daemon=True).start()
            # The threads are not joined: one may still make a page that no client waits for.
            _, output = process.communicate()
            channel.close()
        lines = output.decode("utf-8", "replace").strip().splitlines()
        return process.returncode, lines[-1][:_LONGEST_ERROR] if lines else ""

    def _started(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        ports = tuple(
            Port(
                it.sock.fileno(),
                it.hosts,
                {path: source.reads for path, source in it.pages.items()},
                it.limits,
                it.tls,
            )
            for it in self.listeners
        )
        start = msgspec.json.encode(Start(theirs.fileno(), ports)).decode()
        return subprocess.Popen(  # noqa: S603 - the interpreter that runs us
            [sys.executable, "-I", "-c", _MAIN, json.dumps(sys.path), start],
            pass_fds=(theirs.fileno(), *(port.fd for port in ports)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _push(self) -> None:
        """Push to streams when there is news; the loop waits for nothing here."""
        while not self._is_closing.wait(_LOOK_S):
            for number, listener in enumerate(self.listeners):
                part = listener.news() if listener.news is not None else b""
                if part and self._channel is not None:
                    self._channel.send(Pushed(number, part))

    def _answer(self, channel: _Channel) -> None:
        while (message := channel.next()) is not None:
            listener = self.listeners[message.port]
            if isinstance(message, Refused):
                self._log.warning(
                    "http_clients_refused", setting=listener.setting, reasons=message.counts
                )
            else:
                channel.send(Answered(message.number, self._page(listener, message)))

    def _page(self, listener: Listener, asked: Asked) -> Page:
        try:
            return listener.pages[asked.page].make(asked.request)
        except Exception as wrong:  # noqa: BLE001 - whatever a page raises costs that page only
            path = asked.request.path
            self._log_failure(path, f"{type(wrong).__name__}: {wrong}", listener.limits.tell_s)
            return text_page(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the log says why")

    def _log_failure(self, path: str, error: str, rest_s: float) -> None:
        """Log a failing page in one line, since a traceback for every scrape is too much."""
        now_s = monotonic_s()
        if now_s >= self._failure_s.get(path, now_s):
            self._failure_s[path] = now_s + rest_s
            self._log.error("http_page_failed", path=path, err=error)


class _Channel:
    """Channel to the process: questions in, pages out, for any number of threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # Reads all there is: each call releases the interpreter, and a cycle returns it after 5 ms.
        self._reader = sock.makefile("rb")
        self._reading, self._writing = threading.Lock(), threading.Lock()

    def next(self) -> Asked | Refused | None:
        """Wait for a message; None once the channel has ended."""
        with self._reading:
            try:
                length = self._reader.read(LENGTH_BYTES)
                data = self._reader.read(int.from_bytes(length, "big"))
            except (OSError, ValueError):  # it has ended before
                return None
            if not data:
                self._reader.close()
                return None
        message: Asked | Refused = _DECODER.decode(data)
        return message

    def send(self, message: Answered | Pushed) -> None:
        """Send a message, which may take a while; drop it if the process is gone."""
        with self._writing:
            try:
                self._sock.sendall(frame(message))
            except OSError:
                self.close()

    def close(self) -> None:
        """Close the channel for both sides."""
        with suppress(OSError):  # it is closed already
            self._sock.shutdown(socket.SHUT_RDWR)


# -- pages ----------------------------------------------------------------------------------------


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
        lines = [f"[{'+' if it.is_ok else '-'}] {it.name}: {it.text}" for it in shown]
        text = "".join(f"{line}\n" for line in (*lines, "ok" if is_ok else "failed"))
        return Page(status, TEXT, text.encode())

    return Source(page, Reads(query=("verbose",), is_polled=True))


def json_page(document: object, status: HTTPStatus = HTTPStatus.OK) -> Page:
    """Return a page with a JSON document."""
    return Page(status, "application/json", json.dumps(document, indent=2).encode() + b"\n")
