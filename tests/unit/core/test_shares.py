"""Share arithmetic: worked numbers J and L and the conventions for 0 and UNLIMITED."""

import numpy as np
import pytest

from kaisched.core import shares
from kaisched.units import UNLIMITED


def column(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)[:, None]


@pytest.mark.parametrize(
    ("deserved", "limit", "fair", "expected"),
    [
        (2, UNLIMITED, 5, 5),
        (5, UNLIMITED, 2, 5),
        (2, 4, 5, 4),
        (UNLIMITED, 4, 5, 4),
        (UNLIMITED, UNLIMITED, 5, UNLIMITED),
    ],
)
def test_allocatable_share(deserved, limit, fair, expected):
    got = shares.allocatable_share(column(deserved), column(limit), column(fair))
    assert got[0, 0] == expected


@pytest.mark.parametrize(
    ("sibling", "per_mille", "rejected"), [(5, 1000, True), (6, 1000, False), (6, 1300, True)]
)
def test_worked_number_j_order_of_saturation(sibling, per_mille, rejected):
    got = shares.breaks_saturation_order(
        column(5), column(4), column(sibling), column(4), per_mille
    )
    assert got[0, 0] == rejected


@pytest.mark.parametrize(
    ("reclaimer", "fair", "sibling", "sibling_fair", "rejected"),
    [
        (4, 4, 0, 4, False),  # not above its fair share
        (1, 0, 9, 4, True),  # infinite
        (5, 4, 5, 0, False),  # a sibling without a share protects nothing
        (1, 0, 5, 0, True),  # but not from who has none either
        (5, 4, 5, UNLIMITED, True),  # ratio 0 is reached by any
        (5, UNLIMITED, 5, UNLIMITED, False),  # both unlimited
    ],
)
def test_order_of_saturation_at_the_edges(reclaimer, fair, sibling, sibling_fair, rejected):
    got = shares.breaks_saturation_order(
        column(reclaimer), column(fair), column(sibling), column(sibling_fair)
    )
    assert got[0, 0] == rejected


def test_ratios_that_floats_cannot_tell_apart_are_compared_exactly():
    big = 1 << 44
    # big/(big+1) < (big+1)/(big+2), by 3e-27.
    a, b, c, d = column(big), column(big + 1), column(big + 1), column(big + 2)
    assert not shares.is_ratio_at_least(a, b, c, d)[0, 0]
    assert shares.is_ratio_at_least(c, d, a, b)[0, 0]
    assert shares.is_ratio_at_least(a, b, a, b)[0, 0]


def test_worked_number_l_exceeds_before_the_gang_is_subtracted():
    assert shares.exceeds_any(column(5), column(4))[0]
    assert not shares.exceeds_any(column(0), column(4))[0]
