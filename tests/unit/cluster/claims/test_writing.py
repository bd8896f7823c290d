"""Amounts are written as an API server keeps them, so what is read again is what was sent."""

import pytest

from kaisched.cluster.claims.conversion import quantity_of, quantity_text
from kaisched.core.claims.model import NANOS, Quantity


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (512, "512"),
        (1000, "1k"),
        (1024, "1Ki"),
        (1536, "1536"),
        (3 << 29, "1536Mi"),
        (13_000_000_000, "13G"),
        (85_899_345_921, "85899345921"),
    ],
)
def test_only_multiples_of_1024_are_written_binary(number: int, text: str) -> None:
    assert quantity_text(Quantity(number * NANOS, is_binary=True)) == text


def test_decimal_amounts_keep_decimal_suffixes() -> None:
    assert quantity_text(Quantity(1024 * NANOS)) == "1024"
    assert quantity_text(Quantity(NANOS // 2)) == "500m"


@pytest.mark.parametrize(
    ("read", "text"),
    [
        ("5e9", "5e9"),
        ("1e11", "100e9"),
        ("3E9", "3E9"),
        ("12000e3", "12e6"),
        ("5e-1", "500e-3"),
        ("7e0", "7"),
        ("0e3", "0"),
        ("2E", "2E"),
        ("1Ei", "1Ei"),
    ],
)
def test_amounts_with_an_exponent_keep_one(read: str, text: str) -> None:
    assert quantity_text(quantity_of(read)) == text
