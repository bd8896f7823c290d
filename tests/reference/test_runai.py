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
    assert len(ROWS) > 90
    assert [row for row in ROWS if row[1] not in ("works", "differs", "not offered")] == []


SECTIONS = {
    "Quota": 14,
    "Node pools": 11,
    "Node affinity": 4,
    "Reclaim and fairness": 12,
    "Distributed training": 9,
    "Hyper-parameter optimization": 8,
}
"""Statements of the sections of the document that are gone through sentence by sentence."""


def test_no_statement_of_a_section_is_left_out():
    for title, least in SECTIONS.items():
        rows = re.findall(r"^\| (?!statement)", section(title), re.MULTILINE)
        assert len(rows) >= least, title


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.proportion
def test_what_works_names_a_test_and_every_named_test_exists():
    for statement, outcome, rest in ROWS:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", rest)
        assert named or outcome != "works", statement
        assert rest
        for path, name in named:
            assert name in functions_in(path), (path, name)
