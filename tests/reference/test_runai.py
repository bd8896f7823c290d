"""The page about Run:ai's scheduler: every row has an outcome, and the tests it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "runai.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]


@cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}


def test_every_statement_works_differs_or_is_not_offered():
    assert len(ROWS) > 70
    assert [row for row in ROWS if row[1] not in ("works", "differs", "not offered")] == []


@pytest.mark.proportion
def test_what_works_names_a_test_and_every_named_test_exists():
    for statement, outcome, rest in ROWS:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", rest)
        assert named or outcome != "works", statement
        assert rest
        for path, name in named:
            assert name in functions_in(path), (path, name)
