"""A child ends with its parent, whatever ended that one.

A parent that is killed tells its children nothing, but the system gives them another parent.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 15.0
"""How long an orderly end may take; after it the process ends at once."""


def end_with(parent: int) -> None:
    """Let this process end as by SIGTERM once it is no longer a child of ``parent``."""
    threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    pause.wait(_PATIENCE_S)
    os._exit(1)
