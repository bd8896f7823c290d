"""Checks of a plugin's promises about itself, which save the host questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.session.session import Session

_DAY_S: Final = 86400.0
_HUGE: Final = 1 << 40


def broken_promises(plugin: Plugin, session: Session) -> Iterator[str]:
    """Yield each promise of the plugin that its answers in this session break."""
    for action in ("allocate", "reclaim", "preempt"):
        if not plugin.has_gates(session, action):
            yield from _closed_gates(plugin, session, action)


def _closed_gates(plugin: Plugin, session: Session, action: str) -> Iterator[str]:
    """Check the promise of open gates by requests far above any bound."""
    job = np.flatnonzero(session.jobs.queue_of_job >= 0)
    queue = session.jobs.queue_of_job[job]
    much = np.full((len(session.axis), len(job)), _HUGE, np.int64)
    codes: Any = plugin.queue_gate(session, action, queue, job, much, much, much)
    if codes is not None and np.asarray(codes).any():
        yield f"queue_gate: has_gates is False for {action}, but a gate is closed"
