"""Garbage collection: rarely, as it stops all threads, and never of long-lived objects.

A full search among the objects of 100,000 pods takes more than half a second. So objects that have
outlived one search are excluded from the next ones (they are "frozen"): after a cycle, and within
one that makes many, such as the first on a large cluster or those of ten shards at a time.
Reference counts free them as ever; only rings of objects would stay, and a law of the tests says
that cycles leave none.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Final

_USUAL: Final = gc.get_threshold()
_SELDOM: Final = (5_000, 2, 1_000_000)
"""New objects before the youngest are searched; such searches before those that outlived one are;
and of these before all are: never, :func:`tend` does that."""
_MIDDLE: Final = 1
"""The generation whose search moves what outlived it to the oldest objects."""
_MOST: Final = 4
"""So often may that have happened, some 15,000 objects each time, before they are excluded."""


def begin() -> None:
    """Search less often from now on; called before large lists are read."""
    settle()
    gc.set_threshold(*_SELDOM)
    if _exclude not in gc.callbacks:
        gc.callbacks.append(_exclude)


def end() -> None:
    """Restore Python's settings; frozen objects stay frozen."""
    gc.set_threshold(*_USUAL)
    if _exclude in gc.callbacks:
        gc.callbacks.remove(_exclude)


def settle() -> None:
    """Collect garbage, then freeze the objects that are left."""
    gc.collect()
    gc.freeze()


def tend() -> None:
    """Call :meth:`settle` when many objects are new: collecting these is quick.

    Without effect in a process that has not called :func:`begin`.
    """
    if gc.get_threshold() == _SELDOM and gc.get_count()[2]:
        settle()


def _exclude(phase: str, info: Mapping[str, int]) -> None:
    """Exclude the old objects before there are too many to search; called by every search.

    At the end of a search of the middle generation there are no younger objects than these, so that
    nothing is excluded that was not searched once.
    """
    if phase == "stop" and info["generation"] == _MIDDLE and gc.get_count()[2] >= _MOST:
        gc.freeze()
