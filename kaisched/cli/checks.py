"""``kaisched doctor`` and ``kaisched lint``: what is wrong with a cluster, and with manifests."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kaisched.cli import options
from kaisched.cli.printing import columns, counted, print_document, print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.daemon.doctor import Finding


@options.sets_settings(options.OF_DOCTOR)
def doctor(
    *,
    given: options.Given,
    as_user: Annotated[
        str,
        typer.Option(
            "--as",
            help="Check the rights of this user instead of ours, such as"
            " system:serviceaccount:kaisched:kaisched.",
        ),
    ] = "",
    output: options.Output = "table",
) -> None:
    """Check a cluster for what would keep the scheduler from its work, and say how to fix it.

    Checks server, rights, shards, leases, nodes, queues and usage history: a line each, ok, warn
    or fail. Nothing is written. Settings are those of `kaisched run`. The exit code is 1 if a
    check failed.
    """
    from kaisched.clock import SystemClock  # noqa: PLC0415 - not for the help
    from kaisched.daemon.doctor import Visit  # noqa: PLC0415 - not for the help
    from kaisched.daemon.doctor.examine import examine  # noqa: PLC0415 - not for the help

    settings = given.load().settings
    visit = Visit(options.client_of(settings), settings, SystemClock(), as_user)
    findings = list(examine(visit))
    _print_findings(findings, output)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)


def _print_findings(findings: Sequence[Finding], output: str) -> None:
    """Print the findings in the order of the checks, and how many of each level there are."""
    levels = Counter(finding.level for finding in findings)
    counts = {level: levels[level] for level in ("ok", "warn", "fail")}
    if output != "table":
        checks = [asdict(finding) for finding in findings]
        print_document(
            {"schemaVersion": "kaisched.io/doctor/v1", **counts, "checks": checks}, output
        )
        return
    rows = [
        (finding.level, finding.check, "; ".join(filter(None, (finding.text, finding.fix))))
        for finding in findings
    ]
    print_table("Doctor", columns("", "CHECK", "FOUND"), rows)
    say(counted(counts))


_FILES = typer.Argument(
    help="Files and folders of manifests, settings and scenarios; - for standard input.",
    metavar="FILES...",
    show_default=False,
)


def lint(
    files: Annotated[list[str], _FILES],
    *,
    shard: Annotated[
        Path | None,
        typer.Option(help="SchedulingShard they are for; else the only one among them, if any."),
    ] = None,
    output: Annotated[
        Literal["table", "json", "yaml", "csv", "name", "sarif"],
        typer.Option("-o", "--output", help="How to print."),
    ] = "table",
) -> None:
    """Check queues, shards, jobs, nodes, settings and scenario files; report all errors at once.

    Beyond single objects: the tree of queues and its quotas, policies, and queues, topologies and
    device classes that no file has although there are others of their kind.

    The exit code is 1 if there are errors. SARIF is what code hosts show beside a change.
    """
    from kaisched.cli.findings import FORMS, json_of, with_scenarios  # noqa: PLC0415 - not for the help
    from kaisched.engine.linting import found_in  # noqa: PLC0415 - not for the help
    from kaisched.engine.planning import read_manifests  # noqa: PLC0415 - not for the help

    loaded = read_manifests(files)
    found = with_scenarios(found_in(loaded, shard))
    if output in FORMS:
        say(*FORMS[output](found, loaded.files))
    else:
        print_document(json.loads("\n".join(json_of(found, loaded.files))), output)
    if any(finding.is_error for finding in found):
        raise typer.Exit(1)
