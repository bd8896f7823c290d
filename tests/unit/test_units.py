"""Amounts and durations: exact, cheap on any input, and the same there and back."""

import contextlib
import math
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.units import (
    MAX_AMOUNT,
    MAX_DURATION_S,
    MEBIBYTE,
    MEGABYTE,
    UNLIMITED,
    UnitError,
    base_units,
    count,
    format_amount,
    format_duration,
    memory_units,
    mig_slices,
    milli_cpu,
    milli_gpu,
    parse_duration,
    parse_quantity,
)

SUFFIXES = {
    "": 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


def shape(value):
    """Name a case without printing it."""
    return type(value).__name__


def value_of(text):
    quantity = parse_quantity(text)
    return Fraction(quantity.numerator, quantity.denominator)


@given(
    whole=st.integers(0, 10**12),
    part=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_a_quantity_is_read_exactly(whole, part, suffix):
    expected = (whole + Fraction(int(part or 0), 10 ** len(part))) * SUFFIXES[suffix]
    assert value_of(f"{whole}.{part}{suffix}") == expected


@given(mantissa=st.integers(0, 10**9), power=st.integers(-21, 21))
def test_an_exponent_is_read_exactly(mantissa, power):
    assert value_of(f"{mantissa}e{power}") == mantissa * Fraction(10) ** power
    assert value_of(f"{mantissa}E{power}") == mantissa * Fraction(10) ** power


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_text(number):
    assert value_of(number) == value_of(repr(number))


@pytest.mark.parametrize(
    ("read", "text", "up", "down"),
    [
        (milli_cpu, "1500m", 1500, 1500),
        (milli_cpu, "1.0001", 1001, 1000),
        (milli_cpu, 2, 2000, 2000),
        (memory_units, "1Mi", 16384, 16384),
        (memory_units, "1M", 15625, 15625),
        (memory_units, "1k", 16, 15),
        (memory_units, 1, 1, 0),
        (memory_units, "0", 0, 0),
        (milli_gpu, "0.5", 500, 500),
        (milli_gpu, 8, 8000, 8000),
        (count, "1e-9", 1, 0),
        (count, "1k", 1000, 1000),
        (count, ".5", 1, 0),
        (count, "5.", 5, 5),
        (count, "+3", 3, 3),
        (count, "-0", 0, 0),
    ],
)
def test_requests_round_up_and_capacities_down(read, text, up, down):
    assert read(text, True) == up
    assert read(text, False) == down


@pytest.mark.fault("D59")
@pytest.mark.parametrize(
    "text", ["1e2000000", "1e400", "9" * 40, "1e22", 10**5000, 1e300], ids=shape
)
def test_what_is_huge_saturates_and_costs_nothing(text):
    start = time.process_time()
    assert count(text) == milli_cpu(text) == MAX_AMOUNT
    assert time.process_time() - start < 1.0  # int("1e2000000") would take minutes


def test_what_is_tiny_still_rounds_up_to_something():
    assert count("1e-2000000") == 1
    assert count("1e-2000000", False) == 0
    assert count("0e2000000") == 0


@pytest.mark.parametrize(
    "text",
    [
        *(
            "nan",
            "NaN",
            "inf",
            "Infinity",
            "1_000",
            " 1",
            "1 ",
            "1\n",
            "\u0661",
            "\u00bd",
            "1K",
            "1ki",
        ),
        *(
            "-1",
            "",
            ".",
            "1e",
            "e3",
            "Ki",
            "1e3Ki",
            "0x10",
            "1,5",
            "--1",
            "9" * 41,
            True,
            False,
            None,
        ),
        *([], -1, -0.5, math.nan, math.inf, "-1e9", "1e+", "1mm", "\ud800", -(10**5000)),
    ],
    ids=shape,
)
def test_what_is_no_amount_is_refused_with_a_fix(text):
    with pytest.raises(UnitError) as caught:
        parse_quantity(text)
    assert caught.value.fix


@given(st.text())
def test_no_text_can_surprise_the_readers(text):
    for read in (parse_quantity, milli_cpu, memory_units, parse_duration):
        with contextlib.suppress(UnitError):
            read(text)


def test_true_and_one_and_one_point_zero_are_not_one_cache_key():
    assert count(1) == count(1.0) == 1
    with pytest.raises(UnitError):
        count(True)


@pytest.mark.parametrize(
    ("resource", "base", "text"),
    [
        ("gpu", 1500, "1.5"),
        ("gpu", 8000, "8"),
        ("cpu", 1, "0.001"),
        ("memory", 2048 * MEBIBYTE, "2Gi"),
        ("memory", 1536 * MEBIBYTE, "1.5Gi"),
        ("memory", 1025 * MEBIBYTE, "1025Mi"),
        ("memory", 1000 * MEGABYTE, "1G"),
        ("memory", 953 * MEGABYTE, "953M"),
        ("memory", 16, "1Ki"),
        ("memory", 17, "1088"),
        ("memory", 0, "0"),
        ("memory", MEBIBYTE * 3 << 20, "3Ti"),
        ("hugepages-1Gi", 1024 * MEBIBYTE, "1Gi"),
        ("pods", 110, "110"),
        ("rdma/hca", 4, "4"),
        ("gpu", -500, "-0.5"),
        ("gpu", UNLIMITED, "unlimited"),
        ("pods", MAX_AMOUNT, f">={MAX_AMOUNT}"),
    ],
)
def test_amounts_are_shown_as_people_write_them(resource, base, text):
    assert format_amount(resource, base) == text


@given(
    resource=st.sampled_from(["cpu", "gpu", "memory", "ephemeral-storage", "pods", "rdma/hca"]),
    base=st.integers(0, MAX_AMOUNT - 1),
)
def test_a_shown_amount_reads_back(resource, base):
    assert base_units(resource, format_amount(resource, base), False) == base


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1w2d3h4m5s6ms", 788645.006),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("100ms", 0.1),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1\u03bcs", 1e-6),
        ("1ns", 1e-9),
        ("1y", 31536000.0),
        ("10y", float(MAX_DURATION_S)),
        ("0", 0.0),
        (0, 0.0),
        ("0s", 0.0),
        ("+5s", 5.0),
        (".5s", 0.5),
    ],
)
def test_durations_are_read_in_both_forms(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "5",
            "1.5",
            "-5s",
            "s",
            ".s",
            "1m1h",
            "1s1s",
            "11y",
            "9" * 30 + "y",
            "1 h",
            "1h ",
            "nan",
        ),
        *(
            "inf",
            "1H",
            "\u0661s",
            "1e3s",
            5,
            5.0,
            True,
            False,
            None,
            [],
            "1h" * 50,
            "-",
            "+",
            "--1s",
        ),
    ],
)
def test_what_is_no_duration_is_refused_with_a_fix(text):
    with pytest.raises(UnitError) as caught:
        parse_duration(text)
    assert caught.value.fix


