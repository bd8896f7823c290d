"""HTTP session with bounds: one deadline for everything, a largest answer, no redirects.

``requests`` bounds each wait for bytes, so a server that sends one byte a second may take for ever.
Here a timer closes the sockets when time is up.
"""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from kaisched.telemetry.masking import hide

if TYPE_CHECKING:
    import socket

MOST_BYTES: Final = 64 << 20
"""Largest answer; an answer for 10,000 queues has 2 MB."""
_REFUSED: Final = (401, 403)
_OK: Final = 200


class QueryError(Exception):
    """A server gave no usable answer; the message contains no credentials."""

    def __init__(self, message: str, *, is_too_much: bool = False) -> None:
        super().__init__(message)
        self.is_too_much = is_too_much
        """Whether a smaller query may be answered."""


class BearerFile(AuthBase):
    """Sends the token in a file, which is read each time, since such files are renewed."""

    def __init__(self, path: Path) -> None:
        """Keep the file's path."""
        self._path = path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise QueryError(f"bearerTokenFile {self._path} cannot be read") from error
        hide(token)
        request.headers["Authorization"] = f"Bearer {token}"
        return request


class BoundedSession(requests.Session):
    """Session with one server, for use by one thread."""

    def __init__(
        self, most_bytes: int = MOST_BYTES, *, deadline: str = "usageQueryTimeout"
    ) -> None:
        """Start without a deadline, which :meth:`begin` sets; ``deadline`` is its setting."""
        super().__init__()
        self._deadline = deadline
        # Use neither .netrc nor the machine's proxy: we could not close a proxy's sockets.
        self.trust_env = False
        self.warnings: list[str] = []
        """Warnings in the server's answers since :meth:`begin`."""
        self._most_bytes = most_bytes
        self._end_s = 0.0
        self.sockets: WeakSet[socket.socket] = WeakSet()

    def begin(self, seconds: float) -> None:
        """Give all requests from now on this much time in total."""
        self._end_s = time.monotonic() + seconds  # noqa: TID251 - of this machine, not of a cluster
        self.warnings = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request and read the answer.

        Raises:
            QueryError: the answer is late, too long, or no result.

        """
        left_s = self._end_s - time.monotonic()  # noqa: TID251 - as above
        host = urlsplit(request.url or "").hostname
        if left_s <= 0:
            raise QueryError(f"{host} took longer than {self._deadline}", is_too_much=True)
        options |= {"allow_redirects": False, "stream": True, "timeout": left_s}
        timer = threading.Timer(left_s, self._cut)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, **options)
            # One byte above the limit tells a too long answer from one that just fits.
            body = response.raw.read(self._most_bytes + 1, decode_content=True)
        except QueryError:
            raise
        except Exception as error:
            # The transport may raise anything; our clock tells whether time was the reason.
            is_late = time.monotonic() >= self._end_s - 0.01  # noqa: TID251 - as above
            why = (
                f"took longer than {self._deadline}"
                if is_late
                else f"did not answer: {_root(error)}"
            )
            raise QueryError(f"{host} {why}", is_too_much=is_late) from error
        finally:
            timer.cancel()
        if len(body) > self._most_bytes:
            response.close()
            raise QueryError(f"{host} answered more than {self._most_bytes >> 20} MiB")
        response.raw = io.BytesIO(body)
        self._check(response, body)
        return response

    def _cut(self) -> None:
        for each in list(self.sockets):
            try:
                each.shutdown(2)
            except OSError:
                continue  # it was closed in the meantime

    def _check(self, response: requests.Response, body: bytes) -> None:
        status, host = response.status_code, urlsplit(response.url).hostname
        if response.is_redirect:
            to = urlsplit(response.headers["location"]).hostname or host
            raise QueryError(
                f"{host} redirects us to {to}: write the address of the server itself,"
                " no credentials are sent elsewhere"
            )
        if status in _REFUSED:
            raise QueryError(
                f"{host} refuses us ({status}): set bearerTokenFile, or user and password in the"
                " connectionString"
            )
        try:
            answer = json.loads(body)
            if status == _OK and answer["status"] == "success":
                self.warnings += [str(text) for text in answer.get("warnings") or ()]
                return
            said = str(answer["error"])[:300]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise QueryError(
                f"{host} answered {status}, which is no answer of Prometheus"
            ) from None
        is_too_much = "too many samples" in said or "timed out" in said or "maximum reso" in said
        raise QueryError(f"{host} answered {status}: {said}", is_too_much=is_too_much)


class CuttableAdapter(HTTPAdapter):
    """Adapter without retries that gives the session every socket it opens."""

    def __init__(self, sockets: WeakSet[socket.socket]) -> None:
        """Add opened sockets to ``sockets``."""
        super().__init__(max_retries=0)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, HTTPConnection, sockets),
            "https": _pool(HTTPSConnectionPool, HTTPSConnection, sockets),
        }


def _pool(
    pool: type[HTTPConnectionPool], kind: type[HTTPConnection], sockets: WeakSet[socket.socket]
) -> Any:
    def connect(self: HTTPConnection) -> None:
        kind.connect(self)
        if self.sock is not None:
            sockets.add(self.sock)

    connection = type(kind.__name__, (kind,), {"connect": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def _root(error: BaseException) -> str:
    """Describe the innermost cause of a transport error in few words."""
    while (under := error.__cause__ or error.__context__) is not None:
        error = under
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:200]
