"""The schema of a Queue refuses the numbers that the scheduler refuses."""

import json
import math

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaisched.objects.crds import custom_resource_definitions
from kaisched.objects.load import load_text
from tests.deploy.structural import faults

FIELDS = {
    "quota": ("resources", "gpu", "quota"),
    "limit": ("resources", "gpu", "limit"),
    "borrowingLimit": ("resources", "gpu", "borrowingLimit"),
    "lendingLimit": ("resources", "gpu", "lendingLimit"),
    "overQuotaWeight": ("resources", "gpu", "overQuotaWeight"),
    "weight": ("fairSharing", "weight"),
    "priority": ("priority",),
}
(SCHEMA,) = (
    version["schema"]["openAPIV3Schema"]
    for each in custom_resource_definitions().values()
    if each["spec"]["names"]["kind"] == "Queue"
    for version in each["spec"]["versions"]
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.floats(-3, 3, allow_nan=False),
    st.sampled_from([1e-12, 1e-9, 1e9, 1.1e9, 1e10, 2**31 - 1, 2**31, -(2**31)]),
)
TEXTS = st.one_of(
    st.from_regex(r"[-+]?[0-9]{0,2}(\.[0-9]{0,2})?(e[-+]?[0-9]|[mkMGnx]i?)?", fullmatch=True),
    st.sampled_from(["Low", "low", "", "0.5", "1" * 41]),
)


def is_refused(field, value):
    """Tell whether the schema, and whether the scheduler, refuses a value."""
    spec = value
    for key in reversed(FIELDS[field]):
        spec = {key: spec}
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    problems = load_text(json.dumps(queue), "f.yaml").problems
    return bool(list(faults(queue, SCHEMA))), bool(problems)


@pytest.mark.parametrize("field", FIELDS)
@given(number=NUMBERS)
@settings(max_examples=40)
@example(number=-0.5)
@example(number=-1.5)
def test_a_number_is_refused_by_both_or_by_neither(field, number):
    by_schema, by_scheduler = is_refused(field, number)
    assert by_schema == by_scheduler


@pytest.mark.parametrize("field", ["weight", "overQuotaWeight", "quota"])
@given(text=TEXTS)
@settings(max_examples=40)
@example(text="-0.5")
def test_a_text_is_refused_by_both_but_for_its_range(field, text):
    by_schema, by_scheduler = is_refused(field, text)
    assert by_scheduler or not by_schema
    if by_scheduler and not by_schema:  # a pattern cannot say how much a text is
        assert field == "weight"
        assert any(mark in text for mark in "enMG")


@pytest.mark.parametrize("field", ["quota", "borrowingLimit"])
def test_amounts_beyond_any_unit_are_refused_by_both(field):
    assert is_refused(field, 1e15) == (True, True)


def numbers_in(value):
    """Every number in the definitions, at any depth."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in numbers_in(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_numbers_stay_numbers_when_written_in_the_shortest_form():
    """Kustomize writes 1e-09 and 1e+09 without a point, which readers of YAML 1.1 take as text."""
    numbers = numbers_in(custom_resource_definitions())
    assert any(isinstance(each, float) for each in numbers)
    for number in numbers:
        assert yaml.safe_load(repr(number)) == number
        assert isinstance(number, int) or not number.is_integer()


@pytest.mark.parametrize("field", ["weight", "overQuotaWeight"])
@pytest.mark.parametrize(
    ("number", "refused"),
    [
        (math.nextafter(1e-9, 0), True),
        (1e-9, False),
        (1e9, False),
        (math.nextafter(1e9, 2e9), True),
    ],
)
def test_both_refuse_from_the_next_number_beyond_a_bound(field, number, refused):
    assert is_refused(field, number) == (refused, refused)
