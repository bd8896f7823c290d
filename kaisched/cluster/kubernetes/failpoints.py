"""Named places in the code where tests kill the process, to check its restart.

``KAISCHED_FAILPOINT=bind.after_post:3`` kills the process the third time it gets there. The
variable is read once; without it a place costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

VARIABLE: Final = "KAISCHED_FAILPOINT"
POINTS: Final = (
    "snapshot.before",
    "apply.before",
    "apply.after",
    "bind.before_post",
    "bind.after_post",
    "evict.before_post",
    "evict.after_post",
    "status.before_patch",
    "status.after_patch",
)
SHARING_POINTS: Final = (
    "reserve.before_post",
    "reserve.after_post",
    "release.before_delete",
    "release.after_delete",
)
"""Those that are passed only where pods share GPUs."""
LOOKUP_POINTS: Final = ("lookup.before_write", "lookup.after_write")
"""Those that only pods pass which look up their GPU in a ConfigMap."""
CLAIM_POINTS: Final = ("claim.before_patch", "claim.before_put", "claim.after_put")
"""Those that only pods with claims on devices pass."""
_lock: Final = threading.Lock()


def _read() -> tuple[str, int]:
    name, _, times = os.environ.get(VARIABLE, "").partition(":")
    return name, int(times) if times.isdecimal() else 1


_wanted, _left = _read()


def passing(point: str) -> None:
    """Kill the process if the variable names this place."""
    if point != _wanted:
        return
    global _left  # noqa: PLW0603 - the process has one life
    with _lock:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
