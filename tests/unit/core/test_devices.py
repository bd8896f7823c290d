"""What a share takes of a card, and what it counts in its queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.devices import CARD, DeviceDemand


@pytest.mark.parametrize(
    ("demand", "card_mib", "thousandths"),
    [
        (DeviceDemand(fraction=500_000), 0, 500),
        (DeviceDemand(fraction=333_334), 81_920, 333),
        (DeviceDemand(fraction=1, least=0), 0, 1),
        (DeviceDemand(fraction=1), 0, 50),
        (DeviceDemand(fraction=10_000, cards=8), 0, 400),
        (DeviceDemand(fraction=60_000, cards=8), 0, 480),
        (DeviceDemand(fraction=10_000, cards=8, least=200), 0, 1600),
        (DeviceDemand(memory_mib=819, cards=2), 81_920, 100),
        (DeviceDemand(fraction=250_000, cards=3), 0, 750),
        (DeviceDemand(memory_mib=8_192), 81_920, 100),
        (DeviceDemand(memory_mib=8_192, cards=2), 16_384, 1000),
        (DeviceDemand(memory_mib=90_000), 81_920, 1000),
        (DeviceDemand(memory_mib=8_192), 0, 0),
        (DeviceDemand(), 81_920, 0),
    ],
)
def test_a_share_counts_in_thousandths_of_a_gpu(demand, card_mib, thousandths):
    assert demand.milli_gpus(card_mib) == thousandths


@given(st.integers(2, 900), st.integers(1, 200_000))
def test_as_many_parts_fit_as_their_fraction_says(parts, card_mib):
    take = DeviceDemand(fraction=CARD // parts).take(card_mib)
    assert parts * take <= CARD * card_mib < (parts + 1) * take


def test_fractions_and_memory_mix_on_a_card_without_rounding():
    card_mib = 81_920
    half = DeviceDemand(fraction=500_000).take(card_mib)
    assert half + DeviceDemand(memory_mib=40_960).take(card_mib) == CARD * card_mib
