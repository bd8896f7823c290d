"""The catalogue of faults: its rows, the tests of each, and the page that shows both.

The marks are read from the sources, so that the page does not depend on which tests are collected.
"""

import ast
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "bad_input"
PLACES = (ROOT / "tests", ROOT / "plugins" / "kaisched_plugins")
HEAD = """# The catalogue of faults

What can go wrong, and what kaisched does about it, row by row. {tested} of {all} rows have a
test, which carries the mark `fault` with the letter and number of its row;
`make test ARGS="-m fault"` runs them all. The others say why they have none.

This page is printed by `python -m tests.reference.test_faults_documented`.

Without a test: {untested}.
"""


def parts():
    """Letter to its title and its rows: number to what happens, what is done, why no test."""
    text = (ROOT / "tests" / "faults" / "rows.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def rows():
    """Return all rows, as ``A1``, in order."""
    return [f"{letter}{number}" for letter, part in parts().items() for number in part["rows"]]


def marks_of(function):
    """Yield the rows that a test is marked with."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
            (row,) = mark.args
            yield ast.literal_eval(row)


def functions():
    """Yield (file, syntax tree) of every test."""
    for path in sorted(path for place in PLACES for path in place.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node


def found_by_row():
    """Row to its tests, each a pair of file and name."""
    found = {}
    for path, function in functions():
        for row in marks_of(function):
            found.setdefault(row, []).append((path, function.name))
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            if "fault" in case:
                found.setdefault(case["fault"], []).append((path, case["name"]))
    return found


def page():
    """Write docs/reference/faults.md."""
    tests, every = found_by_row(), rows()
    untested = ", ".join(row for row in every if row not in tests)
    lines = [HEAD.format(tested=len(tests), all=len(every), untested=untested)]
    for letter, part in parts().items():
        lines += [f"## {letter}. {part['title']}", ""]
        head = "| row | what happens | what kaisched does | tests, or why there is none |"
        lines += [head, "|---|---|---|---|"]
        for number, (happens, does, *why) in part["rows"].items():
            links = [
                f"[{name}](../../{path.relative_to(ROOT).as_posix()})"
                for path, name in tests.get(f"{letter}{number}", ())
            ]
            shown = ", ".join(links) or "".join(why) or "none"
            lines.append(f"| {letter}{number} | {happens} | {does} | {shown} |")
        lines.append("")
    return "\n".join(lines)
