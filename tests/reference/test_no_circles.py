"""Two files never import each other, neither inside a function nor, across packages, for types.

Within a package two files may know each other's types, as a session and the statements on it do:
the one that is made last imports the other. What runs has no circle anywhere.
"""

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


def package_of(name):
    """Return the package of a module: the part of the layering that it belongs to."""
    return name.split(".")[:2]


def imported_by(name, text, modules):
    """Return the modules that a file imports: anywhere in it, and absolutely, as all do here.

    What it imports for types alone counts only from other packages.
    """
    body = ast.parse(text).body
    types = [
        each for each in body if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each)
    ]
    across = {it for it in imports(types, modules) if package_of(it) != package_of(name)}
    return across | imports([each for each in body if each not in types], modules)


def imports(body, modules):
    """Return the modules that some statements import."""
    found = set()
    for each in statements(body):
        if isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
        elif isinstance(each, ast.ImportFrom):
            assert each.level == 0, "a relative import"
            within = {f"{each.module}.{name.name}" for name in each.names}
            found |= {name if name in modules else each.module for name in within}
    return found & modules.keys()


def circle_in(modules):
    """Return files each of which imports the next, the last one the first; empty for none."""
    graph = {name: imported_by(name, text, modules) for name, text in modules.items()}
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
    lazy = "def f():\n    from a.y import c\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.x.b\n"
    assert circle_in({"a.y": "", "a.x.b": lazy, "a.y.c": typed}) in (
        ["a.x.b", "a.y.c", "a.x.b"],
        ["a.y.c", "a.x.b", "a.y.c"],
    )
    inside = "def f():\n    from a.x import c\n"
    assert circle_in({"a.x": "", "a.x.b": inside, "a.x.c": typed}) == []
    assert circle_in({"a": "from a.b import x", "a.b": "from a import x"}) != []
    assert circle_in({"a": "from a.b import x", "a.b": "from a import c", "a.c": ""}) == []
