"""How many evictions disruption budgets still allow in this cycle.

The number is what budgets allow, less what this cycle has decided to evict: a plan that is rolled
back costs nothing. Without budgets nothing is computed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.tables import SEVERAL, UNPROTECTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import IntVec
    from kaisched.framework.session.session import Session

_LEFT: Final = "disruptions"


def has_budgets(session: Session) -> bool:
    """Tell whether any disruption budget counts."""
    return bool(session.snapshot.disruption_budgets.name)


def disruptions_left(session: Session) -> IntVec:
    """``(B,)`` how many more pods of each budget may be evicted."""
    evictions = session.outcome.evictions
    known: tuple[int, IntVec] | None = session.found.get(_LEFT)
    if known is not None and known[0] == len(evictions):
        return known[1]
    budgets = session.snapshot.disruption_budgets
    left = budgets.allowed.copy()
    charged = budgets.of_task[[eviction.task for eviction in evictions]]
    np.subtract.at(left, charged[charged >= 0], 1)
    session.found[_LEFT] = (len(evictions), left)
    return left


def charges_of(session: Session, tasks: Iterable[int]) -> Counter[int]:
    """Return, by budget, how many evictions of running tasks count against it; SEVERAL included."""
    of_task = session.snapshot.disruption_budgets.of_task
    charges = Counter(int(of_task[task]) for task in tasks)
    del charges[UNPROTECTED]
    return charges


def is_within(charges: Counter[int], left: IntVec) -> bool:
    """Tell whether budgets allow these evictions together."""
    return SEVERAL not in charges and all(left[at] >= count for at, count in charges.items())


def may_disrupt(session: Session, tasks: Iterable[int]) -> bool:
    """Tell whether disruption budgets allow evicting running tasks together."""
    if not has_budgets(session):
        return True
    return is_within(charges_of(session, tasks), disruptions_left(session))
