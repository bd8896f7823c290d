"""Victims that disruption budgets protect: units that may not go at all, or not together.

A unit that a budget refuses counts as not taken when plugins judge the units behind it: a unit that
stays costs its queue nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES
from kaisched.core.refusals import Refusal
from kaisched.core.tables import UNPROTECTED
from kaisched.framework.session.disruptions_left import disruptions_left, has_budgets

if TYPE_CHECKING:
    from kaisched.actions.eviction.victim_order import Victims
    from kaisched.core.axis import BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.claims import Claim, Units
    from kaisched.framework.session.session import Session

PROTECTED: Final = int(Refusal.DISRUPTION_BUDGET)


class Charges:
    """How much each unit of a list would cost each disruption budget."""

    def __init__(self, session: Session, victims: Victims) -> None:
        """Look up the pods that are protected by some budget."""
        self._session = session
        self._victims = victims
        budgets = len(session.snapshot.disruption_budgets)
        place, budget = _charged(session, victims)
        keys, self._count = np.unique(place * (budgets + 2) + budget + 2, return_counts=True)
        self._place, budget = np.divmod(keys, budgets + 2)
        self._budget = budget - 2

    def refused_alone(self) -> BoolVec:
        """``(V,)`` units that budgets refuse even alone, and those that take such a unit along."""
        victims = self._victims
        left = np.append(disruptions_left(self._session), (0, 0))  # SEVERAL is -2
        stays = np.zeros(len(victims), np.bool_)
        stays[self._place[self._count > left[self._budget]]] = True
        if victims.split_off and stays.any():
            for place, along in victims.along.items():
                stays[place] |= stays[along].any()
        return stays

    def over(self, places: RowVec, sets: RowVec | None, refused: BoolVec) -> BoolVec:
        """``(K,)`` units that exceed a budget once the units before them in their set are gone.

        Units ``refused`` for another reason stay and cost nothing.
        """
        beyond = np.zeros(len(places), np.bool_)
        left = [*disruptions_left(self._session).tolist(), 0, 0]  # SEVERAL is -2
        spent: dict[int, int] = {}
        of_set = -1
        for at in (np.isin(places, self._place) & ~refused).nonzero()[0].tolist():
            if sets is not None and sets[at] != of_set:
                of_set = int(sets[at])
                spent = {}
            costs = self._costs_of(places[at])
            if all(spent.get(budget, 0) + count <= left[budget] for budget, count in costs):
                for budget, count in costs:
                    spent[budget] = spent.get(budget, 0) + count
            else:
                beyond[at] = True
        return beyond

    def _costs_of(self, place: np.int64) -> list[tuple[int, int]]:
        """Return what a unit costs, by budget."""
        first, end = np.searchsorted(self._place, (place, place + 1)).tolist()
        budgets, counts = self._budget[first:end].tolist(), self._count[first:end].tolist()
        return list(zip(budgets, counts, strict=True))

    def judge(
        self, claim: Claim, units: Units, places: RowVec, sets: RowVec | None = None
    ) -> CodeVec:
        """Return the codes of budgets and plugins for units, ``(K,)``.

        A unit that plugins refuse costs no budget, so that another unit may use that part. In that
        case plugins are asked once more.
        """
        session = self._session
        beyond = self.over(places, sets, np.zeros(len(places), np.bool_))
        codes = session.ask.scenario_gate(session, claim, units, _as_codes(beyond))
        again = self.over(places, sets, (codes != 0) & (codes != PROTECTED))
        if np.array_equal(beyond, again):
            return codes
        codes = session.ask.scenario_gate(session, claim, units, _as_codes(again))
        codes[self.over(places, sets, codes != 0)] = PROTECTED
        return codes


def _charged(session: Session, victims: Victims) -> tuple[IntVec, IntVec]:
    """Return the place of its unit and the budget of each protected pod that still runs."""
    of_task = session.snapshot.disruption_budgets.of_task
    tasks, state = session.tasks, session.ledger.state
    place_of_job = np.full(len(session.jobs.name) + 1, -1, np.int64)  # the last: of no job
    place_of_job[victims.job] = np.arange(len(victims))
    place_of_task = place_of_job[tasks.job_of_task]
    for place, unit in victims.split_off.items():
        place_of_task[list(unit.tasks)] = place
    rows = (of_task != UNPROTECTED) & (place_of_task >= 0) & ACTIVE_STATES[state]
    if session.stranded is not None:
        rows &= ~session.stranded
    return place_of_task[rows], of_task[rows]


def charges_in(session: Session, victims: Victims) -> Charges | None:
    """Return what units would cost budgets; None where no budget counts."""
    return Charges(session, victims) if has_budgets(session) else None


def _as_codes(refused: BoolVec) -> CodeVec:
    return refused * np.int16(PROTECTED)
