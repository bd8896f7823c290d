"""Cards as they will be: a share takes the card that the order of cards names, or opens one."""

import numpy as np
import pytest

from kaisched.framework.session.cards import CardsAhead


def ahead(*, is_spread=False, is_unused=(False, False), slots=9):
    """Return a node with 2 open cards that have 700 and 400 left, and 3 whole ones."""
    left, whole = np.array([[700, 400]]), np.array([3])
    columns = left, left.copy(), np.array([[1, 1]]), np.array([is_unused])
    counts = whole, whole, np.array([slots])
    return CardsAhead(np.array([1000]), columns, counts, is_spread=is_spread)


@pytest.mark.parametrize(
    ("take", "cards", "is_spread", "whole", "left"),
    [
        (300, 1, False, 3, [100, 700]),
        (600, 1, False, 3, [100, 400]),
        (800, 1, False, 2, [200, 400, 700]),
        (500, 2, False, 2, [200, 400, 500]),
        (300, 1, True, 2, [400, 700, 700]),
        (300, 4, True, 0, [400, 400, 700, 700, 700]),
    ],
)
def test_a_share_goes_to_the_fullest_cards_that_it_fits_on(take, cards, is_spread, whole, left):
    node = ahead(is_spread=is_spread)
    node.put(np.array([take]), cards, np.array([True]))
    kept = sorted(it for it in node.left[0].tolist() if it > 0)
    assert (node.whole.tolist(), kept) == ([whole], left)


def test_a_node_without_one_more_pod_stays_as_it_is():
    node = ahead()
    node.put(np.array([300]), 1, np.array([False]))
    assert (node.whole.tolist(), node.left[0, :2].tolist()) == ([3], [700, 400])


def test_a_card_that_nothing_but_its_reservation_pod_holds_is_no_longer_whole():
    node = ahead(is_unused=(False, True))
    node.put(np.array([300]), 1, np.array([True]))
    assert node.whole.tolist() == [2]


def test_a_spread_share_opens_no_card_without_a_slot_for_its_reservation_pod():
    node = ahead(is_spread=True, slots=3)
    for _ in range(2):
        node.put(np.array([300]), 1, np.array([True]))
    assert (node.whole.tolist(), sorted(node.left[0].tolist())[-3:]) == ([2], [400, 400, 700])
