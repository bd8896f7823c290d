"""Builds the documentation site: ``python docs/site/build.py INTO``, from the pages that are there.

The pages are copied, since those of plugins, manifests and the project lie outside ``docs/``: what
is in ``docs/`` goes to the top, the rest below ``project/``, and links are changed accordingly. The
navigation follows the index of each folder. mkdocs then fails at any link without a target and at
any page without a place in the navigation.
"""

# ruff: noqa: INP001 - a script, part of no package

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
ABOUT: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SECTIONS: Final = {
    "Tutorial": "tutorial",
    "How-to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
}
_LINK: Final = re.compile(r"(?<=\])\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^ *```")
_ITEM: Final = re.compile(r"^(?:[-*]|\d+\.) +(?=\S)")
_NOWHERE: Final = "()"
"""The target of a link to a folder without a page: its words alone are shown."""
_UNLINKED: Final = re.compile(r"\[([^\]]+)\]\(\)")
_INDENT: Final = 4
"""What Python's Markdown wants within a list; elsewhere the width of the marker is enough."""


def pages() -> list[Path]:
    """Return every page of the site."""
    return [
        *(ROOT / name for name in ABOUT),
        *sorted(DOCS.rglob("*.md")),
        *sorted((ROOT / "config").rglob("*.md")),
        ROOT / "deploy" / "README.md",
        ROOT / "deploy" / "helm" / "kaisched" / "README.md",
        *sorted(it for it in (ROOT / "plugins").rglob("*.md") if "tests" not in it.parts),
    ]


def place_of(path: Path) -> Path:
    """Return where a file of the repository is on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    return "project" / path.relative_to(ROOT)


def navigation(found: list[Path]) -> list[object]:
    """Return the pages in the order of the index of their folders."""
    left = dict.fromkeys(found)

    def take(path: Path) -> str:
        left.pop(path, None)
        return place_of(path).as_posix()

    def folder(path: Path) -> list[str]:
        index = path / "README.md"
        linked = (
            (path / link.partition("#")[0]).resolve()
            for link in _LINK.findall(index.read_text(encoding="utf-8"))
            if "://" not in link
        )
        first = take(index)
        below = [it for it in dict.fromkeys(linked) if it in left and it.is_relative_to(path)]
        return [first, *(take(it) for it in below)]

    nav: list[object] = [take(DOCS / "README.md")]
    nav += [{title: folder(DOCS / name)} for title, name in SECTIONS.items()]
    about = [take(ROOT / name) for name in ABOUT]
    plugins = folder(ROOT / "plugins")
    nav.append({"Project": [*about, {"Plugins": plugins}, *(take(it) for it in [*left])]})
    return nav


def staged(path: Path, linked: dict[Path, None]) -> str:
    """Return the text of a page for the site; the files that it links to are added."""
    here = place_of(path).parent

    def moved(match: re.Match[str]) -> str:
        link, _, fragment = match[1].partition("#")
        if not link or "://" in link or link.startswith("mailto:"):
            return match[0]
        target = (path.parent / link).resolve()
        if target.is_dir():
            target /= "README.md"
            if not target.is_file():
                return _NOWHERE
        if target.is_file():
            linked[target] = None
        to = os.path.relpath(place_of(target), here)
        return f"({to}{'#' if fragment else ''}{fragment})"

    lines, is_code, width = [], False, 0
    for line in path.read_text(encoding="utf-8").splitlines():
        begins = _FENCE.match(line) is not None
        told = line if is_code or begins else _UNLINKED.sub(r"\1", _LINK.sub(moved, line))
        if not is_code and (item := _ITEM.match(line)):
            width = len(item[0])
        elif line.strip() and not line.startswith(" " * width):
            width = 0
        elif width and line.strip():
            told = " " * (_INDENT - width) + told
        is_code ^= begins
        lines.append(told)
    return "\n".join(lines) + "\n"


def stage(into: Path) -> None:
    """Copy the pages, and write the settings of mkdocs beside them."""
    linked = dict.fromkeys(pages())
    done: list[Path] = []
    shutil.rmtree(into, ignore_errors=True)
    while left := [it for it in linked if it not in done]:
        for file in left:
            done.append(file)
            place = into / "src" / place_of(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                place.write_text(staged(file, linked), encoding="utf-8")
            else:
                shutil.copyfile(file, place)
    settings = (Path(__file__).parent / "mkdocs.yml").read_text(encoding="utf-8")
    nav = {"nav": navigation([it for it in done if it.suffix == ".md"])}
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    told = yaml.safe_dump({"site_name": f"kaisched {version}", **nav}, sort_keys=False)
    (into / "mkdocs.yml").write_text(f"{settings}{told}", encoding="utf-8")


def main(into: Path) -> int:
    """Build the site below a folder; return the exit code of mkdocs."""
    stage(into)
    words = ("-m", "mkdocs", "build", "--strict", "--config-file", str(into / "mkdocs.yml"))
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run([sys.executable, *words], env=variables, check=False)  # noqa: S603
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
