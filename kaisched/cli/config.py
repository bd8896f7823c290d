"""``kaisched config``: the settings of the process, and the definitions of its objects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from kaisched.cli import flags

command = typer.Typer()


@command.callback()
def _group() -> None:
    """Show the settings in force, or print the definitions of the objects.

    `config show` says where each setting comes from; `config crds` is what to apply to a cluster.
    """


@command.command("show")
def show(
    *,
    config: flags.ConfigFile = None,
    files: flags.Manifests = None,
    shard: flags.Shard = None,
    schedule_period: flags.SchedulePeriod = None,
    cluster: flags.Cluster = None,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    observe: flags.Observe = None,
    evictions: flags.Evictions = None,
    metrics_bind_address: flags.MetricsAddress = None,
    metrics_port: flags.MetricsPort = None,
    health_bind_address: flags.HealthAddress = None,
    health_port: flags.HealthPort = None,
    view: flags.View = None,
    view_bind_address: flags.ViewAddress = None,
    view_port: flags.ViewPort = None,
    log_format: flags.LogFormat = None,
    log_level: flags.LogLevel = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
) -> None:
    """Print every setting with its value and origin: default, file, variable or flag.

    KAISCHED_ variables override the file, and flags override both. The flags are those of
    `kaisched run`.
    """
    given = locals()  # the parameters: nothing else is defined yet
    from kaisched.cli.printing import Column, print_table  # noqa: PLC0415 - only when asked
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - only when asked
    from kaisched.telemetry.logs import masked  # noqa: PLC0415 - only when asked

    rows = [
        (row.path, masked(row.path, row.value), row.origin)
        for row in load_settings(config, os.environ, flags.flags_of(given)).shown()
    ]
    if output == "json":
        settings = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
        document = {"schemaVersion": "kaisched.io/settings/v1", "settings": settings}
        print(json.dumps(document, indent=2))  # noqa: T201
        return
    shown = ((key, origin, _cell(value)) for key, value, origin in rows)
    print_table("Settings", tuple(map(Column, ("KEY", "ORIGIN", "VALUE"))), shown)


@command.command("crds")
def crds(
    into: Annotated[
        Path | None, typer.Option("--into", help="Write one file for each into this folder.")
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions of queues, pod groups, shards and topologies.

    They are YAML for `kubectl apply`, made from the types that the scheduler reads.
    """
    from kaisched.cli.definitions import files, write  # noqa: PLC0415 - only when asked

    if into is None:
        print("---\n".join(files().values()), end="")  # noqa: T201
    else:
        write(into)


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
