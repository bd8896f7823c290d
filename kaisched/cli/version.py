"""``kaisched version``."""

from __future__ import annotations

import json
import platform
from typing import Annotated, Literal

import typer

from kaisched import __version__


def command(
    output: Annotated[
        Literal["text", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "text",
) -> None:
    """Print the version."""
    if output == "json":
        print(  # noqa: T201
            json.dumps(
                {
                    "schemaVersion": "kaisched.io/version/v1",
                    "version": __version__,
                    "python": platform.python_version(),
                }
            )
        )
    else:
        print(f"kaisched {__version__}")  # noqa: T201
