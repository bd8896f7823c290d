"""HTTP servers: a front process takes the connections, threads of ours make the pages.

The front process (``kaisched.daemon.front``) enforces limits and deadlines. Whatever its clients
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
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from kaisched.clock import monotonic_s
from kaisched.daemon.front.channel import FRAME
from kaisched.daemon.front.request import parent_of
from kaisched.daemon.serving import Page, Pages, Request, text_page
from kaisched.errors import ConfigError

_ROOT: Final = str(Path(__file__).parents[2])
_MAIN: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from kaisched.daemon.front.process import main; main()"
)
_BACKLOG: Final = 1024
_BLOCK: Final = 1 << 16
_AGAIN_S: Final = 1.0
"""Shortest time between two starts of a process that keeps ending."""
_END_S: Final = 2.0
_LONGEST_ERROR: Final = 300


class Limits(NamedTuple):
    """Limits of one listener."""

    connections: int = 1024
    """Open at a time; one more drops the oldest that has not yet sent a request."""
    head_s: float = 5.0
    """From the connection to a whole request, TLS handshake included."""
    whole_s: float = 30.0
    """From the connection to the last byte of the answer."""
    head_bytes: int = 16 * 1024
    asked: int = 8
    """Questions under way between the two processes."""
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
    """PEM files of a listener; they are read again when they change."""

    cert: str
    key: str


class _Channel:
    """Channel to the front process: questions in, pages out, for any number of threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._buffer = bytearray()

    def next(self) -> dict[str, Any] | None:
        """Wait for a question; None once the channel has ended."""
        with self._reading:
            frame = self._exactly(FRAME.size)
            data = frame and self._exactly(FRAME.unpack(frame)[0])
        return json.loads(data) if data else None

    def _exactly(self, size: int) -> bytes:
        # Read all there is: each call releases the interpreter, and a cycle returns it after 5 ms.
        while len(self._buffer) < size:
            try:
                part = self._sock.recv(_BLOCK)
            except OSError:
                part = b""
            if not part:
                return b""
            self._buffer += part
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def answer(self, number: int, page: Page) -> None:
        """Send a page; drop it if the front process is gone."""
        head = {"id": number, "status": int(page.status), "type": page.content_type}
        more = {"headers": page.headers, "stream": page.stream}
        self._send({**head, **{name: value for name, value in more.items() if value}}, page.body)

    def push(self, stream: str, part: bytes) -> None:
        """Send the next part of a stream to all clients that have it."""
        self._send({"push": stream}, part)

    def _send(self, head: dict[str, Any], body: bytes) -> None:
        data = json.dumps(head).encode()
        with self._writing:
            try:
                self._sock.sendall(FRAME.pack(len(data), len(body)) + data + body)
            except OSError:
                self.close()

    def close(self) -> None:
        """Close the channel for both sides."""
        with suppress(OSError):  # it is closed already
            self._sock.shutdown(socket.SHUT_RDWR)


class Server:
    """HTTP server whose front process is started again whenever it ends."""

    def __init__(
        self, sock: socket.socket, pages: Pages, setting: str, settings: dict[str, Any]
    ) -> None:
        """Start to serve.

        Args:
            sock: the listening socket.
            pages: the pages by path.
            setting: name of the port's setting, for the log.
            settings: options for the front process: limits, certificate, number of threads.

        """
        self._sock, self._pages, self._setting = sock, pages, setting
        self._settings = settings
        self._channel: _Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure_s: dict[str, float] = {}
        """Next time at which a failure may be logged, by path."""
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name=f"http-{setting}", daemon=True)
        self._keeper.start()

    @property
    def port(self) -> int:
        """The port that it listens on, even if 0 was configured."""
        return int(self._sock.getsockname()[1])

    def push(self, stream: str, part: bytes) -> None:
        """Send the next part of a stream to all clients that have it; it may take a while."""
        channel = self._channel
        if channel is not None:
            channel.push(stream, part)

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._is_closing.set()
            if self._channel is not None:
                self._channel.close()
        self._keeper.join(_END_S)
        if self._process is not None and self._keeper.is_alive():
            self._process.kill()
            self._keeper.join()
        self._sock.close()

    def _keep(self) -> None:
        log: Any = structlog.get_logger()
        while not self._is_closing.is_set():
            try:
                code, output = self._run_once()
            except (OSError, RuntimeError) as wrong:  # no memory, descriptors or threads
                code, output = -1, str(wrong)
            if not self._is_closing.is_set():
                log.error("http_process_ended", setting=self._setting, code=code, err=output)
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
            threads = [
                threading.Thread(target=self._answer, args=(channel,), daemon=True)
                for _ in range(self._settings["threads"])
            ]
            for thread in threads:
                thread.start()
            # Do not join the threads: one may still make a page that no client waits for.
            _, output = process.communicate()
            channel.close()
        lines = output.decode("utf-8", "replace").strip().splitlines()
        return process.returncode, lines[-1][:_LONGEST_ERROR] if lines else ""

    def _started(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        fds = {"channel": theirs.fileno(), "listening": self._sock.fileno()}
        pages = {
            path: {
                "query": source.query,
                "headers": source.headers,
                "is_polled": source.is_polled,
            }
            for path, source in self._pages.items()
        }
        options = json.dumps({**self._settings, **fds, "pages": pages})
        # Isolated and without site packages: it needs none, and starts at once.
        return subprocess.Popen(  # noqa: S603 - the interpreter that runs us
            [sys.executable, "-I", "-S", "-c", _MAIN, _ROOT, options],
            pass_fds=tuple(fds.values()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _answer(self, channel: _Channel) -> None:
        while (asked := channel.next()) is not None:
            if "notice" in asked:
                self._log_refusals(asked["notice"])
                continue
            headers = asked["headers"]
            request = Request(
                asked["query"],
                headers.get("accept", ""),
                headers.get("host", ""),
                asked["path"],
                headers.get("authorization", ""),
                headers.get("if-none-match", ""),
            )
            channel.answer(asked["id"], self._page(request))

    def _page(self, request: Request) -> Page:
        try:
            path = request.path
            source = self._pages.get(path) or self._pages[parent_of(path, self._pages)]
            return source.make(request)
        except Exception as wrong:  # noqa: BLE001 - whatever a page raises costs that page only
            self._log_failure(request.path, f"{type(wrong).__name__}: {wrong}")
            return text_page(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the log says why")

    def _log_failure(self, path: str, error: str) -> None:
        """Log a failing page in one line, since a traceback for every scrape is too much."""
        now_s = monotonic_s()
        if now_s >= self._failure_s.get(path, now_s):
            self._failure_s[path] = now_s + self._settings["limits"]["tell_s"]
            log: Any = structlog.get_logger()
            log.error("http_page_failed", path=path, err=error)

    def _log_refusals(self, counts: dict[str, int]) -> None:
        log: Any = structlog.get_logger()
        log.warning("http_clients_refused", setting=self._setting, reasons=counts)


def serve(
    address: str,
    port: int,
    pages: Pages,
    setting: str,
    *,
    threads: int = 1,
    tls: Tls | None = None,
    limits: Limits = USUAL,
) -> Server:
    """Serve pages until closed.

    Args:
        address: the address to listen on.
        port: the port; 0 takes any free one.
        pages: the pages by path.
        setting: name of the port's setting, for errors and the log.
        threads: pages made at a time.
        tls: certificate and key; without them the connection is not encrypted.
        limits: limits of the listener.

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
    options = {"limits": limits._asdict(), "threads": threads, "tls": tls and tls._asdict()}
    return Server(sock, pages, setting, options)


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
