"""Logs: one event a line, as JSON or for people; one INFO line a cycle; never a secret.

A serving process calls ``configure_logs`` once; all other code only asks structlog for a logger.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

import structlog

from kaisched.framework.report.records import RUN
from kaisched.telemetry.line_pipe import LinePipe
from kaisched.telemetry.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from kaisched.framework.report.result import CycleResult

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
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=file),
        cache_logger_on_first_use=False,
    )


def log_cycle(log: Any, cycle: int, result: CycleResult, duration_s: float) -> None:
    """Write the single INFO line of a cycle, and a line for each failed plugin or action."""
    stats = result.stats
    log.info(
        "cycle_completed" if not stats.abandoned else "cycle_abandoned",
        cycle=cycle,
        dur_ms=round(duration_s * 1000, 3),
        jobs_pending=stats.jobs_pending,
        jobs_placed=stats.jobs_placed,
        binds=stats.tasks_bound,
        evictions=stats.tasks_evicted,
        nominations=stats.tasks_nominated,
        **({"reason": stats.abandoned} if stats.abandoned else {}),
    )
    times = Counter((fault.plugin, fault.question, fault.error) for fault in result.failures)
    for (plugin, question, error), number in sorted(times.items()):
        if question == RUN:  # the bug is in an action, not in a plugin
            log.error("action_failed", cycle=cycle, action=plugin, err=error, times=number)
            continue
        log.warning(
            "plugin_failed",
            cycle=cycle,
            plugin=plugin,
            question=question,
            err=error,
            times=number,
        )


def _unhurried(stream: TextIO) -> LinePipe | TextIO:
    try:
        return LinePipe(stream.fileno())
    except (OSError, ValueError, AttributeError):  # the stream has no file descriptor
        return stream


def _wants_colors(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _as_json(event: object, **_: object) -> str:
    return json.dumps(event, default=str, ensure_ascii=False)


def _stamp(now_s: Callable[[], float], key: str) -> Any:
    def stamp(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        moment = datetime.fromtimestamp(now_s(), UTC)
        first = {key: moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        return {**first, **event}

    return stamp


def _mask(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: masked(key, value) for key, value in event.items()}
