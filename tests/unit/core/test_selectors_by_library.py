"""Selectors that the evaluator here does not understand, and the library for CEL evaluates."""

import pytest

from kaisched.core.claims import cel_library
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.model import ClaimError
from tests.unit.core.test_selectors import UNDERSTOOD, A, M, device

pytestmark = pytest.mark.skipif(
    cel_library.library() is None,
    reason="cel-expr-python is not installed: selectors by the library were not tried",
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"{A}.model.matches('^H[0-9]+$')", True),
        (f"{A}.model.matches('^A')", False),
        (f"{A}.?model.orValue('none') == 'H100'", True),
        (f"{A}.?none.orValue('none') == 'none'", True),
        ("device.attributes['none.org'].?rack.orValue('r0') == 'r0'", True),
        ("device.attributes[?'x.org'].?rack.hasValue()", True),
        (f"[{A}.model].map(it, it.lowerAscii()) == ['h100']", True),
        (f"'a,H100'.split(',').filter(it, it == {A}.model).size() == 1", True),
        (f"{M}.asInteger() == 85899345920 && {A}.model.matches('.')", True),
        (f"{M}.add(quantity('1Gi')) == quantity('81Gi') && {A}.model.matches('.')", True),
        (f"{M}.isGreaterThan(quantity('1')) && {A}.model.matches('A')", False),
        (f"{A}.version == semver('1.2.3-rc.1') && {A}.model.matches('.')", True),
        (f"{A}.version.compareTo(semver('1.2.3')) == -1 && {A}.model.matches('.')", True),
        (f"{A}.none == 1 || {A}.model.matches('.')", True),
        (f"int('3') == {A}.index && {A}.model.matches('.')", True),
    ],
)
def test_the_library_answers_what_is_not_understood_here(text, answer):
    assert CelSelector(text).matches(device(model="H100", index=3, ok=True)) is answer


@pytest.mark.parametrize(("text", "answer"), UNDERSTOOD)
def test_the_library_answers_as_the_evaluator_here(text, answer):
    evaluated = cel_library.expression(text)
    assert evaluated is not None
    assert evaluated(device(model="H100", index=3, ok=True)) is answer


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{A}.none.matches('a')", "none"),
        (f"{A}.model.findAll('a') == []", "findAll"),
        (f"{A}.model.replace('a', 'b')", "is not true or false"),
        ("quantity('1.5').asInteger() == 1", "is no whole number"),
        ("devices.driver.matches('a')", "devices"),
        ("(" * 5000, "selector"),
        ("true && " * 2000 + "'a'.matches('a')", "longer than"),
        ("device.driver.matches('(')", "selector"),
    ],
)
def test_what_the_library_cannot_evaluate_is_named_in_one_line(text, told):
    with pytest.raises(ClaimError) as caught:
        CelSelector(text).matches(device(model="H100"))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_equal_devices_are_asked_about_once():
    selector = CelSelector(f"{A}.model.matches('^H')")
    assert all(
        selector.matches(device(f"gpu-{at}", model="H100", uuid=f"u{at}")) for at in range(9)
    )
    assert selector.profiles == 1


def test_a_selector_with_optional_values_is_asked_for_each_kind_of_device():
    selector = CelSelector(f"{A}.?model.orValue('') == 'H100'")
    assert all(selector.matches(device(model="H100", uuid=f"u{at}")) for at in range(3))
    assert selector.profiles == 3
