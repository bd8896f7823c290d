"""``kaisched init``: files of ours from what another scheduler exports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def command(
    *,
    from_runai: Annotated[
        list[Path] | None,
        typer.Option(
            help="Projects, departments, node pools and RunaiConfig of Run:ai: objects, or lists"
            " of its REST API; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    from_kai: Annotated[
        list[Path] | None,
        typer.Option(
            help="Queues, SchedulingShards and Config of KAI-Scheduler; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    into: Annotated[
        Path, typer.Option(help="Folder for the files; it is made if need be.", metavar="FOLDER")
    ] = Path("kaisched-files"),
    force: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
) -> None:
    """Make queues, shards and settings of ours from what Run:ai or KAI-Scheduler exports.

    What is not taken is printed, key by key, with the reason, and so is what no file can do. The
    same list is in notes.txt among the files. Nothing is read from or written to a cluster.

    If anything in the export is wrong, all errors are reported and no file is written.
    """
    from kaisched.cli.init_text import report  # noqa: PLC0415 - not for the help
    from kaisched.engine.migration.kai import from_kai as read_kai  # noqa: PLC0415 - as above
    from kaisched.engine.migration.runai import from_runai as read_runai  # noqa: PLC0415

    if bool(from_runai) == bool(from_kai):
        raise ConfigError("one of --from-runai and --from-kai is needed", fix="name files to read")
    made = read_runai(from_runai) if from_runai else read_kai(from_kai or [])
    texts = dict(made.files())
    texts["notes.txt"] = notes = report(made)
    _write(into, texts, is_replacing=force)
    for name in texts:
        print(into / name)  # noqa: T201
    print(f"\n{notes}", end="", flush=True)  # noqa: T201


def _write(folder: Path, texts: Mapping[str, str], *, is_replacing: bool) -> None:
    """Write all files, or none if any of them is there."""
    there = [folder / name for name in texts if (folder / name).exists()]
    if there and not is_replacing:
        raise ConfigError(
            "is there already", file=str(there[0]), fix="add --force, or --into FOLDER"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as wrong:
        raise ConfigError(
            f"cannot be written: {wrong.strerror}",
            file=str(wrong.filename or folder),
            fix="name a folder that may be written to",
        ) from wrong
