"""Mutants: each is one change that Python still reads, and every kind of change is made."""

import ast

import pytest

from tests.mutants.__main__ import PARTS, ROOT, main
from tests.mutants.mutations import mutations_of


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = a >= b > c", {"x = a > b > c", "x = a >= b >= c"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = a and b or c", {"x = a or b or c", "x = a and b and c"}),
        ("x = not a", {"x = a"}),
        ("x = (a) + b", {"x = (a) - b"}),
        ("x = True", {"x = False"}),
        ("x = 7", {"x = 8"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("x = np.minimum(a, b)", {"x = np.maximum(a, b)"}),
        ("a.f(b)", {"pass"}),
        ("x = a if b else c", {"x = a if (not (b)) else c"}),
        ("self._log.info('x')", set()),
        ("x: a | b = c", set()),
        ("def f(a: b | c = d) -> e | f: ...", set()),
        ("x = 'ü' + b", {"x = 'ü' - b"}),
    ],
)
def test_a_line_has_these_mutants(line, changed):
    assert {it.applied_to(line) for it in mutations_of(line)} == changed


def test_a_tenth_of_the_mutants_of_each_file_can_be_read_and_differs():
    for part in PARTS.values():
        for file in part.files:
            source = (ROOT / file).read_text(encoding="utf-8")
            found = mutations_of(source)
            assert found
            for each in found[::10]:
                assert each.applied_to(source) != source
                ast.parse(each.applied_to(source))
        for path in part.tests:
            assert (ROOT / path).exists()


def test_a_part_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["ledgers"])
    assert ended.value.code == 2
    assert "no such part: ledgers; here are fence, ledger" in capsys.readouterr().err
