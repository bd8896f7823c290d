"""The catalogue of faults is whole, every mark names a row of it, and its page is current.

``python -m tests.reference.test_faults_documented`` prints docs/reference/faults.md.
"""

import ast
import re
import sys

import pytest

from tests.faults.catalogue import ROOT, found_by_row, functions, marks_of, page, parts, rows

PAGE = ROOT / "docs" / "reference" / "faults.md"


@pytest.mark.proportion
def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_rows_are_numbered_through_and_say_two_things_or_three():
    numbers = [number for part in parts().values() for number in part["rows"]]
    assert numbers == list(range(1, len(numbers) + 1))
    for part in parts().values():
        for said in part["rows"].values():
            assert len(said) in {2, 3}
            assert all(text.endswith(".") for text in said)


def test_every_mark_names_a_row():
    assert set(found_by_row()) - set(rows()) == set()


def test_every_row_has_a_test_or_the_reason_why_it_has_none():
    tested = set(found_by_row())
    reasoned = {
        f"{letter}{number}"
        for letter, part in parts().items()
        for number, said in part["rows"].items()
        if len(said) > 2
    }
    assert set(rows()) - tested == reasoned
    assert tested & reasoned == set()


def test_a_test_named_after_a_row_carries_its_mark():
    for _, function in functions():
        named = re.match(r"test_([a-h]|i(?=\d{3}))(\d+)_", function.name)  # i9 is an invariant
        if named:
            assert f"{named[1].upper()}{int(named[2])}" in marks_of(function)


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ('@pytest.mark.fault("A1")\n@pytest.mark.fault("A2")\ndef test(): ...', ["A1", "A2"]),
        ("@pytest.mark.slow\ndef test(): ...", []),
    ],
)
def test_marks_are_read_from_the_source(source, marks):
    assert list(marks_of(ast.parse(source).body[0])) == marks


if __name__ == "__main__":
    sys.stdout.write(page())
