"""Actions that a shard may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.actions.allocate import Allocate
from kaisched.actions.consolidate import Consolidate
from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.actions.stalegang import StaleGangs
from kaisched.actions.whole_jobs import Drain, TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.framework.policy import Action

ACTIONS: Final[Mapping[str, Callable[[], Action]]] = {
    "allocate": Allocate,
    "reclaim": Reclaim,
    "preempt": Preempt,
    "consolidate": Consolidate,
    "stalegang": StaleGangs,
    "drain": Drain,
    "timelimit": TimeLimit,
}
"""Makers of actions by name."""
