"""Share arithmetic: worked numbers J and L and the conventions for 0 and UNLIMITED."""

import numpy as np
import pytest

from kaisched.core import shares
from kaisched.units import UNLIMITED

CPU, MEMORY, GPU = 0, 1, 2
ORDER = (CPU, MEMORY, GPU)


def column(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)[:, None]


def test_requestable_is_capped_by_the_limit():
    request, limit = column(5, 5, 5), column(6, 3, UNLIMITED)
    assert shares.requestable_share(request, limit)[:, 0].tolist() == [5, 3, 5]


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


def test_dominant_share_is_the_largest_ratio():
    held = np.array([[500, 500], [100, 600], [200, 700]])
    got = shares.dominant_share(held, np.full((3, 2), 1000), np.array([9, 9, 9]))
    assert got.tolist() == [0.5, 0.7]


def test_dominant_share_takes_the_total_for_unlimited_and_punishes_what_is_not_allowed():
    allocatable = np.array([[UNLIMITED, 0, 0, UNLIMITED]])
    got = shares.dominant_share(np.array([[5, 0, 3, 0]]), allocatable, np.array([10]))
    assert got.tolist() == [0.5, 0.0, 3000.0, 0.0]


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


@pytest.mark.parametrize(
    ("held", "ask", "bound", "expected"),
    [
        ((500, 1, 1), (1000, 1, 1), (UNLIMITED,) * 3, -1),
        ((0, 0, 0), (1000, 1, 1), (1000, 1, 1), -1),
        ((500, 1, 1), (1000, 0, 0), (1000, 1, 1), CPU),
        ((500, 1, 1), (0, 1, 0), (1000, 1, 1), MEMORY),
        ((500, 1, 1), (0, 0, 1), (1000, 1, 1), GPU),
        ((1500, 1, 0), (0, 0, 1), (1000, 1, 1), -1),  # CPU is over, but not asked for
        ((1, 1, 1), (10, 10, 10), (5, 5, 5), CPU),
    ],
)
def test_the_first_resource_over_its_bound(held, ask, bound, expected):
    got = shares.first_over(column(*held), column(*ask), column(*bound), ORDER)
    assert got.tolist() == [expected]


def test_resources_are_named_in_the_order_asked_for():
    over = column(9, 9, 9), column(1, 1, 1), column(1, 1, 1)
    assert shares.first_over(*over, (GPU, CPU, MEMORY)).tolist() == [GPU]
