"""The units that could make room for one class of claims, in the order in which they would go.

A class is an action's claims of one queue, shape, size and priority. The order is made once; units
that have gone since are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, overload

import numpy as np

from kaisched.actions.eviction.protected import charges_in
from kaisched.actions.eviction.victim_order import amounts_of, victims_in_order
from kaisched.core.axis import ACTIVE_STATES, GPU, PODS
from kaisched.framework.session.capacity import Holding
from kaisched.framework.session.claims import Units
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from kaisched.actions.eviction.victim_order import Victims
    from kaisched.actions.room.future import Future
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.claims import Claim, Unit
    from kaisched.framework.session.session import Session


class VictimList:
    """Victims in order, without the units that have gone or are protected."""

    def __init__(self, session: Session, job: RowVec) -> None:
        """Put the units of the running jobs of ``job`` in victim order."""
        self._session = session
        self.victims = victims_in_order(session, job)
        self.queues = frozenset(self.victims.queue.tolist())
        """The leaf queues of the victims."""
        self.places: RowVec = np.arange(len(self.victims))
        """Units that still run where they did and that may be evicted, in order."""
        self.charges = charges_in(session, self.victims)
        """What units cost disruption budgets; None where no budget counts."""
        self.protected: RowVec = self.places[:0]
        """Units that are left out because a budget refuses their eviction."""
        self._seen = len(session.outcome.evictions)
        if session.has_moved:
            self._forget_moved()
        self._forget_protected()
        self.least_gpus = int(self.victims.amounts[GPU].min(initial=UNLIMITED))
        """The fewest GPUs that a unit holds."""
        self.most_gpus = int(self.victims.amounts[GPU].max(initial=0))
        """The most GPUs that a unit holds."""
        self._most: dict[int, int] = {}
        self._pods: Pods | None = None
        self._places: tuple[RowVec, RowVec] | None = None
        """The places by job, and those jobs."""
        self._with_devices: dict[int, BoolVec | None] = {}
        self.begins_with = 2
        """How many units an attempt takes first: one where the last plan needed no more."""

    def unit(self, place: int) -> Unit:
        """Return the unit at a place."""
        return self.victims.unit(place)

    @property
    def pods(self) -> Pods:
        """The running pods of the units, looked up on first use."""
        if self._pods is None:
            self._pods = Pods(self._session, self.victims)
        return self._pods

    @property
    def sizes(self) -> RowVec:
        """``(V,)`` how many pods each unit has."""
        sizes: RowVec = self.victims.amounts[PODS]
        return sizes

    def with_devices_for(self, shapes: Sequence[int]) -> VictimList | None:
        """Return the list of the units with devices that do for one of the shapes.

        The others free GPUs by amounts, and use up what their queues may lose. None if that is not
        known, or no less than the whole list.
        """
        known = [self._have_devices(shape) for shape in shapes if self.places.size]
        if not known or any(each is None for each in known):
            return None
        have = np.logical_or.reduce([each for each in known if each is not None])
        return self._some(have)

    def freeing(self, needs: Sequence[tuple[Future, int]]) -> VictimList | None:
        """Return the list of the units that free what pods lack, on nodes that these may use.

        None if that is no less than the whole list.
        """
        free = np.zeros(len(self.victims), np.bool_)
        for future, count in needs:
            if future.total >= count:
                continue
            node, place, held = self.pods.by_node([at for at, _ in future.asked])
            lack = self._session.capacity.without().lack(future.asked, np.full(1, count))
            helps = ((held > 0) & (lack[:, node] > 0)).any(axis=0)
            if not future.is_plain:  # more than amounts decides
                helps = held.any(axis=0)
            if future.allowed is not None:
                helps &= future.allowed[node]
            free[place[helps]] = True
        return self._some(free)

    def along(self, place: int) -> list[int]:
        """Return the places of the list that go when the unit at a place goes."""
        along = self.victims.along.get(place) if self.victims.split_off else None
        found: list[int] = self.places[np.isin(self.places, along)].tolist() if along else []
        return found

    def _some(self, use: BoolVec) -> VictimList | None:
        """Return the list of some of the units; None for none or all of them.

        What goes along with a unit is in it too.
        """
        if self.victims.split_off:
            use = use.copy()
            for place in [at for at in self.victims.along if use[at]]:
                use[self.victims.along[place]] = True
        places = self.places[use[self.places]]
        if not 0 < len(places) < len(self.places):
            return None
        some = copy(self)
        some.places, some.begins_with = places, 2
        some._most = {}  # noqa: SLF001 - of this very class
        return some

    def _have_devices(self, shape: int) -> BoolVec | None:
        """``(V,)`` whether units have devices that do for a shape; None if that is not known."""
        devices = self._session.devices
        if shape not in self._with_devices and devices is not None:
            units = [self.victims.unit(place).tasks for place in range(len(self.victims))]
            tasks = np.array([task for some in units for task in some], np.int64)
            have = devices.have_some_for(shape, tasks)
            starts = np.cumsum([0, *(len(some) for some in units[:-1])])
            of_unit = None if have is None else np.logical_or.reduceat(have, starts)
            self._with_devices[shape] = of_unit
        return self._with_devices.get(shape)

    def units(self, places: RowVec, alternative: RowVec | None = None) -> Units:
        """Return units as columns, as one set or as several."""
        victims = self.victims
        return Units(
            victims.job[places],
            victims.queue[places],
            victims.amounts.take(places, axis=1),
            victims.is_core[places],
            _Tasks(victims, places),
            alternative,
        )

    def judged(self, claim: Claim, places: RowVec, sets: RowVec | None = None) -> CodeVec:
        """Return codes ``(K,)`` of units of the list in order, or of several sets of them."""
        units = self.units(places, sets)
        if self.charges is None:
            return self._session.ask.scenario_gate(self._session, claim, units)
        return self.charges.judge(claim, units, places, sets)

    def most(self, shape: int, allowed: BoolVec | None) -> int:
        """Return how many pods of a shape would fit if every unit of the list were gone.

        This is an upper bound for the whole action: room only shrinks, since claims take it.
        """
        known = self._most.get(shape)
        if known is None:
            known = self._most[shape] = self.room_without(self.places, shape, allowed)
        return known

    def room_without(self, places: RowVec, shape: int, allowed: BoolVec | None) -> int:
        """Return how many pods of a shape would fit if some units were gone."""
        capacity = self._session.capacity
        return int(capacity.room(shape, allowed, without=self.pods.holding(places)).sum())

    def forget_gone(self) -> None:
        """Drop the units that no longer run where they did.

        A job with moved pods keeps what they would be useless without.
        """
        evictions = self._session.outcome.evictions
        if self._seen == len(evictions):
            return
        victims, job_of_task = self.victims, self._session.tasks.job_of_task
        state = self._session.ledger.state
        gone: set[int] = set()
        moved: set[int] = set()
        for eviction in evictions[self._seen :]:
            has_moved = ACTIVE_STATES[state[eviction.task]]
            for place in self._places_of(int(job_of_task[eviction.task])):
                unit = victims.split_off.get(place)
                if unit is None or eviction.task in unit.tasks or (has_moved and unit.is_core):
                    gone.add(place)
                    moved |= {place} if has_moved else set()
        if victims.split_off and moved:
            gone.update(at for at, along in victims.along.items() if moved.intersection(along))
        self._seen = len(evictions)
        if len(gone) == 1 and len(self.places) and self.places[0] in gone:
            self.places = self.places[1:]  # it goes most often, and a slice costs nothing
        elif gone:
            left = np.array(sorted(gone), np.int64)
            at = self.places.searchsorted(left)
            at, left = at[at < len(self.places)], left[at < len(self.places)]
            self.places = np.delete(self.places, at[self.places[at] == left])
        self._forget_protected()

    def forget_first(self, count: int) -> None:
        """Drop the first units, just evicted; only where no job has several and no budget counts.

        The next search begins with one unit, as after a plan that needed no more.
        """
        self.places = self.places[count:]
        self._seen = len(self._session.outcome.evictions)
        self.begins_with = 1

    def _places_of(self, job: int) -> list[int]:
        """Return the places of a job's units."""
        if self._places is None:
            order = self.victims.job.argsort(kind="stable")
            self._places = order, self.victims.job.take(order)
        order, jobs = self._places
        begin, end = jobs.searchsorted((job, job + 1)).tolist()
        places: list[int] = order[begin:end].tolist()
        return places

    def _forget_protected(self) -> None:
        """Drop units that budgets refuse for the whole cycle."""
        if self.charges is not None:
            stays = self.charges.refused_alone()[self.places]
            self.protected = np.concatenate((self.protected, self.places[stays]))
            self.places = self.places[~stays]

    def _forget_moved(self) -> None:
        """Drop units with pods that this cycle has placed or moved: they do not run there yet."""
        session = self._session
        state, before = session.ledger.state, session.tasks.state
        moved = (state != before) & ACTIVE_STATES[state]
        if not moved.any():
            return
        tasks = set(moved.nonzero()[0].tolist())
        jobs = session.tasks.job_of_task[moved]
        stays = np.ones(len(self.victims), np.bool_)
        of_moved = np.isin(self.victims.job, jobs)
        stays[of_moved & self.victims.is_core] = False
        for place in (of_moved & ~self.victims.is_core).nonzero()[0].tolist():
            stays[place] = tasks.isdisjoint(self.victims.unit(place).tasks)
        for place in [at for at in self.victims.along if of_moved[at]]:
            stays[place] &= stays[self.victims.along[place]].all()
        self.places = self.places[stays[self.places]]


