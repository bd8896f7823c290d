"""Gangs of unequal pods, and of subgroups, use the fewest racks that can hold them."""

import pytest

from tests.laws.fewest_racks import ENOUGH, KINDS, counted, drawn, verdict

DRAWN = 24


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_gangs_use_the_fewest_racks(kind):
    fit, missed = counted(kind, range(1000, 1000 + DRAWN))
    assert fit > DRAWN / 2
    assert len(missed) <= (1 - ENOUGH) * fit, missed


@pytest.mark.parametrize(
    ("kind", "seed", "fewest"),
    [
        ("mixed", 42, 2),
        ("mixed", 51, 2),
        ("mixed", 62, 1),
        ("nested", 3, 2),
        ("nested", 41, 2),
        ("nested", 51, 2),
        ("mixed in one zone", 14, 3),
        ("nested in one zone", 60, 2),
    ],
)
def test_gangs_that_the_first_choice_of_each_pod_would_spread(kind, seed, fewest):
    """Pods placed one after the other, each in the best rack for itself, use more or do not fit."""
    assert verdict(drawn(seed, kind)) == (fewest, fewest)
