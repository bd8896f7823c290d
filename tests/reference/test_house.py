"""The rules of the house that no tool checks: sizes, docstrings, names, and standing on its own."""

import ast
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50

SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for root in ("kaisched", "plugins")
    for path in (ROOT / root).rglob("*.py")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
PACKAGED = [
    path
    for path in SOURCES
    if path.startswith(("kaisched/", "plugins/kaisched_")) and "/tests/" not in path
]
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]["kaisched.plugins"]


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=path)


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def too_long_functions(tree: ast.Module) -> list[str]:
    return [
        f"{node.name}: {length_of(node)} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length_of(node) > MOST_LINES_OF_A_FUNCTION
    ]


@pytest.mark.parametrize("path", SOURCES)
def test_a_file_can_be_read_in_one_sitting(path):
    lines = len((ROOT / path).read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES


@pytest.mark.parametrize("path", SOURCES)
def test_a_function_fits_on_a_screen(path):
    assert too_long_functions(tree_of(path)) == []


def test_a_long_function_would_be_noticed():
    body = "\n".join("    x = 1" for _ in range(MOST_LINES_OF_A_FUNCTION))
    assert too_long_functions(ast.parse(f"def f():\n{body}")) == ["f: 51 lines"]
    assert too_long_functions(ast.parse(f"def f():\n{body.removesuffix('    x = 1')}")) == []


@pytest.mark.parametrize("path", PACKAGED)
def test_a_module_says_what_lives_in_it(path):
    assert ast.get_docstring(tree_of(path))


def test_the_repository_stands_on_its_own():
    """What lies beside a checkout is not in a clone of it."""
    beside = "/" + "shared"
    places = ("kaisched", "plugins", "tests", "config", "deploy")
    readers = [
        path.relative_to(ROOT).as_posix()
        for place in places
        for path in (ROOT / place).rglob("*.py")
        if beside in path.read_text(encoding="utf-8")
    ]
    assert readers == []


@pytest.mark.parametrize(("name", "target"), sorted(ENTRY_POINTS.items()))
def test_a_plugin_has_one_name(name, target):
    """Entry point, Plugin.name and folder agree, so that a shard file can be read without code."""
    module, _, attribute = target.partition(":")
    assert module == "kaisched_plugins." + name.replace("-", "_")
    assert (ROOT / "plugins" / "kaisched_plugins" / name.replace("-", "_")).is_dir()
    assert getattr(import_module(module), attribute).name == name


def test_every_plugin_folder_is_registered():
    folders = {
        path.parent.name for path in (ROOT / "plugins" / "kaisched_plugins").glob("*/__init__.py")
    }
    assert folders == {name.replace("-", "_") for name in ENTRY_POINTS}
