"""The rules of the house that no tool checks: docstrings, names, and standing on its own."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for root in ("kaisched", "plugins")
    for path in (ROOT / root).rglob("*.py")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
PACKAGED = [
    path
    for path in SOURCES
    if path.startswith(("kaisched/", "plugins/kaisched_", "plugins/apiserver/"))
    and "/tests/" not in path
]
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]["kaisched.plugins"]


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=path)


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def inner_rings(tree: ast.Module) -> list[str]:
    """Return the functions within functions that come upon themselves, by way of others or not."""
    found = []
    for outer in (it for it in ast.walk(tree) if isinstance(it, FUNCTIONS)):
        inner = {it.name: it for it in ast.walk(outer) if isinstance(it, FUNCTIONS)}
        del inner[outer.name]
        names = {
            name: {it.id for it in ast.walk(function) if isinstance(it, ast.Name)} & inner.keys()
            for name, function in inner.items()
        }
        for name in inner:
            met, line = set(), [name]
            while line:
                new = names[line.pop()] - met
                met |= new
                line += new
            found += [f"{outer.name}: {name}"] if name in met else []
    return found


def test_no_inner_function_calls_itself():
    """It would keep itself alive, with all that it has of the outer one, until Python finds it."""
    found = {path: rings for path in SOURCES if (rings := inner_rings(tree_of(path)))}
    assert found == {}


def test_a_module_says_what_lives_in_it():
    assert [path for path in PACKAGED if not ast.get_docstring(tree_of(path))] == []


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


NAMES_PROPORTION = re.compile(r"(?<!in )(?<!mark\.)(?<!without_)\bproportion\b")
"""The plugin, not the word of speech, nor the marker of tests."""
MAY_NAME_IT = (
    "kaisched/objects/shard.py",  # the list of defaults
    "kaisched/data/shards/default.yaml",  # and its packaged file
    "tests/benchmarks/",
    "tests/conformance/",
    "tests/mutants/",
    "tests/without_proportion/",
    "tests/reference/test_house.py",
)


def names_proportion(path: str, text: str) -> bool:
    """Tell whether a file of the host, or a test of it, names one of the policies."""
    if "proportion" not in text or path.startswith(MAY_NAME_IT):  # soon told of most
        return False
    is_marked = path.startswith("tests/") and "mark.proportion" in text
    return not is_marked and NAMES_PROPORTION.search(text) is not None


def test_only_defaults_and_marked_tests_name_proportion():
    """Another policy may stand in its place: ``make without-proportion`` tries it."""
    found = [
        path.relative_to(ROOT).as_posix()
        for place in ("kaisched", "tests", "deploy")
        for kind in ("*.py", "*.yaml")
        for path in sorted((ROOT / place).rglob(kind))
        if names_proportion(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_host_names_no_policy_that_lends():
    """It asks plugins whether they do (``Plugin.lends``)."""
    found = [
        path
        for path in SOURCES
        if path.startswith("kaisched/")
        and "fair-sharing" in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert found == []


@pytest.mark.parametrize(("name", "target"), sorted(ENTRY_POINTS.items()))
def test_a_plugin_has_one_name(name, target):
    """Entry point, Plugin.name and module agree, so that a shard file can be read without code."""
    module, _, attribute = target.partition(":")
    assert module == "kaisched_plugins." + name.replace("-", "_")
    assert getattr(import_module(module), attribute).name == name


def test_every_plugin_is_registered():
    """A plugin is a module of its name, or a folder if it has several files."""
    top = ROOT / "plugins" / "kaisched_plugins"
    modules = {path.parent.name for path in top.glob("*/__init__.py")}
    modules |= {path.stem for path in top.glob("*.py") if path.stem != "__init__"}
    assert modules == {name.replace("-", "_") for name in ENTRY_POINTS}
