"""Two files never import each other, neither inside a function nor for their types alone."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    init.parent
    for init in (
        ROOT / "kaisched" / "__init__.py",
        *(ROOT / "plugins").glob("*/__init__.py"),
        *(ROOT / "plugins").glob("*/src/*/__init__.py"),
    )
]


def modules_of(package):
    """Return the text of each file of a package by the name under which it is imported."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def statements(body):
    """Yield statements with all that stand inside of them; most of a tree is expressions."""
    for each in body:
        yield each
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(each, part, ()))


def imported_by(text, modules):
    """Return the modules that a file imports: anywhere in it, and absolutely, as all do here."""
    found = set()
    for each in statements(ast.parse(text).body):
        if isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
        elif isinstance(each, ast.ImportFrom):
            assert each.level == 0, "a relative import"
            within = {f"{each.module}.{name.name}" for name in each.names}
            found |= {name if name in modules else each.module for name in within}
    return found & modules.keys()


def circle_in(modules):
    """Return files each of which imports the next, the last one the first; empty for none."""
    graph = {name: imported_by(text, modules) for name, text in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        return circle.args[1][::-1]
    return []


def test_no_file_imports_one_that_imports_it():
    modules = {}
    for package in PACKAGES:
        modules |= modules_of(package)
    assert {"kaisched.cli.app", "kaisched_plugins.gang", "kaisched_apiserver.server"} <= set(
        modules
    )
    assert circle_in(modules) == []


def test_every_kind_of_import_counts():
    lazy = "def f():\n    from a import c\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.b\n"
    assert circle_in({"a": "", "a.b": lazy, "a.c": typed}) in (
        ["a.b", "a.c", "a.b"],
        ["a.c", "a.b", "a.c"],
    )
    assert circle_in({"a": "from a.b import x", "a.b": "from a import x"}) != []
    assert circle_in({"a": "from a.b import x", "a.b": "from a import c", "a.c": ""}) == []
