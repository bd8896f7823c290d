"""``kaisched playground``: an API server with GPU nodes that are not there, and the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kaisched.errors import ConfigError


def command(
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

    It listens on loopback, knows the kinds of KAI-Scheduler, and keeps everything in memory. Jobs,
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
