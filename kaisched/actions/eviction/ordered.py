"""One pass over victims in an order that the policy gives: the first that suffice.

A claim that fits beside earlier claims of the cycle takes none. Else units are evicted in that
order until it fits; then each unit that the claim does not need is put back, the last first. The
policy's plan gate must accept the units that are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.actions.eviction.attempt import OVER_SHARE, Attempt
from kaisched.actions.eviction.plan import Plan
from kaisched.actions.eviction.victim_list import as_units
from kaisched.core.refusals import Refusal
from kaisched.framework.session.units import Going

if TYPE_CHECKING:
    from kaisched.core.axis import RowVec
    from kaisched.framework.session.claims import Unit
    from kaisched.framework.session.statement import Statement

    UnitList = list[Unit]


class OrderedAttempt(Attempt):
    """Searches a plan in one pass over units in the policy's order."""

    _has_steps = True

    def take_nobody(self) -> Plan | None:
        """Promise the claim what earlier claims of the cycle leave; None if it does not fit there.

        Without evictions in the cycle allocate has found already that there is no room, or has a
        reason not to take it.
        """
        if not (self._session.outcome.evictions and self._is_met() and self._gates_open()):
            return None
        statement = self._session.statement()
        if not self._wait(statement):
            statement.rollback()
            return None
        statement.pipeline_all()  # a limit of its queue may be met only once the victims are gone
        return Plan(statement, [], self.demand.claim.pass_number)

    def take_in_order(self, places: RowVec, left_out: int) -> Plan | int:
        """Take units in the order of ``places`` until the claim fits; return the plan or why not.

        ``left_out`` is the code that refuses the units which the order leaves out.
        """
        self._places, self._left_out = places, left_out
        statement = self._session.statement()
        chosen: UnitList = []
        for unit in self._offered():
            chosen.append(unit)
            for need in self._needs:
                need.take(unit.tasks)
            statement.evict_all(np.array(unit.tasks, np.int64))
            if self._fits(statement):
                break
            if not self._has_steps:
                statement.rollback()
                return int(Refusal.SEARCH_BUDGET)
        else:
            statement.rollback()
            return self._why_not()
        kept = self._put_back(statement, chosen)
        code = self._refusal(kept)
        if code:
            statement.rollback()
            return code
        self._nodes = self._needs[0].nodes_with_room()
        if not self._put(statement):  # it was placed just now, but with more room
            statement.rollback()
            return OVER_SHARE if OVER_SHARE in self._refused else int(Refusal.NO_VICTIMS)
        return Plan(statement, kept, self.demand.claim.pass_number)

    def _why_not(self) -> int:
        return self._left_out or super()._why_not()

    def _offered(self) -> UnitList:
        """Return the units that budgets and other plugins allow to evict, in order."""
        codes = self.victim_list.judged(self.demand.claim, self._places)
        self._refused.note_all(codes)
        places = self._not_shut(self._places.tolist(), codes.tolist())
        return [self.victim_list.unit(place) for place in places]

    def _fits(self, statement: Statement) -> bool:
        """Tell whether the claim fits now: by counts, queue gates, and if needed by placing it."""
        if not self._is_met() or not self._gates_open():
            return False
        if self._is_exact:
            return True
        self._has_steps = self._search.step()
        mark = statement.checkpoint()
        is_placed = self._has_steps and self._wait(statement)
        statement.rollback(mark)
        return is_placed

    def _put_back(self, statement: Statement, chosen: UnitList) -> UnitList:
        """Let units stay that the claim does not need, from the last but one to the first."""
        kept = list(chosen)
        going = Going(chosen[-1:])
        for unit in reversed(chosen[:-1]):
            if not going.takes(unit):
                rest = [other for other in kept if other is not unit]
                mark = statement.checkpoint()
                for task in unit.tasks:
                    statement.spare(task)
                for need in self._needs:
                    need.give_back(unit.tasks)
                if self._has_steps and self._fits(statement) and not self._refusal(rest):
                    kept = rest
                    continue
                statement.rollback(mark)
                for need in self._needs:
                    need.take(unit.tasks)
            going.add(unit)
        return kept

    def _refusal(self, units: UnitList) -> int:
        """Return the plan gate's refusal of evicting exactly these units, or 0."""
        session = self._session
        codes = session.ask.plan_gate(session, self.demand.claim, as_units(session, units))
        return 0 if codes is None or not codes.any() else int(codes[codes != 0][0])