class Pods:
    """The running pods of a list's units: their nodes, amounts and units."""

    def __init__(self, session: Session, victims: Victims) -> None:
        """Read the present nodes of the pods."""
        tasks, state = session.tasks, session.ledger.state
        place_of_job = np.full(len(session.jobs.name) + 1, -1, np.int64)  # the last: of no job
        place_of_job[victims.job] = np.arange(len(victims))
        runs = ACTIVE_STATES[state] & (place_of_job[tasks.job_of_task] >= 0)
        if session.stranded is not None:
            runs &= ~session.stranded
        rows = runs.nonzero()[0]
        self._place: IntVec = place_of_job[tasks.job_of_task[rows]]
        if victims.split_off:
            at_row = {row: at for at, row in enumerate(rows.tolist())}
            for place, unit in victims.split_off.items():
                for task in unit.tasks:
                    if task in at_row:  # else it has gone meanwhile
                        self._place[at_row[task]] = place
        self._all = session.ledger.holding(rows)
        self._victims = victims
        self._by_node: tuple[RowVec, RowVec, Amounts] | None = None

    def is_among(self, places: RowVec) -> BoolVec:
        """Tell for every unit, ``(V,)``, whether it is at one of these places."""
        is_one = np.zeros(len(self._victims), np.bool_)
        is_one[places] = True
        return is_one

    def holding(self, places: RowVec) -> Holding:
        """Return what units hold."""
        if len(places) == len(self._victims):
            return self._all
        return self._all.some(self.is_among(places)[self._place].nonzero()[0])

    def by_node(self, wanted: list[int]) -> tuple[RowVec, RowVec, Amounts]:
        """Return nodes, places ``(P,)`` and amounts ``(R', P)``, by node and then by place.

        There is an entry for every node on which a unit has pods. What goes along with a unit, such
        as the elastic pods of a core, also has an entry, of amount 0, on every node of the unit.
        """
        if self._by_node is None:
            count = len(self._victims)
            key = self._all.nodes * count + self._place
            rows: Amounts = self._all.amounts
            missing = self._keys_along(key, count)
            if missing.size:
                key = np.concatenate((key, missing))
                rows = np.pad(rows, ((0, 0), (0, len(missing))))
            order = np.argsort(key, kind="stable")
            key, rows = key[order], rows.take(order, axis=1)
            starts = np.flatnonzero(np.diff(key, prepend=-1))
            if len(starts) < len(key):
                key, rows = key[starts], np.add.reduceat(rows, starts, axis=1)
            node, place = np.divmod(key, count)
            self._by_node = node, place, rows
        node, place, rows = self._by_node
        return node, place, rows[wanted]

    def _keys_along(self, key: IntVec, count: int) -> IntVec:
        along = self._victims.along if self._victims.split_off else {}
        missing = [
            entry - entry % count + place
            for entry in (set(key.tolist()) if along else ())
            for place in along.get(entry % count, ())
        ]
        return np.array(missing, np.int64)


class _Tasks(Sequence[tuple[int, ...]]):
    """The task rows of units, computed on access."""

    __slots__ = ("_places", "_victims")

    def __init__(self, victims: Victims, places: RowVec) -> None:
        self._victims = victims
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[tuple[int, ...], ...]: ...

    def __getitem__(self, at: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        places = self._places[at]
        if isinstance(at, slice):
            return tuple(self._victims.unit(place).tasks for place in places.tolist())
        return self._victims.unit(int(places)).tasks


def as_units(session: Session, units: list[Unit]) -> Units:
    """Return units as columns."""
    job = np.array([unit.job for unit in units], np.int64)
    return Units(
        job,
        session.jobs.queue_of_job[job],
        amounts_of(session, units),
        np.array([unit.is_core for unit in units], np.bool_),
        tuple(unit.tasks for unit in units),
    )
