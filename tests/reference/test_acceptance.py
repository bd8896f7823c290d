"""The page of acceptance: each row names tests, and these exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "acceptance.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (U\d+) \|.*\| (.*) \|$", PAGE, re.MULTILINE)


def test_no_row_is_missing():
    assert [name for name, _ in ROWS] == [f"U{number}" for number in range(1, 11)]


@pytest.mark.parametrize(("name", "shown"), ROWS, ids=[name for name, _ in ROWS])
def test_the_tests_that_a_row_names_exist(name, shown):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", shown)
    assert named, name
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}, path
