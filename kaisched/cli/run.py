"""``kaisched run``: the scheduler, until it is told to stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_FILES = typer.Option("-f", "--filename", help="File or folder of manifests to start with.")


def command(
    *,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Settings file; else KAISCHED_CONFIG.")
    ] = None,
    files: Annotated[list[Path] | None, _FILES] = None,
    shard: Annotated[Path | None, typer.Option(help="SchedulingShard to run by.")] = None,
    schedule_period: Annotated[
        str | None, typer.Option(help="Longest time between two cycles, such as 1s.")
    ] = None,
    cluster: Annotated[
        Literal["embedded", "kubernetes"] | None, typer.Option(help="Which cluster to schedule.")
    ] = None,
    metrics_bind_address: Annotated[str | None, typer.Option(help="Where metrics are.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of the metrics.")] = None,
    health_bind_address: Annotated[str | None, typer.Option(help="Where probes are.")] = None,
    health_port: Annotated[int | None, typer.Option(help="Port of the probes.")] = None,
    log_format: Annotated[
        Literal["auto", "json", "text"] | None, typer.Option(help="How events are written.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Least severe events that are written."),
    ] = None,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C; the cycle under way is finished first.

    Flags override the environment, which overrides the file; what none of them says has a default.
    Without a cluster it schedules one in memory, filled from the manifests.
    """
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help
    from kaisched.daemon.process import run_process  # noqa: PLC0415 - not for the help

    given: dict[str, tuple[str, Any]] = {
        "manifests": ("--filename", tuple(files) if files else None),
        "shards": ("--shard", (shard,) if shard is not None else None),
        "schedulePeriod": ("--schedule-period", schedule_period),
        "cluster": ("--cluster", cluster),
        "metrics.bindAddress": ("--metrics-bind-address", metrics_bind_address),
        "metrics.port": ("--metrics-port", metrics_port),
        "health.bindAddress": ("--health-bind-address", health_bind_address),
        "health.port": ("--health-port", health_port),
        "log.format": ("--log-format", log_format),
        "log.level": ("--log-level", log_level),
    }
    flags = {key: flag for key, flag in given.items() if flag[1] is not None}
    run_process(load_settings(config, os.environ, flags))
