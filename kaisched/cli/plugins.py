"""``kaisched plugins``: what is installed, what it answers and which arguments it takes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from kaisched.framework.plugins.loader import PluginDescription

command = typer.Typer()

Output = Literal["table", "json"]


@command.callback()
def _group() -> None:
    """List the installed plugins."""


@command.command("list")
def list_plugins(
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = "table",
) -> None:
    """List the installed plugins, with the hooks they answer and their arguments.

    An installed plugin works only in shards that enable it.
    """
    from kaisched.framework.plugins.loader import describe_plugins  # noqa: PLC0415 - only when asked

    found = describe_plugins()
    if output == "json":
        plugins = [asdict(plugin) for plugin in found]
        document = {"schemaVersion": "kaisched.io/plugins/v1", "plugins": plugins}
        print(json.dumps(document, indent=2, default=str))  # noqa: T201
    else:
        _print(found)
    if any(plugin.problem for plugin in found):
        raise typer.Exit(1)


def _print(found: tuple[PluginDescription, ...]) -> None:
    from kaisched.cli.printing import Column, print_table, warn  # noqa: PLC0415 - only when asked

    print_table(
        "Plugins",
        (Column("NAME"), Column("PACKAGE"), Column("HOOKS")),
        (
            (plugin.name, f"{plugin.distribution} {plugin.version}", ", ".join(plugin.questions))
            for plugin in found
            if not plugin.problem
        ),
    )
    for plugin in found:
        print_table(
            f"Arguments of {plugin.name}",
            (Column("ARGUMENT"), Column("DEFAULT"), Column("TYPE", may_go=True)),
            (
                (
                    argument.name,
                    "required" if argument.is_required else _as_text(argument.default),
                    argument.type,
                )
                for argument in plugin.arguments
            ),
        )
    for plugin in found:
        if plugin.problem:
            warn(plugin.problem)


def _as_text(default: object) -> str:
    """Return a default on a line that can be broken between the values of a list."""
    if isinstance(default, list | tuple) and default:
        return ", ".join(map(_as_text, default))
    return default if isinstance(default, str) and default else json.dumps(default, default=str)
