"""``kaisched config``: the settings of the process, and where each value comes from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

command = typer.Typer(no_args_is_help=True)


@command.callback()
def _group() -> None:
    """Show the settings in force and where each comes from."""


@command.command("show")
def show(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Settings file; else KAISCHED_CONFIG.")
    ] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
) -> None:
    """Print every setting with its value and origin: default, file, variable or flag.

    A file is overridden by KAISCHED_ variables, and these by flags of `kaisched run`.
    """
    from kaisched.cli.printing import Column, print_table  # noqa: PLC0415 - only when asked
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - only when asked
    from kaisched.telemetry.logs import masked  # noqa: PLC0415 - only when asked

    rows = [
        (row.path, masked(row.path, row.value), row.origin)
        for row in load_settings(config, os.environ).shown()
    ]
    if output == "json":
        settings = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
        document = {"schemaVersion": "kaisched.io/settings/v1", "settings": settings}
        print(json.dumps(document, indent=2))  # noqa: T201
        return
    shown = ((key, origin, _cell(value)) for key, value, origin in rows)
    print_table("Settings", tuple(map(Column, ("KEY", "ORIGIN", "VALUE"))), shown)


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
