"""Bins and items of a few kinds: what fits is found, as far as the steps go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.packing import Bin, _Search, pack
from tests.laws.test_fewest_racks_laws import fits

SHAPES = ((2, 1), (1, 1), (0, 3))


def bins(*free, most=99):
    """Make bins by what they have of two resources, with no more than ``most`` items of a kind."""

    def room(have, ask):
        return min(most, *(a // b for a, b in zip(have, ask, strict=True) if b))

    rooms = [tuple(room(have, ask) for ask in SHAPES) for have in free]
    return [Bin(takes, have) for takes, have in zip(rooms, free, strict=True)]


def test_a_bin_that_an_item_fills_best_may_be_the_wrong_one():
    """The second bin has to take one item of two: three of one are too many for it."""
    some = bins((2, 2), (3, 2), (2, 6))
    assert pack(some, SHAPES, [2, 3, 0], 5) == [[0, 1], [1, 2, 2], []]
    assert pack(some, SHAPES, [2, 3, 1], 6) == [[0, 1], [1, 2, 2], [2]]
    assert pack(some, SHAPES, [2, 3, 2], 99) is None


def test_an_item_moves_on_where_later_ones_find_no_bin():
    """In the first bin the large item would waste what two small ones need; so the steps are four.

    They end before the choices do if there are only three.
    """
    some = bins((2, 2), (2, 1))
    assert pack(some, SHAPES, [1, 2, 0], 4) == [[1], [0, 0], []]
    assert pack(some, SHAPES, [1, 2, 0], 3) is None


def test_a_bound_of_a_bin_counts_beside_what_is_free():
    assert pack(bins((9, 9), (9, 9), most=1), SHAPES, [1, 2, 0], 9) == [[0], [0, 1], []]
    assert pack(bins((9, 9), (9, 9), most=1), SHAPES, [1, 3, 0], 99) is None


def test_equal_bins_are_one_choice():
    """Ten bins hold an item each, of either kind: when five have a large one, six do not fit."""
    some, asks = [Bin((1, 1), (3,))] * 10, ((2,), (3,))
    assert pack(some, asks, [5, 5], 10) == [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4]]
    search = _Search(some, asks, [6, 5], 99)
    assert search.is_open()
    assert not search.rest(0, 0)
    assert search.steps == 99 - 5


@pytest.mark.parametrize("steps", [0, 3])
def test_no_items_need_no_steps(steps):
    assert pack(bins((0, 0)), SHAPES, [0, 0, 0], steps) == [[], [], []]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=6),
    st.tuples(*[st.integers(0, 3)] * len(SHAPES)),
)
def test_with_steps_enough_it_finds_out_what_fits(free, counts):
    """Against all choices; and nothing is put where it does not fit."""
    chosen = pack(bins(*free), SHAPES, counts, 10_000)
    pods = tuple(ask for ask, count in zip(SHAPES, counts, strict=True) for _ in range(count))
    assert (chosen is not None) == fits(tuple(sorted(free)), pods)
    for at, have in enumerate(free):
        held = [(ask, each.count(at)) for ask, each in zip(SHAPES, chosen or (), strict=False)]
        assert all(sum(ask[it] * of for ask, of in held) <= have[it] for it in (0, 1))
    assert chosen is None or [len(each) for each in chosen] == list(counts)
