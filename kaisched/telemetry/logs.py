"""Logs: one event a line, as JSON or for people; never a secret.

A serving process calls ``configure_logs`` once; all other code only asks structlog for a logger.
The leader of a shard must not lose its lease because its log is not being read: lines are written
to a descriptor that may be blocked or closed without blocking callers.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
import threading
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

import structlog

from kaisched.text import visible, visible_text

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping


# -- masking ---------------------------------------------------------------------------------------

MASK: Final = "***"
_LEAST_SECRET: Final = 6
"""Shorter secrets would be found in ordinary words."""
_hidden: deque[str] = deque(maxlen=16)
"""Secrets in use, the latest last: a token is renewed every hour."""
_SECRET_KEY: Final = re.compile(
    r"password|passwd|secret|token|authorization|credential|api_?key", re.IGNORECASE
)
_URL_SECRET: Final = re.compile(r"(?P<scheme>\w+://)[^/@\s:]+:[^/@\s]+@")


def hide(secret: str) -> None:
    """Mask a secret from now on, wherever it appears in an event."""
    if len(secret) >= _LEAST_SECRET and secret not in _hidden:
        _hidden.append(secret)


def masked(key: str, value: Any) -> Any:
    """Return a value that may be shown: without secrets, and without passwords in addresses."""
    if _SECRET_KEY.search(key) and value not in (None, ""):
        return MASK
    if isinstance(value, str):
        for secret in sorted(_hidden, key=len, reverse=True):  # a secret may contain another
            value = value.replace(secret, MASK)
        return _URL_SECRET.sub(rf"\g<scheme>{MASK}@", value)
    if isinstance(value, list | tuple):
        return type(value)(masked("", part) for part in value)
    if isinstance(value, dict):
        return {name: masked(str(name), part) for name, part in value.items()}
    return value


# -- a pipe that never blocks its writers ----------------------------------------------------------

MOST_LINES: Final = 10_000
"""Most lines that wait for a reader; further lines are dropped and counted."""
LAST_S: Final = 1.0
"""How long the end of the process waits for a reader of the log."""


class LinePipe:
    """Takes lines from any thread; a thread of its own writes them.

    It writes to the descriptor itself: a Python stream would hold its lock while it is blocked, and
    the interpreter could not end.
    """

    def __init__(self, descriptor: int) -> None:
        """Start the writing thread."""
        self.dropped = 0
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._news = threading.Condition()
        self._is_idle = True
        threading.Thread(target=self._run, name="log", daemon=True).start()
        atexit.register(self.drain, LAST_S)

    def write(self, line: str) -> None:
        """Queue a line, including its end."""
        with self._news:
            if len(self._lines) >= MOST_LINES:
                self.dropped += 1
                return
            self._lines.append(line)
            self._is_idle = False
            self._news.notify_all()

    def flush(self) -> None:
        """Do nothing: queued lines are written without it."""

    def drain(self, timeout_s: float) -> bool:
        """Wait until all lines are written, for at most ``timeout_s``; tell whether they are."""
        with self._news:
            return self._news.wait_for(lambda: self._is_idle, timeout_s)

    def _run(self) -> None:
        while True:
            with self._news:
                self._is_idle = not self._lines
                self._news.notify_all()
                self._news.wait_for(lambda: bool(self._lines))
                line = self._lines.popleft()
            self._put(line.encode("utf-8", "backslashreplace"))
            self._log_dropped()

    def _put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # the descriptor is closed, so the line is lost

    def _log_dropped(self) -> None:
        with self._news:
            if self._lines or not self.dropped:
                return
            dropped, self.dropped = self.dropped, 0
        structlog.get_logger().warning("log_lines_dropped", lines=dropped)


# -- events ----------------------------------------------------------------------------------------

LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure_logs(
    *,
    log_format: LogFormat = "auto",
    level: LogLevel = "info",
    now_s: Callable[[], float],
    stream: TextIO | None = None,
) -> None:
    """Send all events to ``stream``, as JSON unless it is a terminal.

    Without a stream they go to standard error, whose reader can never block the process.
    """
    file: Any = _unhurried(sys.stderr) if stream is None else stream
    stream = sys.stderr if stream is None else stream
    is_text = log_format == "text" or (log_format == "auto" and stream.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=_wants_colors(stream))
        if is_text
        else structlog.processors.JSONRenderer(serializer=_as_json)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _stamp(now_s, "timestamp" if is_text else "ts"),
            structlog.processors.format_exc_info,
            _mask,
            *([_visible] if is_text else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=file),
        cache_logger_on_first_use=False,
    )


def _unhurried(stream: TextIO) -> LinePipe | TextIO:
    try:
        return LinePipe(stream.fileno())
    except (OSError, ValueError, AttributeError):  # the stream has no file descriptor
        return stream


def _wants_colors(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _as_json(event: object, **_: object) -> str:
    return visible(json.dumps(event, default=str, ensure_ascii=False))


def _stamp(now_s: Callable[[], float], key: str) -> Any:
    def stamp(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        moment = datetime.fromtimestamp(now_s(), UTC)
        first = {key: moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        return {**first, **event}

    return stamp


def _visible(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Write out what would steer the terminal; tracebacks keep their lines."""
    return {
        key: (visible_text if key == "exception" else visible)(it) if isinstance(it, str) else it
        for key, it in event.items()
    }


def _mask(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: masked(key, value) for key, value in event.items()}
