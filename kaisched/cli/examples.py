"""``kaisched examples``: the manifests, shards and scenarios that come with kaisched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import kaisched
from kaisched.cli import options
from kaisched.cli.printing import Printer, columns, count, print_table, say
from kaisched.errors import ConfigError
from kaisched.files import replace_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA: Final = "kaisched.io/examples/v1"
_PACKAGE: Final = Path(kaisched.__file__).parent
_OF_CHECKOUT: Final = {
    "manifests": "docs/examples",
    "scenarios": "config/scenarios",
    "shards": "config/shards",
}
"""Kind to where a checkout has its files; a wheel has them in ``kaisched/data/examples``."""
_INTO = typer.Option("--into", help="Write them below this folder, which has none of them yet.")


def command(
    *,
    into: Annotated[Path | None, _INTO] = None,
    output: options.Output = "table",
) -> None:
    """List the manifests, scenarios and shards that come with kaisched, or write them.

    `kaisched plan -f` takes manifests, `kaisched simulate` scenarios, and `--shard` shards.
    """
    found = dict(sorted(_files()))
    if into is not None:
        _write({into / name: path for name, path in found.items()})
        say(f"{count(len(found), 'file')} written below {into}")
        return
    entries = [{"file": str(name), "about": _about(path)} for name, path in found.items()]
    document = {"schemaVersion": SCHEMA, "examples": entries}
    Printer(_print, _rows, _names).print(document, output)


def _files() -> Iterator[tuple[Path, Path]]:
    """Yield the name of each file, below the folder that is written to, and where it is."""
    for kind, checkout in _OF_CHECKOUT.items():
        folder = _PACKAGE / "data" / "examples" / kind
        if not folder.is_dir():
            folder = _PACKAGE.parent / checkout
        for path in folder.rglob("*.yaml"):
            yield Path(kind) / path.relative_to(folder), path


def _write(found: Mapping[Path, Path]) -> None:
    """Write files that are not there yet.

    Raises:
        ConfigError: one is there, or cannot be written.

    """
    for target in found:
        if target.exists():
            fix = "name a folder without it"
            raise ConfigError("is there already", path=str(target), fix=fix)
    try:
        for folder in {target.parent for target in found}:
            folder.mkdir(parents=True, exist_ok=True)
        replace_files({target: path.read_bytes() for target, path in found.items()})
    except OSError as error:
        path = str(error.filename or "--into")
        raise ConfigError(error.strerror or "cannot be written", path=path) from error


def _about(path: Path) -> str:
    """Return the first sentence of the comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    ends = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = " ".join(line.strip("# ") for line in lines[:ends])
    return text.partition(". ")[0].strip().removesuffix(".")


def _print(document: Mapping[str, Any]) -> None:
    rows = [(it["file"], it["about"]) for it in document["examples"]]
    print_table("Examples", columns("FILE", "ABOUT"), rows)


def _rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV."""
    yield "file", "about"
    for it in document["examples"]:
        yield it["file"], it["about"]


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files."""
    for it in document["examples"]:
        yield it["file"]
