"""``kaisched doctor``: what would keep the scheduler from doing its work in a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from kaisched.cli import flags


def command(
    *,
    config: flags.ConfigFile = None,
    shard: flags.Shard = None,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.Namespace = None,
    as_user: Annotated[
        str,
        typer.Option(
            "--as",
            help="Check the rights of this user instead of ours, such as"
            " system:serviceaccount:kaisched:kaisched.",
        ),
    ] = "",
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="How to print.")
    ] = "table",
) -> None:
    """Check a cluster for what would keep the scheduler from its work, and say how to fix it.

    Prints one line for each check: ok, warn or fail. The checks cover the server and its clock,
    our account and its rights, the kinds that are read, optional parts of the API, shards and
    their plugins, leases, nodes in no shard or in two, queues (also those that KAI-Scheduler would
    read differently), whether any user may use any queue, and usage history with its gaps.

    Nothing is written. Settings are those of `kaisched run`. The exit code is 1 if a check failed.
    """
    given = locals()  # the parameters: nothing else is defined yet
    from kaisched.cli.doctor_text import print_findings  # noqa: PLC0415 - not for the help
    from kaisched.clock import SystemClock  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.access import find_access  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.client import Client  # noqa: PLC0415 - not for the help
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help
    from kaisched.daemon.doctor import Visit  # noqa: PLC0415 - not for the help
    from kaisched.daemon.doctor.examine import examine  # noqa: PLC0415 - not for the help

    settings = load_settings(config, os.environ, flags.flags_of(given)).settings
    where = settings.kubernetes.kubeconfig
    access = find_access(Path(where) if where else None, settings.kubernetes.context)
    client = Client(access, timeout_s=settings.kubernetes.request_timeout)
    findings = list(examine(Visit(client, settings, SystemClock(), as_user)))
    print_findings(findings, output)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)
