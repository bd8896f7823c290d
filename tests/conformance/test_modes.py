"""The default mode of `fair-sharing` beside the compatible one, on our copies of Kueue's cases."""

from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.kueue.modes import difference, differences, table
from tests.conformance.kueue.preemptions import victims
from tests.conformance.reading import read

pytestmark = pytest.mark.proportion  # Kueue's cases turn it off by name

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "conformance" / "cases"
CASES = {case["id"]: case for case in read(FOLDER) if case.get("is_family")}
PAGE = (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
OVERTAKEN = [
    name
    for name, case in sorted(CASES.items())
    if case["kind"] == "counterexamples" and case["expected"]["overtaken_by"]
]


def test_the_page_lists_what_the_default_mode_decides_otherwise_and_by_which_rule():
    found = list(differences(CASES.values()))
    assert PAGE.endswith("\n".join(["", *table(found), ""]))
    assert {it.rule for it in found} == {"F12", "F16"}


@pytest.mark.parametrize("name", OVERTAKEN)
def test_no_decision_whose_victim_would_come_first_again_is_returned(name):
    expected = {(it["workload"], it["reason"]) for it in CASES[name]["expected"]["preempted"]}
    assert victims(CASES[name], is_compatible=True) == expected
    returned = victims(CASES[name], is_compatible=False)
    assert {key for key, _ in returned} != {key for key, _ in expected}
    assert difference(CASES[name]).rule == "F16"


def test_there_are_such_decisions():
    assert OVERTAKEN == ["loop-1", "putback-1", "putback-1-final", "putback-2"]


def test_they_are_listed_by_the_command(capsys):
    assert main(["--cases", str(FOLDER), "--only", "putback-2", "--differences"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| `putback-2` | `w0` goes")
    assert row.endswith("| F16 |")
