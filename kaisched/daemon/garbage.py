"""Python's search for garbage, which stops all threads: seldom, and never among what lives long.

A full search among the objects of 100,000 pods takes more than half a second. So objects that have
outlived one search are excluded from the next ones (they are "frozen"). Reference counts free them
as ever; only rings of objects would stay, and a law of the tests says that turns leave none.
"""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (5_000, 2, 1_000_000)
"""New objects before the youngest are searched; such searches before those that outlived one are;
and of these before all are: never, :func:`tend` does that."""


def begin() -> None:
    """Search less often from now on; called before large lists are read."""
    settle()
    gc.set_threshold(*_SELDOM)


def settle() -> None:
    """Search what is not excluded yet, and exclude what stays."""
    gc.collect()
    gc.freeze()


def tend() -> None:
    """Settle once many objects have come since: such a search is short.

    Without effect in a process that has not called :func:`begin`.
    """
    if gc.get_threshold() == _SELDOM and gc.get_count()[2]:
        settle()
