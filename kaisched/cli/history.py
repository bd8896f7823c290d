"""Where reports read what was: a Prometheus server, or the file of a usage store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

import typer

from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from kaisched.usage.period import Period

VARIABLE: Final = "KAISCHED_PROMETHEUS"
Prometheus: TypeAlias = Annotated[
    str,
    typer.Option(
        "--prometheus",
        help=f"Read the scheduler's metrics from this Prometheus server; else {VARIABLE}.",
    ),
]
File: TypeAlias = Annotated[
    Path | None,
    typer.Option("--history", help="Read the file of the usage store `sqlite`; a copy is made."),
]
Resource: TypeAlias = Annotated[
    Literal["gpu", "cpu", "memory"], typer.Option("-r", "--resource", help="Of which resource.")
]
Last: TypeAlias = Annotated[str, typer.Option("--last", help="How far back, such as 12h or 4w.")]
_FIX: Final = f"name a Prometheus server with --prometheus or {VARIABLE}"


class Origin(NamedTuple):
    """Where a history is read."""

    prometheus: str = ""
    file: Path | None = None

    @property
    def url(self) -> str:
        """The address of the Prometheus server; empty for none."""
        return self.prometheus or ("" if self.file else os.environ.get(VARIABLE, ""))


def span_s(text: str, option: str) -> float:
    """Return a length of time in seconds.

    Raises:
        ConfigError: it is none.

    """
    from kaisched.units import UnitError, parse_duration  # noqa: PLC0415 - not for the help

    try:
        seconds = parse_duration(text)
    except UnitError as error:
        raise ConfigError(str(error), path=option, fix=error.fix) from error
    if seconds <= 0:
        raise ConfigError("must be longer than nothing", path=option, value=text)
    return seconds


def read(origin: Origin, resource: str, last: str, option: str) -> Period:
    """Read the sums of a period that ends now.

    Raises:
        ConfigError: no history is named, or two are.
        UsageUnavailable: it cannot be read.

    """
    from kaisched.clock import SystemClock  # noqa: PLC0415 - not for the help

    seconds, now_s = span_s(last, option), SystemClock().now_s()
    if origin.prometheus and origin.file is not None:
        message = "--prometheus and --history name two histories"
        raise ConfigError(message, path="--history", fix="give one of them")
    if origin.file is not None:
        from kaisched.usage.period import from_file  # noqa: PLC0415 - only when asked

        return from_file(origin.file, resource, now_s - seconds, now_s)
    from kaisched.usage.prometheus.store import period_of  # noqa: PLC0415 - only when asked

    return period_of(server_of(origin, option), resource, now_s - seconds, now_s)


def server_of(origin: Origin, option: str) -> str:
    """Return the address of the Prometheus server.

    Raises:
        ConfigError: there is none, or it is no address.

    """
    if not origin.url:
        fix = f"{_FIX}, or the file of a usage store with --history"
        raise ConfigError("no history is named", path=option, fix=fix)
    if not origin.url.startswith(("http://", "https://")):
        fix = "write it like http://prometheus:9090"
        raise ConfigError("no address", path="--prometheus", value=origin.url, fix=fix)
    return origin.url
