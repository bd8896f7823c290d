"""The victims of one claim by trying every set of them: slow, plain, and by the same rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from kaisched.actions.eviction.victims import as_units, victim_order
from kaisched.actions.order.gates import first_shut
from kaisched.core.axis import GPU
from kaisched.core.snapshot import Snapshot
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.framework.session.units import Claim, Unit


@dataclass(frozen=True)
class Choice:
    """A set of victims as places in the order in which they would go."""

    places: tuple[int, ...]
    pods: int
    gpus: int
    is_last_resort: bool


class Exhaustive:
    """All that could be done for the only pending job, whose pods are equal."""

    def __init__(self, snapshot: Snapshot, policy: Policy, action: str, now_s: float) -> None:
        ask = policy.questions
        self.session = session = Session(snapshot, None, policy, now_s, Memory(), ask)
        ask.open(session)
        jobs = snapshot.jobs
        (self.job,) = np.flatnonzero(jobs.pending > 0).tolist()
        tasks = np.asarray(jobs.tasks[self.job])
        self.shape = int(snapshot.tasks.shape_of_task[tasks[0]])
        self.count = len(tasks)
        self.request = snapshot.shapes.request[:, self.shape]
        queue = int(jobs.queue_of_job[self.job])
        self.claim = Claim(action, self.job, queue, self.request * self.count)
        self.units = self._units()
        self.gpus = [int(amount) for amount in as_units(session, self.units).amounts[GPU]]

    def _units(self) -> list[Unit]:
        session, jobs = self.session, self.session.jobs
        row, column = np.array([self.job]), self.claim.ask[:, None]
        codes = session.ask.claim_gate(session, self.claim.action, row, column)
        if codes is not None and codes[0]:
            return []
        runs = (jobs.active > 0) & jobs.is_preemptible
        if self.claim.action == "reclaim":
            runs &= jobs.queue_of_job != self.claim.queue
        else:
            runs &= jobs.queue_of_job == self.claim.queue
            runs &= jobs.priority < jobs.priority[self.job]
        victims = np.flatnonzero(runs)
        if not victims.size:
            return []
        codes = session.ask.victim_filter(session, self.claim, victims)
        if codes is not None:
            victims = victims[codes == 0]
        return list(victim_order(session, victims)) if victims.size else []

    def works(self, places: tuple[int, ...], *, is_last_resort: bool) -> bool:
        """Tell whether a set is allowed and makes room."""
        return self.makes_room(places) and self.is_allowed(places, is_last_resort=is_last_resort)

    def is_allowed(self, places: tuple[int, ...], *, is_last_resort: bool) -> bool:
        if not places:
            return True
        claim = replace(self.claim, pass_number=int(is_last_resort))
        units = as_units(self.session, [self.units[place] for place in places])
        return not np.any(self.session.ask.scenario_gate(self.session, claim, units))

    def makes_room(self, places: tuple[int, ...]) -> bool:
        """Tell whether the claim fits, by amounts and by the queues on its path."""
        session = self.session
        statement = session.statement()
        for place in places:
            for task in self.units[place].tasks:
                statement.evict(task)
        asked = np.flatnonzero(self.request)
        free = np.maximum(session.capacity.idle + session.capacity.releasing, 0)[asked]
        room = int((free // self.request[asked, None]).min(axis=0).sum())
        shut = first_shut(session, self.claim.action, self.job, self.claim.ask)
        statement.rollback()
        return room >= self.count and not shut

    def choices(self, *, is_last_resort: bool) -> Iterator[Choice]:
        """Yield every set that works."""
        for size in range(len(self.units) + 1):
            for places in combinations(range(len(self.units)), size):
                if self.works(places, is_last_resort=is_last_resort):
                    yield Choice(places, *self.cost(places), is_last_resort)

    def cost(self, places: tuple[int, ...]) -> tuple[int, int]:
        """Return how many pods are disturbed, and what GPUs they hold."""
        pods = sum(len(self.units[place].tasks) for place in places)
        return pods, sum(self.gpus[place] for place in places)

    def best(self) -> Choice | None:
        """Return the set that costs least, gentle if there is a gentle one.

        Of those that cost the same, the most important unit of some goes in none that is better.
        """
        for is_last_resort in (False, True):
            found = list(self.choices(is_last_resort=is_last_resort))
            if found:
                return min(found, key=lambda each: (each.pods, each.gpus, each.places[::-1]))
        return None

    def reached(self, *, is_last_resort: bool) -> tuple[int, ...]:
        """Return the units that may go one after the other, those refused left out."""
        claim = replace(self.claim, pass_number=int(is_last_resort))
        codes = self.session.ask.scenario_gate(
            self.session, claim, as_units(self.session, self.units)
        )
        return tuple(np.flatnonzero(np.asarray(codes) == 0).tolist()) if self.units else ()

    def prefix(self, *, is_last_resort: bool) -> tuple[int, ...] | None:
        """Return the shortest part of :meth:`reached` that makes room, or None."""
        places = self.reached(is_last_resort=is_last_resort)
        for size in range(len(places) + 1):
            if self.makes_room(places[:size]):
                return places[:size]
        return None
