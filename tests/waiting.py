"""Waiting for something to happen in another thread or process, on a machine of any speed."""

import time

PATIENCE_S = 150.0
"""For what takes milliseconds on a quiet machine: only what never happens takes so long.

It outlasts the minute after which a daemon asks again for what a server refused."""
_GLANCE_S = 0.01
_MOST_S = 1.0
"""So much of a pause between two glances counts: a machine that stood still has done nothing."""


def until(condition, seconds=PATIENCE_S, what="it"):
    """Wait for a condition, and return what it returned."""
    left_s, seen_s = seconds, time.monotonic()
    while left_s > 0:
        if found := condition():
            return found
        time.sleep(_GLANCE_S)
        now_s = time.monotonic()
        left_s -= min(now_s - seen_s, _MOST_S)
        seen_s = now_s
    raise AssertionError(f"{what} did not happen within {seconds:.0f} s")
