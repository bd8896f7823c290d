"""What a cycle changes, as copies: to compare before and after."""

import numpy as np

from kaisched.framework.session.capacity import Capacity
from kaisched.framework.session.ledger import Ledger

LEDGER = tuple(Ledger.__annotations__)
CAPACITY = tuple(name for name in Capacity.__annotations__ if name not in {"touched", "cards"})


def amounts_of(session) -> dict[str, np.ndarray]:
    """Return a copy of every array of a session that moves change, by name."""
    held = {name: getattr(session.ledger, name).copy() for name in LEDGER}
    return held | {name: getattr(session.capacity, name).copy() for name in CAPACITY}


def assert_equal(session, before: dict[str, np.ndarray]) -> None:
    """Check that every array is what it was, to the bit."""
    for name, array in amounts_of(session).items():
        assert np.array_equal(array, before[name]), name
        assert array.dtype == before[name].dtype, name
