"""Settings of Python's garbage collector, whose searches stop all threads."""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (10_000, 20, 20)
"""Objects, and rounds of each generation, before the next one is searched. A full search takes
longer than a cycle; with Python's defaults one turn in ten had one."""


def settle() -> None:
    """Exclude the objects made so far, which live long, and search the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
