"""Records, and attributes that are worked out once."""

import pytest

from kaisched.core.lazy import lazy
from kaisched.core.record import record


@record
class Pair:
    """Two numbers."""

    left: int
    right: int = 2


class Counted:
    """Counts how often it is asked."""

    asked = 0

    @lazy
    def answer(self) -> int:
        """Say what is asked for."""
        self.asked += 1
        return 42


def test_a_record_is_made_by_its_fields_and_equals_itself_only():
    pair = Pair(1)
    assert (pair.left, pair.right) == (1, 2)
    assert pair == pair  # noqa: PLR0124 - the point
    assert pair != Pair(1)
    assert len({pair, Pair(1)}) == 2
    with pytest.raises(AttributeError):
        pair.other = 3


def test_an_attribute_is_worked_out_once_and_again_after_it_was_dropped():
    counted = Counted()
    assert (counted.answer, counted.answer, counted.asked) == (42, 42, 1)
    del counted.answer
    assert (counted.answer, counted.asked) == (42, 2)


def test_an_attribute_keeps_its_words():
    assert isinstance(Counted.answer, lazy)
    assert Counted.answer.__doc__ == "Say what is asked for."
