"""Victims that disruption budgets protect: what a line may not offer at all, and not together.

A unit that a budget refuses counts as not taken before plugins judge those behind it: what stays
costs its queue nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.disruption import UNPROTECTED
from kaisched.core.refusals import Refusal
from kaisched.framework.disruption import charges_of, disruptions_left, has_budgets, is_within

if TYPE_CHECKING:
    from kaisched.actions.victim_line import VictimLine
    from kaisched.actions.victims import Victims
    from kaisched.core.axis import BoolVec, CodeVec, RowVec
    from kaisched.framework.claims import Claim, Units
    from kaisched.framework.session import Session

PROTECTED: Final = int(Refusal.DISRUPTION_BUDGET)


class Charges:
    """What the units of a line would cost which budget."""

    def __init__(self, session: Session, victims: Victims) -> None:
        """Look up the pods that are protected by some budget."""
        self._session = session
        self._victims = victims
        of_task = session.snapshot.disruption_budgets.of_task
        tasks = session.tasks.job_of_task[of_task != UNPROTECTED]
        places = np.isin(victims.job, tasks).nonzero()[0].tolist()
        found = ((place, charges_of(session, victims.part(place).tasks)) for place in places)
        self._of_place = {place: charges for place, charges in found if charges}
        self._places = np.array(list(self._of_place), np.int64)

    def hopeless(self) -> BoolVec:
        """``(V,)`` units that may not go by themselves; nor may a core without its elastic pods."""
        victims, left = self._victims, disruptions_left(self._session)
        stays = np.zeros(len(victims), np.bool_)
        for place, charges in self._of_place.items():
            stays[place] = not is_within(charges, left)
        if victims.split_off and stays.any():
            shut = np.isin(victims.job, victims.job[stays])
            stays |= shut & victims.is_core
        return stays

    def over(self, places: RowVec, sets: RowVec | None, refused: BoolVec) -> BoolVec:
        """``(K,)`` units beyond what budgets allow if those before them in their set are gone.

        Those ``refused`` stay for another reason and cost nothing.
        """
        beyond = np.zeros(len(places), np.bool_)
        left = disruptions_left(self._session)
        spent: Counter[int] = Counter()
        of_set = -1
        for at in (np.isin(places, self._places) & ~refused).nonzero()[0].tolist():
            if sets is not None and sets[at] != of_set:
                of_set = int(sets[at])
                spent = Counter()
            more = spent + self._of_place[int(places[at])]
            if is_within(more, left):
                spent = more
            else:
                beyond[at] = True
        return beyond

    def judge(
        self, claim: Claim, units: Units, places: RowVec, sets: RowVec | None = None
    ) -> CodeVec:
        """Return what budgets and plugins say of units, ``(K,)``.

        What plugins refuse costs no budget, so that another unit may take its part: then they are
        asked once more.
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


def judged(
    session: Session, line: VictimLine, claim: Claim, places: RowVec, sets: RowVec | None = None
) -> CodeVec:
    """Return codes ``(K,)`` of units of a line in order, or of several sets of them."""
    units = line.units(places, sets)
    if line.charges is None:
        return session.ask.scenario_gate(session, claim, units)
    return line.charges.judge(claim, units, places, sets)


def charges_in(session: Session, victims: Victims) -> Charges | None:
    """Return what units would cost; None where no budget counts."""
    return Charges(session, victims) if has_budgets(session) else None


def _as_codes(refused: BoolVec) -> CodeVec:
    return refused * np.int16(PROTECTED)
