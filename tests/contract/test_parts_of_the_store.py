"""The state store is made of parts, and each part alone changes what it holds."""

import ast
from pathlib import Path

from kaisched.cluster.store import StateStore

CLUSTER = Path(__file__).resolve().parents[2] / "kaisched" / "cluster"
FILES = sorted(CLUSTER.glob("*.py"))


def own_attributes(tree):
    """Return the attributes that the classes of a file give themselves."""
    found = set()
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(cls):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            found |= {
                target.attr
                for target in targets(node)
                if isinstance(target.value, ast.Name) and target.value.id == "self"
            }
    return found


def targets(node):
    """Return the attributes that a statement assigns or deletes."""
    match node:
        case ast.Assign() | ast.Delete():
            assigned = node.targets
        case ast.AugAssign() | ast.AnnAssign():
            assigned = [node.target]
        case _:
            assigned = []
    inner = [each for it in assigned for each in (it.elts if isinstance(it, ast.Tuple) else [it])]
    return [it for it in inner if isinstance(it, ast.Attribute)]


def set_from_outside(text):
    """Return the attributes of others that a file assigns, with their lines."""
    tree = ast.parse(text)
    own = own_attributes(tree)
    return [
        (node.lineno, target.attr)
        for node in ast.walk(tree)
        for target in targets(node)
        if not (isinstance(target.value, ast.Name) and target.value.id == "self")
        and target.attr not in own
    ]


def test_no_attribute_of_a_part_is_set_from_outside():
    found = {
        path.name: outside
        for path in FILES
        if (outside := set_from_outside(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_an_attribute_that_is_set_from_outside_would_be_noticed():
    assert set_from_outside("def f(part):\n    part.rows, x = 1, 2") == [(2, "rows")]
    assert set_from_outside("class A:\n    def f(self):\n        self.a.b += 1") == [(3, "b")]
    assert set_from_outside("class A:\n    def f(self):\n        self.b = 1\n        o.b = 2") == []


def test_the_store_is_made_of_parts_and_inherits_nothing():
    classes = [
        (node.name, [ast.unparse(base) for base in node.bases])
        for node in ast.walk(ast.parse((CLUSTER / "store.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert classes == [("StateStore", [])]


def test_the_page_lists_the_parts():
    page = (CLUSTER.parents[1] / "docs" / "explanation" / "state-store.md").read_text("utf-8")
    _, _, table = page.partition("| part | file | its job |\n")
    rows = [row.split("|") for row in table.partition("\n\n")[0].splitlines()[1:]]
    listed = {part.strip(" `"): file.strip(" `") for _, part, file, *_ in rows}
    parts = {name: part for name, part in vars(StateStore()).items() if not name.startswith("_")}
    assert listed == {
        name: type(part).__module__.removeprefix("kaisched.cluster.").replace(".", "/") + ".py"
        for name, part in parts.items()
    }
