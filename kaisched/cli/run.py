"""``kaisched run``, ``playground``, ``plugins`` and ``version``: the scheduler itself."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaisched import __version__
from kaisched.cli import options
from kaisched.cli.printing import Printer, columns, print_table, say, warn
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from kaisched.framework.plugins.loader import PluginDescription


@options.sets_settings()
def run(*, given: options.Given) -> None:
    """Run the scheduler until SIGTERM, SIGHUP or Ctrl-C; the cycle under way is finished first.

    Flags override the environment, which overrides the file. Unless a setting says --cluster
    kubernetes, the cluster is in memory, filled from the manifests.
    """
    from kaisched.daemon.process import run_process  # noqa: PLC0415 - not for the help

    run_process(given.load())


def playground(
    *,
    nodes: Annotated[int, typer.Option(min=0, max=10_000, help="Nodes to start with.")] = 4,
    gpus_per_node: Annotated[int, typer.Option(min=0, max=64, help="GPUs of each.")] = 8,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the API server; 0 for any free one.")
    ] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Where to write the kubeconfig; else a temporary file, gone at the end."),
    ] = None,
    start_delay: Annotated[
        float, typer.Option(min=0, help="Seconds from a pod's binding until it runs.")
    ] = 1.0,
    claims: Annotated[
        bool, typer.Option("--claims", help="Offer the GPUs to ResourceClaims, not as amounts.")
    ] = False,
    scheduler: Annotated[
        bool, typer.Option("--scheduler/--no-scheduler", help="Run kaisched on it, too.")
    ] = True,
) -> None:
    """Serve a cluster to play with until Ctrl-C: kubectl works on it, pods run on fake GPU nodes.

    It listens on loopback, knows KAI-Scheduler's kinds, and keeps everything in memory. Jobs,
    ReplicaSets and Deployments make pods; a pod runs for the seconds in its annotation
    kaisched.io/run-seconds, or until it is deleted.
    """
    try:
        from kaisched_apiserver.playground import Size, run_playground  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as missing:
        if not str(missing.name).startswith("kaisched_apiserver"):
            raise
        message = "the playground needs the package kaisched-apiserver, which is not installed"
        raise ConfigError(message, fix="run: pip install 'kaisched[playground]'") from None
    size = Size(nodes, gpus_per_node, start_delay, claims)
    run_playground(size, port=port, kubeconfig=kubeconfig, has_scheduler=scheduler)


plugins = typer.Typer()


@plugins.callback()
def _group() -> None:
    """List the installed plugins."""


@plugins.command("list")
def list_plugins(
    output: options.Output = "table",
) -> None:
    """List the installed plugins, with the hooks they answer and their arguments.

    An installed plugin works only in shards that enable it.
    """
    from kaisched.framework.plugins.loader import describe_plugins  # noqa: PLC0415 - only when asked

    found = describe_plugins()
    listed = [asdict(plugin) for plugin in found]
    document = {"schemaVersion": "kaisched.io/plugins/v1", "plugins": listed}
    Printer(lambda _: _print(found)).print(document, output)
    if any(plugin.problem for plugin in found):
        raise typer.Exit(1)


def _print(found: tuple[PluginDescription, ...]) -> None:
    print_table(
        "Plugins",
        columns("NAME", "PACKAGE", "HOOKS"),
        (
            (plugin.name, f"{plugin.distribution} {plugin.version}", ", ".join(plugin.questions))
            for plugin in found
            if not plugin.problem
        ),
    )
    for plugin in found:
        print_table(
            f"Arguments of {plugin.name}",
            columns("ARGUMENT", "DEFAULT", "?TYPE"),
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


def version(output: options.Output = "table") -> None:
    """Print the version."""
    document = {
        "schemaVersion": "kaisched.io/version/v1",
        "version": __version__,
        "python": platform.python_version(),
    }
    Printer(lambda _: say(f"kaisched {__version__}")).print(document, output)
