"""Records: dataclasses that equal themselves only."""

import pytest

from kaisched.core.axis import record


@record
class Pair:
    """Two numbers."""

    left: int
    right: int = 2


def test_a_record_is_made_by_its_fields_and_equals_itself_only():
    pair = Pair(1)
    assert (pair.left, pair.right) == (1, 2)
    assert pair == pair  # noqa: PLR0124 - the point
    assert pair != Pair(1)
    assert len({pair, Pair(1)}) == 2
    with pytest.raises(AttributeError):
        pair.other = 3
