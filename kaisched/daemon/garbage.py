"""Python's search for cycles of garbage, which stops everything: seldom, not among what stays."""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (10_000, 20, 20)
"""Objects, and rounds of each generation, until the next is searched. A search of everything takes
longer than a cycle; with Python's own numbers one turn in ten met it."""


def settle() -> None:
    """Leave out what was read by now, for it lives long, and search the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