def test_a_bare_number_is_told_its_unit():
    with pytest.raises(UnitError) as caught:
        parse_duration("30")
    assert caught.value.fix == 'write "30s" for seconds'
    with pytest.raises(UnitError) as caught:
        parse_duration(-3)
    assert '"-3s"' not in caught.value.fix


def test_negative_durations_only_where_they_mean_never():
    assert parse_duration("-1m30s", allow_negative=True) == -90.0
    with pytest.raises(UnitError):
        parse_duration("-1m30s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (90, "1m30s"),
        (604800, "1w"),
        (691200, "8d"),
        (31536000, "1y"),
        (0, "0s"),
        (-60, "-1m"),
        (0.25, "250ms"),
    ],
)
def test_durations_are_shown_in_canonical_form(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(0, MAX_DURATION_S * 10**9))
def test_a_shown_duration_reads_back(nanos):
    seconds = nanos / 10**9
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_a_duration_that_is_no_number_is_not_shown(seconds):
    with pytest.raises(UnitError):
        format_duration(seconds)


@pytest.mark.parametrize(
    "text", ["1" * 10**6, "1h" * 10**6, "." * 10**6, "1e" + "9" * 10**6], ids=shape
)
def test_long_texts_are_refused_at_once(text):
    start = time.process_time()
    for read in (parse_quantity, parse_duration):
        with pytest.raises(UnitError):
            read(text)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    ("resource", "slices"),
    [
        ("nvidia.com/mig-1g.5gb", 1),
        ("nvidia.com/mig-7g.141gb", 7),
        ("nvidia.com/mig-1g.10gb.me", 1),
        ("nvidia.com/mig-1c.3g.20gb", 1),
        ("nvidia.com/mig-8g.80gb", 0),
        ("nvidia.com/mig-1g", 0),
        ("nvidia.com/gpu", 0),
        ("amd.com/mig-1g.5gb", 0),
        ("", 0),
    ],
)
def test_the_slices_of_a_mig_profile(resource, slices):
    assert mig_slices(resource) == slices
