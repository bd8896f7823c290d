"""The actions a shard may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.actions.allocate import Allocate
from kaisched.actions.consolidate import Consolidate
from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.actions.stalegang import StaleGangs
from kaisched.objects import kai_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.framework.policy import Action

ACTIONS: Final[Mapping[str, Callable[[], Action]]] = {
    "allocate": Allocate,
    "reclaim": Reclaim,
    "preempt": Preempt,
    "consolidate": Consolidate,
    "stalegang": StaleGangs,
}
"""By name, how each action of this version is made."""

LATER: Final = frozenset(kai_names.ACTIONS) - frozenset(ACTIONS)
"""Actions that a shard may name already; they are skipped with a line that says so."""
