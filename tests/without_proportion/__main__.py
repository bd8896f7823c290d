"""Run the suite without ``proportion``: ``python -m tests.without_proportion [PYTEST ARGUMENTS]``.

In a copy of the tree the plugin is deleted, with its entry point, and the default policy names a
small one of the tests instead. All tests run there but those that are marked as resting on it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from kaisched.framework.plugins.loader import GROUP

ROOT = Path(__file__).resolve().parents[2]
GONE = "proportion"
INSTEAD = "plain-shares"
ENTRY = "tests.without_proportion.plain_shares:PlainShares"
NAMED = {
    "kaisched/objects/shard.py": (f'DefaultPlugin("{GONE}"', f'DefaultPlugin("{INSTEAD}"'),
    "kaisched/data/shards/default.yaml": (f"    {GONE}: ", f"    {INSTEAD}: "),
    "config/shards/default.yaml": (f"    {GONE}: ", f"    {INSTEAD}: "),
    "config/shards/kueue.yaml": (f"    {GONE}: ", f"    {INSTEAD}: "),
}
"""Where the default policy is listed or turned off, with what is replaced by what."""
TURNED_OFF = re.compile(rf'\b{GONE}(?="?: {{"?enabled"?: (False|false)}})')
"""How another policy says in a shard that it stands in place of the default one."""
CHECK = f"""
from importlib.util import find_spec
from kaisched.engine.policy import default_policy
assert find_spec("kaisched_plugins.{GONE}") is None, "it is still there"
names = [each.plugin.name for each in default_policy().plugins]
assert "{INSTEAD}" in names and "{GONE}" not in names, names
"""


def main(arguments: list[str]) -> int:
    """Make the copy, run the tests in it and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="without-proportion-") as folder:
        tree = Path(folder) / "tree"
        copy(tree)
        roots = (tree, tree / "plugins", tree / "plugins" / "apiserver" / "src")
        places = (install(tree, Path(folder) / "installed"), *roots)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}

        def run(*line: str) -> int:
            command = [sys.executable, *line]
            return subprocess.run(command, cwd=tree, env=environment, check=False).returncode

        return run("-c", CHECK) or run("-m", "pytest", "-m", f"not {GONE}", *arguments)


def copy(tree: Path) -> None:
    """Copy the repository without the plugin, and without what is made in a checkout."""
    shutil.copytree(ROOT, tree, ignore=left_out)
    replace(tree / "pyproject.toml", *entry_point())
    for name, (old, new) in NAMED.items():
        replace(tree / name, old, new)
    plugins, scenarios = tree / "plugins" / "kaisched_plugins", tree / "config" / "scenarios"
    for path in (*plugins.rglob("*.py"), *plugins.rglob("*.md"), *scenarios.glob("*.yaml")):
        path.write_text(TURNED_OFF.sub(INSTEAD, path.read_text("utf-8")), "utf-8")


def left_out(folder: str, names: list[str]) -> set[str]:
    """Return what is not copied of a folder."""
    made = shutil.ignore_patterns(".venv*", ".*_cache", ".hypothesis", "__pycache__")(folder, names)
    if folder == str(ROOT):
        return made | {".git", "build", "dist"}
    is_plugins = folder == str(ROOT / "plugins" / "kaisched_plugins")
    return made | {GONE} if is_plugins else made


def entry_point() -> tuple[str, str]:
    """Return the line of pyproject.toml that names the plugin, and what stands there instead."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return f'{GONE} = "{project["entry-points"][GROUP][GONE]}"\n', ""


def install(tree: Path, folder: Path) -> Path:
    """Write what says that kaisched is installed from the copy, and the small policy beside it."""
    installed = distribution("kaisched")
    project = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]
    points = {"console_scripts": project["scripts"], **project["entry-points"]}
    declare(folder, f"kaisched-{installed.version}", installed.read_text("METADATA") or "", points)
    metadata = f"Metadata-Version: 2.1\nName: {INSTEAD}\nVersion: 0\n"
    declare(folder, f"{INSTEAD.replace('-', '_')}-0", metadata, {GROUP: {INSTEAD: ENTRY}})
    return folder


def declare(folder: Path, name: str, metadata: str, points: dict[str, dict[str, str]]) -> None:
    """Write a distribution's own description and its entry points."""
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata, "utf-8")
    lines = [
        line
        for group, named in points.items()
        for line in (f"[{group}]", *(f"{point} = {target}" for point, target in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


def replace(path: Path, old: str, new: str) -> None:
    """Replace a piece of a file that must be there once."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{path.name} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
