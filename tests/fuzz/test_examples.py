"""The examples of a law are the same in every run, whatever else is loaded."""

import sys
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

ODD = 982_451_653


def drawn():
    """Return the examples of a law."""
    seen = []

    @given(st.integers(), st.text(), st.randoms(use_true_random=False))
    def law(number, text, dice):
        seen.append((number, text, dice.random()))

    law()
    return seen


def test_a_law_has_the_same_examples_each_time():
    assert drawn() == drawn()


def test_constants_in_modules_that_are_loaded_change_no_example(tmp_path, monkeypatch):
    before = drawn()
    file = tmp_path / "odd.py"
    file.write_text("".join(f"N{at} = {ODD + at}\nT{at} = 'odd{at}'\n" for at in range(500)))
    module = ModuleType("odd")
    module.__file__ = str(file)
    exec(file.read_text(), module.__dict__)
    monkeypatch.setitem(sys.modules, "odd", module)
    assert drawn() == before
